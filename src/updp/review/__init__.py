"""The review page and the reader study: people look at a release, decide, and are measured.

The officer's desk shows a release beside its originals and turns decisions into a new release. A reader study shows
original and released films blinded, and its analysis is part of the evidence. Both run inside the hospital.
"""
