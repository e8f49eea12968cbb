"""Eye diseases rendered on a photograph: parametric signs, each with an exact mask and with the landmarks it moves.

Everything is drawn in the eye's own frame (``domains.face.signs``): an enlarged patch with the lids' corners at ±0.5,
the inner corner to the right, lengths in widths of the eye. What a sign does not change keeps its pixels. A sign stands
for the disease's outward look and for nothing else: it is no simulation of tissue.

| name | clinical sign it stands for | parameter of the grades |
|---|---|---|
| Ptosis | upper lid droops over the pupil | share of the opening that is covered |
| TAO | lid retraction with sclera above the iris, proptosis | rise of the upper margin, magnification |
| Strabismus | one eye deviates inwards or outwards | shift of the iris in widths of the eye |
| Conjunctivitis | injection of the conjunctiva, strongest in the fornices | share of red, number of vessels |
| Uveitis | ciliary flush around the limbus, irregular pupil | share of red in the ring, irregularity |
| BCC | pearly nodule with rolled border, central ulcer, telangiectasia | radius |
| SCC | irregular red plaque with scales | radius |
| Entropion | lower lid turned inwards, lashes on the globe | rise of the lower margin |
| Eyelid_Nevus | sharp, dark, domed spot at the lid margin | radius |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from updp.domains.face.labels import GRADES
from updp.domains.face.landmarks import EYES, Eye
from updp.domains.face.signs import IRIS, coordinates, frame, iris, margins

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Plane = NDArray[np.float64]

#: Pixels of a patch, and how far it reaches from the middle of the eye, in widths of the eye.
SIDE, REACH = 208, 1.3
#: How far above the upper and below the lower margin the skin moves along with it.
LID_ABOVE, LID_BELOW = 0.45, 0.35
#: Whether a disease shows on both eyes.
BOTH = frozenset({"Conjunctivitis", "TAO"})


@dataclass(frozen=True)
class Sign:
    """How a person's disease looks; it is the same on every photograph of the person."""

    disease: str
    grade: str  # one of ``GRADES``
    side: str  # of the image, "left" or "right"; a disease of both eyes shows on both
    seed: int  # of texture, outline and place
    inwards: bool = True  # of a deviating eye

    @property
    def level(self) -> int:
        return GRADES.index(self.grade)


@dataclass(frozen=True)
class Rendered:
    """A photograph with a disease."""

    pixels: NDArray[np.float32]
    mask: NDArray[np.bool_]  # the lesion, or what the disease changes
    points: NDArray[np.float64]  # the landmarks, lids moved


@dataclass
class Patch:
    """One eye, enlarged and upright: what is drawn on."""

    pixels: Plane  # SIDE×SIDE×3
    s: Plane
    t: Plane
    upper: Plane  # margins at each pixel's place along the eye
    lower: Plane
    iris: tuple[float, float]
    rng: np.random.Generator
    level: int
    inwards: bool
    changed: Plane = field(default_factory=lambda: np.zeros((SIDE, SIDE)))  # how much of each pixel is new
    lesion: Plane = field(default_factory=lambda: np.zeros((SIDE, SIDE)))
    moved: dict[str, Callable[[Plane], Plane]] = field(default_factory=dict)  # "upper", "lower": t -> t of the margin
    magnified: float = 0.0

    @property
    def open(self) -> Plane:
        """1 between the lids, with soft edges."""
        inside = np.minimum(self.t - self.upper, self.lower - self.t)
        return np.where(np.abs(self.s) < 0.5, soft(inside), 0.0)

    @property
    def from_iris(self) -> Plane:
        """Distance from the centre of the iris in its radii."""
        return np.asarray(np.hypot(self.s - self.iris[0], self.t - self.iris[1]) / IRIS)

    def put(self, colour: Plane | tuple[float, float, float], share: Plane) -> None:
        """Lay a colour over the patch."""
        self.pixels = self.pixels + share[..., None] * (np.asarray(colour) - self.pixels)
        self.changed = np.maximum(self.changed, share)

    def at(self, s: Plane, t: Plane) -> Plane:
        """The patch's own colours at other places."""
        from scipy.ndimage import map_coordinates

        rows, columns = _place(t), _place(s)
        return np.stack(
            [map_coordinates(self.pixels[..., c], [rows, columns], order=1, mode="nearest") for c in range(3)], -1
        )

    def sclera(self) -> Plane:
        """The colour of the white of the eye, darker under the upper lid."""
        white = (self.open > 0.9) & (self.from_iris > 1.2)
        if white.sum() < 20:
            white = self.open > 0.9
        own = self.pixels[white] if white.any() else self.pixels.reshape(-1, 3)
        bright = own[own.mean(1) >= np.quantile(own.mean(1), 0.5)]
        depth = np.clip((self.t - self.upper) / 0.12, 0, 1)
        grain = self.rng.normal(0, 0.008, self.s.shape)
        return np.asarray(np.median(bright, 0) * (0.82 + 0.18 * depth)[..., None] + grain[..., None])

    def iris_colour(self) -> Plane:
        inside = (self.open > 0.9) & (self.from_iris < 0.9)
        own = self.pixels[inside] if inside.any() else np.array([[0.25, 0.17, 0.13]])
        return np.asarray(np.median(own, 0))


