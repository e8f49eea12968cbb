"""Evaluation of a release, inside the hospital: attacks on it, and measures of its usefulness."""
