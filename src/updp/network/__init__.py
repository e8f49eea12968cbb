"""DICOM over the network (PS3.7, PS3.8): objects received into an export, fetched from a PACS, released films sent.

Needs the extra ``dicom-net`` (pynetdicom). Nothing here connects or listens unless a command says so.
"""
