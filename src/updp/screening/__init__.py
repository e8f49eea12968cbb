"""Screening: what identifies a patient in the DICOM header and in letters burned into the film."""

from updp.screening.statement import conformance

__all__ = ["conformance"]