def soft(inside: Plane, edge: float = 0.015) -> Plane:
    """1 where a distance is positive and 0 where it is negative, with an edge of this width."""
    return np.asarray(np.clip(inside / edge + 0.5, 0.0, 1.0))


def _place(value: Plane) -> Plane:
    return np.asarray((value + REACH) / (2 * REACH) * (SIDE - 1))


# -- the diseases ----------------------------------------------------------------------------------------------------


def ptosis(patch: Patch) -> None:
    _lower_lid_to(patch, patch.upper + COVERED[patch.level] * (patch.lower - patch.upper))


#: Share of the opening that the upper lid covers, by grade.
COVERED = (0.25, 0.45, 0.68)


def _lower_lid_to(patch: Patch, margin: Plane) -> None:
    """The skin of the upper lid drawn down to a new margin, over the eye."""
    top = patch.upper - LID_ABOVE
    back = top + (patch.t - top) * (patch.upper - top) / (margin - top)
    within = soft(margin - patch.t) * soft(patch.t - top)
    drawn = patch.at(patch.s, back)
    shadow = soft(patch.t - margin) * np.clip(1 - (patch.t - margin) / 0.05, 0, 1) * patch.open
    patch.put(patch.pixels * 0.75, 0.6 * shadow)
    patch.put(drawn, np.where(np.abs(patch.s) < 0.5, within, 0.0))
    patch.lesion = np.where(np.abs(patch.s) < 0.5, soft(patch.t - patch.upper) * soft(margin - patch.t), 0.0)
    patch.moved["upper"] = _between(patch.s, patch.upper, margin)


def _between(s: Plane, before: Plane, after: Plane) -> Callable[[Plane], Plane]:
    """How far a margin moved, at places along the eye."""
    order = np.argsort(s[0])
    own, by = s[0][order], (after - before)[0][order]
    return lambda at: np.interp(at, own, by)


#: Rise of the upper and fall of the lower margin in heights of the opening, and magnification, by grade.
RETRACTED, LOWERED, PROPTOSIS = (0.25, 0.42, 0.6), (0.08, 0.15, 0.22), (0.05, 0.09, 0.14)


def tao(patch: Patch) -> None:
    height = patch.lower - patch.upper
    new_upper = patch.upper - RETRACTED[patch.level] * height
    new_lower = patch.lower + LOWERED[patch.level] * height
    top, bottom = patch.upper - LID_ABOVE, patch.lower + LID_BELOW
    above = top + (patch.t - top) * (patch.upper - top) / (new_upper - top)
    below = bottom - (bottom - patch.t) * (bottom - patch.lower) / (bottom - new_lower)
    inside = np.abs(patch.s) < 0.5
    skin_above, skin_below = patch.at(patch.s, above), patch.at(patch.s, below)
    # The old margins with their lashes are no part of the bared eye.
    kept = inside * soft(np.minimum(patch.t - patch.upper, patch.lower - patch.t) - 0.03)
    bared = inside * soft(patch.t - new_upper) * soft(new_lower - patch.t) * (1 - kept)
    within_iris = soft((1 - patch.from_iris) * IRIS)[..., None]
    eye = within_iris * patch.iris_colour() + (1 - within_iris) * patch.sclera()
    patch.put(eye, bared)
    patch.put(skin_above, np.where(inside, soft(new_upper - patch.t) * soft(patch.t - top), 0.0))
    patch.put(skin_below, np.where(inside, soft(patch.t - new_lower) * soft(bottom - patch.t), 0.0))
    patch.lesion = bared
    patch.moved = {
        "upper": _between(patch.s, patch.upper, new_upper),
        "lower": _between(patch.s, patch.lower, new_lower),
    }
    patch.magnified = PROPTOSIS[patch.level]
    shrunk = 1 - patch.magnified * _bulge(patch.s, patch.t)
    patch.pixels = patch.at(patch.s * shrunk, patch.t * shrunk)
    patch.changed = np.maximum(patch.changed, soft(_bulge(patch.s, patch.t) - 0.05))


