"""Thresholds of a pack's identity and classifier: measured on validation films, written into the pack."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from updp.domains.chest.labels import FINDINGS
from updp.models.pack import Pack
from updp.training.autoencoder import as_tensor
from updp.training.codes import codes_of, nearest
from updp.training.corpus import Corpus


def thresholds(
    pack: Pack, corpus: Corpus, identities: NDArray[np.float32], pictures: NDArray[np.float32]
) -> dict[str, Any]:
    """`identity_same`: one in a thousand pairs of different patients lies above. `identity_copy`, `pixel_copy`: one
    in a thousand unseen films lies nearer to a training film. `finding_present`: nine in ten films with the finding
    score above."""
    rows = corpus.rows("val")
    own, codes = codes_of(pack, corpus, rows)
    different = corpus.patients[rows][:, None] != corpus.patients[rows][None]
    same = float(np.quantile((own @ own.T)[different], 0.999))
    films = as_tensor(corpus.films[rows])
    with torch.no_grad():
        scores = torch.cat([pack.classifier.probabilities(films[i : i + 32]) for i in range(0, len(films), 32)]).numpy()
    present = {}
    for j, name in enumerate(FINDINGS):
        positive = scores[corpus.labels[rows, j] == 1, j]
        if len(positive) >= 5:
            present[name] = round(float(np.quantile(positive, 0.1)), 4)
    return {
        "identity_same": round(same, 4),
        "identity_copy": round(float(np.quantile(nearest(own, identities), 0.999)), 4),
        "pixel_copy": round(float(np.quantile(nearest(codes, pictures), 0.999)), 4),
        "finding_present": present,
    }
