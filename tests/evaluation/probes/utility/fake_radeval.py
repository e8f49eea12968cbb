"""The two classes of radeval that are used, in place of the package, and a folder as RadGraph wants one."""

from __future__ import annotations

import json
import sys
import types

import numpy as np


def install(monkeypatch) -> dict[str, dict]:
    """The two classes of radeval that are used, with their real signatures, and what they were called with."""
    calls: dict[str, dict] = {}

    class BERTScorer:
        def __init__(
            self, model_type=None, num_layers=None, lang=None, rescale_with_baseline=False, baseline_path=None
        ):
            calls["bertscore"] = locals().copy()

        def score(self, cands, refs, verbose=False, batch_size=64):
            scores = np.linspace(0.2, 0.8, len(cands))
            return scores - 1, scores + 1, scores

    class F1RadGraph:
        def __init__(self, reward_level, model_type=None, **kwargs):
            calls["radgraph"] = {"reward_level": reward_level, "model_type": model_type, **kwargs}

        def __call__(self, refs, hyps):
            assert isinstance(refs, list)
            scores = [0.5] * len(hyps)
            return (0.5, 0.4, 0.3), (scores, [0.4] * len(hyps), [0.3] * len(hyps)), [], []

    for name in ("radeval", "RadEval"):
        for part in ("", ".metrics", ".metrics.bertscore", ".metrics.bertscore._vendor", ".metrics.radgraph"):
            monkeypatch.setitem(sys.modules, name + part, types.ModuleType(name + part))
    sys.modules["radeval.metrics.bertscore._vendor"].BERTScorer = BERTScorer
    sys.modules["RadEval.metrics.radgraph"].F1RadGraph = F1RadGraph
    return calls


def radgraph_weights(folder, encoder: str):
    model = folder / "radgraph-xl"
    (model / "vocabulary").mkdir(parents=True)
    (model / "weights.th").touch()
    config = {"dataset_reader": {"token_indexers": {"bert": {"model_name": encoder}}}}
    (model / "config.json").write_text(json.dumps(config))
    return folder