def _bulge(s: Plane, t: Plane) -> Plane:
    return np.asarray(np.exp(-((s**2 + t**2) / 0.55**2)))


#: Shift of the iris in widths of the eye, by grade.
DEVIATION = (0.08, 0.13, 0.19)


def strabismus(patch: Patch) -> None:
    shift = DEVIATION[patch.level] * (1 if patch.inwards else -1)
    seen = patch.open
    moved_back = patch.at(patch.s - shift, patch.t)
    known = np.where(np.abs(patch.s - shift) < 0.5, soft(np.minimum(patch.t - patch.upper, patch.lower - patch.t)), 0)
    disc = soft((1.08 - np.hypot(patch.s - patch.iris[0] - shift, patch.t - patch.iris[1]) / IRIS) * IRIS, 0.03)
    old = soft((1.15 - patch.from_iris) * IRIS, 0.03)
    new_iris = known[..., None] * moved_back + (1 - known[..., None]) * patch.iris_colour()
    patch.put(patch.sclera(), seen * old)
    patch.put(new_iris, seen * disc)
    patch.lesion = seen * np.maximum(old, disc)


#: Share of red and number of vessels, by grade.
INJECTION, VESSELS = (0.22, 0.4, 0.6), (10, 22, 40)


def conjunctivitis(patch: Patch) -> None:
    white = patch.open * soft((patch.from_iris - 1.05) * IRIS, 0.03)
    fornix = np.clip(0.55 + 0.45 * np.minimum(patch.from_iris - 1, 1.5) / 1.5, 0, 1)
    _redden(patch, white * fornix * INJECTION[patch.level], (0.72, 0.22, 0.2))
    _vessels(patch, white, VESSELS[patch.level])
    patch.lesion = white


def _redden(patch: Patch, share: Plane, blood: tuple[float, float, float]) -> None:
    """Blood in the white of the eye: its brightness stays, its green and blue go."""
    brightness = patch.pixels.mean(-1, keepdims=True)
    patch.put(np.clip(np.asarray(blood) * (0.45 + brightness), 0, 1), share)


def _vessels(patch: Patch, where: Plane, count: int) -> None:
    """Winding lines from the corners towards the iris, thinner as they go."""
    from scipy.ndimage import gaussian_filter

    drawn = np.zeros((SIDE, SIDE))
    for _ in range(count):
        side = 1 if patch.rng.random() < 0.5 else -1
        s, t = side * patch.rng.uniform(0.3, 0.5), patch.rng.uniform(-0.14, 0.14)
        angle = np.pi if side > 0 else 0.0
        for step in range(34):
            angle += patch.rng.normal(0, 0.28)
            s, t = s + 0.008 * np.cos(angle), t + 0.008 * np.sin(angle)
            row, column = round(float(_place(np.array(t)))), round(float(_place(np.array(s))))
            if 0 <= row < SIDE and 0 <= column < SIDE:
                drawn[row, column] = max(drawn[row, column], 1 - step / 40)
    lines = np.clip(1.8 * gaussian_filter(drawn, 0.7), 0, 1)
    patch.put((0.62, 0.1, 0.1), 0.8 * lines * where)


#: Share of red in the ring around the iris, and irregularity of the pupil, by grade.
FLUSH, IRREGULAR = (0.3, 0.5, 0.7), (0.12, 0.22, 0.34)


def uveitis(patch: Patch) -> None:
    ring = patch.open * soft((patch.from_iris - 1.0) * IRIS, 0.03) * np.exp(-(((patch.from_iris - 1.0) / 0.55) ** 2))
    _redden(patch, ring * FLUSH[patch.level], (0.66, 0.2, 0.3))
    _vessels(patch, ring, 8 + 6 * patch.level)
    angle = np.arctan2(patch.t - patch.iris[1], patch.s - patch.iris[0])
    phase = patch.rng.uniform(0, 2 * np.pi, 2)
    amount = IRREGULAR[patch.level]
    outline = 0.42 * (1 + amount * np.cos(3 * angle + phase[0]) + 0.6 * amount * np.cos(5 * angle + phase[1]))
    pupil = patch.open * soft((outline - patch.from_iris) * IRIS)
    patch.put((0.05, 0.04, 0.05), 0.9 * pupil)
    patch.lesion = np.maximum(soft(ring - 0.3, 0.1), pupil)


