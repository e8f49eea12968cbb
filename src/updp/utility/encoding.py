"""What the pack's findings network sees in a film, kept by content: one pass serves every utility experiment.

Judges and captioners learn on maps from the middle of the network, which stays as it is. Its first blocks are
ImageNet's; the others learned from real films of the pack's own training patients, so what is measured is the use of
a release to someone who starts from such a network, not from nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from updp.utility import MissingRequirement
from updp.utility.base import Cache, key_of

if TYPE_CHECKING:
    from updp.models.pack import Pack

#: Part of every key: raise it when the meaning of a cached array changes.
EDITION = "utility encoding 1"
#: Blocks of EfficientNet-Lite0 whose maps are kept: the last at 1/16 of the size, and the last of all.
MIDDLE, LAST = "_blocks.10", "_blocks.15"
_BATCH = 32


@dataclass(frozen=True)
class Encoded:
    """Row ``i`` of every column is one film."""

    middle: NDArray[np.float16]  # N x 112 x h x w, at 1/32 of what the network looks at
    last: NDArray[np.float16]  # N x 320 x h x w, likewise
    features: NDArray[np.float32]  # N x 1280, below the head: the space of FD-classifier
    probabilities: NDArray[np.float32]  # N x findings of the pack's classifier

    def take(self, rows: NDArray[Any]) -> Encoded:
        return Encoded(self.middle[rows], self.last[rows], self.features[rows], self.probabilities[rows])


def fingerprint(pack: Pack, role: str) -> str:
    """What a role of the pack is, by content where the pack says it."""
    entry = pack.info["roles"].get(role, {})
    return key_of(entry, pack.info.get("sha256", {}).get(entry.get("file"), str(pack.path)))


def encode(films: NDArray[np.uint8], pack: Pack, cache: Cache | None) -> Encoded:
    """What the pack's classifier sees in these films."""
    import torch
    from torch.nn import functional

    from updp.models.backbone import FilmEncoder, pooled

    classifier: Any = pack.classifier
    encoder = getattr(classifier, "encoder", None)
    if not isinstance(encoder, FilmEncoder):
        raise MissingRequirement(f"the classifier of pack {pack.name} is an outside model: its maps cannot be read")
    key = key_of(EDITION, fingerprint(pack, "classifier"), films)
    if cache is not None and (held := cache.get(key)) is not None:
        return Encoded(**held)
    seen: dict[str, Any] = {}

    def keep(name: str) -> Any:
        def hook(_module: Any, _inputs: Any, output: Any) -> None:
            seen[name] = output

        return hook

    hooks = [encoder.backbone.get_submodule(name).register_forward_hook(keep(name)) for name in (MIDDLE, LAST)]
    parts: dict[str, list[Any]] = {"middle": [], "last": [], "features": [], "probabilities": []}
    try:
        with torch.no_grad():
            for start in range(0, len(films), _BATCH):
                batch = np.ascontiguousarray(films[start : start + _BATCH])
                features = pooled(encoder.maps(torch.from_numpy(batch).float()[:, None] / 255))
                side = seen[LAST].shape[-2:]
                middle = functional.adaptive_avg_pool2d(seen[MIDDLE], side)
                parts["middle"].append(middle.half().contiguous().numpy())
                parts["last"].append(seen[LAST].half().contiguous().numpy())
                parts["features"].append(features.numpy())
                parts["probabilities"].append(torch.sigmoid(classifier.head(features)).numpy())
    finally:
        for hook in hooks:
            hook.remove()
    if not len(films):
        raise ValueError("there are no films to look at")
    arrays = {name: np.concatenate(part) for name, part in parts.items()}
    if cache is not None:
        cache.put(key, arrays)
    return Encoded(**arrays)
