"""An autoencoder of the first generation before any training: the best linear code, with normalised latents."""

from __future__ import annotations

import torch
from torch import Tensor

from updp.models.autoencoder import Autoencoder


@torch.no_grad()
def start_from_components(model: Autoencoder, films: Tensor) -> None:
    """Set the projection to the principal components of the films' patches, and the normalisation with it."""
    p = model.patch
    patches = torch.nn.functional.unfold(films, p, stride=p).transpose(1, 2).reshape(-1, p * p).double()
    mean = patches.mean(0)
    centred = patches - mean
    _, vectors = torch.linalg.eigh(centred.T @ centred / len(centred))
    basis = vectors.flip(1)[:, : model.channels].T.float()  # channels x p*p, largest variance first
    basis = (basis * torch.sign(basis.sum(1, keepdim=True))).reshape(model.channels, 1, p, p)
    model.mean.copy_(mean.float())
    model.project.weight.copy_(basis)
    model.expand.weight.copy_(basis)
    raw = model.encode(films)
    model.shift.copy_(raw.mean((0, 2, 3)))
    model.scale.copy_(raw.std((0, 2, 3)).clamp_min(1e-6))