#: Radii of tumours in widths of the eye, by grade.
BCC_RADIUS, SCC_RADIUS, NEVUS_RADIUS = (0.1, 0.15, 0.21), (0.12, 0.18, 0.25), (0.05, 0.08, 0.11)


def _spot(patch: Patch, radius: float, s: float, rough: float) -> tuple[Plane, Plane]:
    """Distance from a spot below the lower margin in its radii, and the angle; its outline is as rough as given."""
    margin = float(np.interp(s, patch.s[0], patch.lower[0]))
    ds, dt = patch.s - s, patch.t - (margin + 0.75 * radius + 0.02)
    angle = np.arctan2(dt, ds)
    phase = patch.rng.uniform(0, 2 * np.pi, 3)
    outline = 1 + rough * sum(np.cos(k * angle + p) / k for k, p in zip((2, 3, 5), phase, strict=True))
    return np.asarray(np.hypot(ds, dt) / (radius * outline)), angle


def bcc(patch: Patch) -> None:
    radius = BCC_RADIUS[patch.level]
    rho, angle = _spot(patch, radius, patch.rng.uniform(0.0, 0.3), 0.08)
    inside = soft((1 - rho) * radius)
    skin = patch.pixels[(rho > 1.1) & (rho < 1.8)]
    base = np.median(skin, 0) * (1.0, 0.82, 0.8)
    light = 0.12 * np.exp(-(((rho - 0.8) / 0.16) ** 2)) * (0.6 - 0.4 * np.sin(angle))  # a rolled border, lit from above
    patch.put(base + light[..., None] * np.array([1.0, 0.9, 0.88]), 0.9 * inside)
    patch.put((0.42, 0.1, 0.1), 0.75 * soft((0.38 - rho) * radius, 0.04))
    _telangiectasia(patch, rho, angle, inside)
    patch.lesion = inside


def _telangiectasia(patch: Patch, rho: Plane, angle: Plane, inside: Plane) -> None:
    for _ in range(3 + 2 * patch.level):
        turn, bend = patch.rng.uniform(-np.pi, np.pi), patch.rng.uniform(-0.8, 0.8)
        away = np.abs(np.angle(np.exp(1j * (angle - turn - bend * rho))))
        line = np.exp(-((away * rho / 0.07) ** 2)) * (rho > 0.4)
        patch.put((0.6, 0.12, 0.14), 0.55 * line * inside)


def scc(patch: Patch) -> None:
    from scipy.ndimage import gaussian_filter

    radius = SCC_RADIUS[patch.level]
    rho, _ = _spot(patch, radius, patch.rng.uniform(-0.25, 0.05), 0.22)
    inside = soft((1 - rho) * radius)
    patch.put((0.66, 0.3, 0.27), 0.8 * inside)
    noise = gaussian_filter(patch.rng.normal(size=(SIDE, SIDE)), 2.2)
    scales = soft(noise / noise.std() - 0.5, 0.5) * soft((0.85 - rho) * radius, 0.05)
    patch.put((0.9, 0.84, 0.7), 0.75 * scales)
    crust = soft(-noise / noise.std() - 1.2, 0.3) * inside
    patch.put((0.3, 0.1, 0.08), 0.7 * crust)
    patch.lesion = inside


def nevus(patch: Patch) -> None:
    radius = NEVUS_RADIUS[patch.level]
    rho, angle = _spot(patch, radius, patch.rng.uniform(-0.3, 0.25), 0.05)
    inside = soft((1 - rho) * radius)
    shade = 0.06 * (1 - np.clip(rho, 0, 1) ** 2) * (1 - np.sin(angle)) / 2
    patch.put(np.array([0.27, 0.17, 0.12]) + shade[..., None], 0.92 * inside)
    patch.lesion = inside


#: Rise of the lower margin in heights of the opening, by grade.
TURNED_IN = (0.12, 0.2, 0.3)


