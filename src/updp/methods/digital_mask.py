"""digital-mask: the face's mesh rendered without texture, after Digital Mask (Yang et al., Nature Medicine 2022).

The landmarks are triangulated and drawn as a grey surface lit from above; eyes, brows and lips are drawn as shapes, and
the iris where it stands. Colour, texture and everything around the face are gone, so lids and gaze stay and redness and
tumours do not. What is left is the geometry of the landmarks, which is the person's own: strength pulls it towards
the mean face, the parts around the eyes last.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from updp.methods import method_info
from updp.methods.base import MethodInfo
from updp.methods.options import MethodOptions
from updp.methods.per_image import PerFace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Drawn this much larger and then reduced, for smooth edges.
_LARGER = 3
_SKIN, _BACK, _WHITE, _IRIS, _LIP, _BROW = 0.72, 0.12, 0.94, 0.22, 0.5, 0.38


class DigitalMask(PerFace):
    info: ClassVar[MethodInfo] = method_info("digital-mask")

    class Options(MethodOptions):
        keep_eyes: bool = Field(
            True, description="Lids and gaze stay as they are at every strength; else they are pulled to the mean too."
        )

    options: Options

    def draw(self, pixels: NDArray[np.float32], points: NDArray[np.float64], strength: float) -> NDArray[np.float32]:
        from updp.domains.face.landmarks import EYES
        from updp.domains.face.signs import iris

        gaze = {side: iris(pixels, points, eye) for side, eye in EYES.items()}
        return draw(towards_mean(points, strength, self.options.keep_eyes), gaze, pixels.shape)


@lru_cache(maxsize=1)
def mean_face() -> NDArray[np.float64]:
    """The mean of the invented faces' landmarks: eyes at (-0.5, 0) and (0.5, 0)."""
    import numpy as np

    with resources.files("updp.methods").joinpath("mean_face.npz").open("rb") as file:
        return np.asarray(np.load(file)["points"], np.float64)


def upright(points: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Landmarks with the eyes at (-0.5, 0) and (0.5, 0), and what brings them back: a matrix and a place."""
    import numpy as np

    from updp.domains.face.landmarks import EYES, centre

    left, right = (centre(points, EYES[side]) for side in ("left", "right"))
    along = right - left
    turn = np.array([[along[0], -along[1]], [along[1], along[0]]])
    middle = (left + right) / 2
    return (points - middle) @ np.linalg.inv(turn).T, turn, middle


def towards_mean(points: NDArray[np.float64], amount: float, keep_eyes: bool) -> NDArray[np.float64]:
    """Landmarks pulled towards the mean face, head where and as large as it is; each eye as a whole, lids kept."""
    import numpy as np

    from updp.domains.face.landmarks import EYES, centre

    own, turn, middle = upright(points)
    mean = mean_face()
    out = own + amount * (mean - own)
    if keep_eyes:
        for eye in EYES.values():
            rows = list(eye.rim)
            out[rows] = own[rows] + amount * (centre(mean, eye) - centre(own, eye))
    return np.asarray(out @ turn.T + middle)


def draw(
    points: NDArray[np.float64], gaze: dict[str, tuple[float, float]], shape: tuple[int, ...]
) -> NDArray[np.float32]:
    """The mesh as a picture of this shape."""
    import numpy as np
    from PIL import Image, ImageDraw
    from scipy.spatial import ConvexHull, Delaunay

    from updp.domains.face.landmarks import EYES, OUTLINE
    from updp.domains.face.signs import IRIS, frame

    height, width = shape[:2]
    image = Image.new("L", (width * _LARGER, height * _LARGER), round(_BACK * 255))
    pen = ImageDraw.Draw(image)

    def place(rows: NDArray[np.float64]) -> list[tuple[float, float]]:
        return [(float(x) * _LARGER, float(y) * _LARGER) for x, y in rows]

    local, _, _ = upright(points)
    depth = _depth(local)
    rows = np.unique([*OUTLINE, *(row for eye in EYES.values() for row in eye.brow), *range(52, 87)])
    light = np.array([0.25, -0.55, 0.8])
    for triangle in Delaunay(local[rows]).simplices:
        corners = rows[triangle]
        a, b, c = (np.array([*local[row], depth[row]]) for row in corners)
        normal = np.cross(b - a, c - a)
        normal = normal / max(float(np.linalg.norm(normal)), 1e-9)
        normal = normal if normal[2] > 0 else -normal
        shade = _SKIN * (0.55 + 0.45 * max(0.0, float(normal @ light) / float(np.linalg.norm(light))))
        pen.polygon(place(points[corners]), fill=round(shade * 255))
    pen.polygon(place(points[[52, 64, 63, 71, 67, 68, 61, 58, 59, 53, 56, 55]]), fill=round(_LIP * 255))
    for side, eye in EYES.items():
        brow = points[list(eye.brow)]
        pen.polygon(place(brow[ConvexHull(brow).vertices]), fill=round(_BROW * 255))
        white = Image.new("L", image.size, 0)
        ImageDraw.Draw(white).polygon(place(points[list(eye.rim)]), fill=255)
        eyeball = Image.new("L", image.size, round(_WHITE * 255))
        middle, along, down, size = frame(points, eye)
        s, t = gaze[side]
        x, y = (middle + size * (s * along + t * down)) * _LARGER
        reach = IRIS * size * _LARGER
        ImageDraw.Draw(eyeball).ellipse((x - reach, y - reach, x + reach, y + reach), fill=round(_IRIS * 255))
        image.paste(eyeball, mask=white)
    small = np.asarray(image.resize((width, height), Image.Resampling.BOX)).astype(np.float32) / np.float32(255)
    return np.repeat(small[..., None], 3, axis=2) if len(shape) == 3 else small


def _depth(local: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far each landmark stands out: an ellipsoid of a head, with a nose on it."""
    import numpy as np

    from updp.domains.face.landmarks import NOSE_TIP

    x, y = local[:, 0], local[:, 1] - 0.45
    head = 0.9 * np.sqrt(np.clip(1 - (x / 1.25) ** 2 - (y / 1.6) ** 2, 0.02, 1))
    away = np.linalg.norm(local - local[NOSE_TIP], axis=1)
    return np.asarray(head + 0.35 * np.exp(-((away / 0.22) ** 2)))
