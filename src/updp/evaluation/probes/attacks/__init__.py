"""Attackers: what an adversary who adapts can learn from a release.

The adversary learns on the patients of the train split and is scored on the others (the protocol of Packhäuser et al.
2022, arXiv 2103.08562, with adversaries that know the method).
"""