def entropion(patch: Patch) -> None:
    height = patch.lower - patch.upper
    margin = patch.lower - TURNED_IN[patch.level] * height
    bottom = patch.lower + LID_BELOW
    back = bottom - (bottom - patch.t) * (bottom - patch.lower) / (bottom - margin)
    inside = np.abs(patch.s) < 0.5
    patch.put(patch.at(patch.s, back), np.where(inside, soft(patch.t - margin) * soft(bottom - patch.t), 0.0))
    lesion = np.where(inside, soft(patch.t - margin) * soft(patch.lower - patch.t), 0.0)
    for place in np.linspace(-0.32, 0.32, 9 + 4 * patch.level):
        lean = patch.rng.normal(0, 0.1)
        along = (margin - patch.t) / 0.11  # 0 at the margin, 1 at the tip
        lash = np.exp(-(((patch.s - place - lean * 0.11 * along) / 0.007) ** 2))
        drawn = lash * soft(along * 0.11) * soft((1 - along) * 0.11) * patch.open
        patch.put((0.1, 0.07, 0.06), 0.8 * drawn)
        lesion = np.maximum(lesion, drawn)
    red = patch.open * soft(margin - patch.t) * np.exp(-(((margin - patch.t) / 0.1) ** 2))
    _redden(patch, 0.3 * red, (0.72, 0.22, 0.2))
    patch.lesion = lesion
    patch.moved["lower"] = _between(patch.s, patch.lower, margin)


DRAW: Mapping[str, Callable[[Patch], None]] = {
    "BCC": bcc,
    "Conjunctivitis": conjunctivitis,
    "Ptosis": ptosis,
    "SCC": scc,
    "Strabismus": strabismus,
    "TAO": tao,
    "Uveitis": uveitis,
    "Entropion": entropion,
    "Eyelid_Nevus": nevus,
}


# -- on a photograph -------------------------------------------------------------------------------------------------


def render(photo: NDArray[np.float32], points: NDArray[Any], sign: Sign | None) -> Rendered:
    """A photograph with a disease; without one it is the photograph as it is."""
    pixels, moved = photo.astype(np.float64), points.astype(np.float64).copy()
    mask = np.zeros(photo.shape[:2], bool)
    if sign is None:
        return Rendered(photo, mask, moved)
    for side in ("left", "right") if sign.disease in BOTH else (sign.side,):
        # The same stream for both eyes would draw the same vessels, mirrored.
        rng = np.random.default_rng([sign.seed, side == "left"])
        pixels, own = _on_eye(pixels, moved, EYES[side], sign, rng)
        mask |= own
    return Rendered(np.clip(pixels, 0, 1).astype(np.float32), mask, moved)


def _on_eye(
    photo: Plane, points: Plane, eye: Eye, sign: Sign, rng: np.random.Generator
) -> tuple[Plane, NDArray[np.bool_]]:
    from scipy.ndimage import gaussian_filter, map_coordinates

    middle, along, down, width = frame(points, eye)
    t, s = np.mgrid[-REACH : REACH : SIDE * 1j, -REACH : REACH : SIDE * 1j]
    x = middle[0] + width * (s * along[0] + t * down[0])
    y = middle[1] + width * (s * along[1] + t * down[1])
    pixels = np.stack([map_coordinates(photo[..., c], [y, x], order=1, mode="nearest") for c in range(3)], -1)
    upper, lower = margins(points, eye, s)
    patch = Patch(pixels, s, t, upper, lower, iris(photo, points, eye), rng, sign.level, sign.inwards)
    DRAW[sign.disease](patch)
    # Back to the photograph: the patch has more pixels than the eye there, so it is smoothed first.
    own_s, own_t = coordinates(photo.shape, points, eye)
    near = (np.abs(own_s) < REACH) & (np.abs(own_t) < REACH)
    places = [_place(own_t[near]), _place(own_s[near])]
    blur = max(0.0, 0.35 * SIDE / (2 * REACH * width))

    def back(plane: Plane) -> Plane:
        return np.asarray(map_coordinates(gaussian_filter(plane, blur), places, order=1))

    share = back(patch.changed)
    out = photo.copy()
    for c in range(3):
        out[near, c] += share * (back(patch.pixels[..., c]) - out[near, c])
    mask = np.zeros(photo.shape[:2], bool)
    mask[near] = back(patch.lesion) > 0.5
    _move(points, eye, patch, middle, along, down, width)
    return out, mask


def _move(points: Plane, eye: Eye, patch: Patch, middle: Plane, along: Plane, down: Plane, width: float) -> None:
    """The landmarks of the lids where the sign has brought them."""
    for name, rows in (("upper", eye.upper), ("lower", eye.lower)):
        index = list(rows)
        s = (points[index] - middle) @ along / width
        if name in patch.moved:
            points[index] += width * patch.moved[name](s)[:, None] * down
        if patch.magnified:
            t = (points[index] - middle) @ down / width
            points[index] += (points[index] - middle) * (patch.magnified * _bulge(s, t))[:, None]
