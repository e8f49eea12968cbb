"""Sampling of the faces in ``src/updp/domains/face/invented``: MobileStyleGAN from noise, by OpenVINO.

Neither is a dependency. Unpack the wheel of ``random-face`` and install ``openvino``, then
``python tools/sample_invented_faces.py random_face/data OUT``. A person who looks at the samples decides
which of them are adults without glasses.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

SIDE = 256
#: How far a sample may lie from the mean face, as a share of where it fell: less is plainer, 1 is often broken.
TRUNCATION = 0.75
_MEAN_OF = 16


def invent(data: Path, out: Path, count: int, seed: int = 2024) -> int:
    """Write ``count`` faces, at most 256, from the networks in ``data``; the same seed gives the same faces."""
    import numpy as np
    import openvino
    from PIL import Image

    core = openvino.Core()
    # Without the hint OpenVINO computes in bfloat16 where the processor claims to.
    settings = {"INFERENCE_PRECISION_HINT": "f32"}
    mapping = core.read_model(data / "MappingNetwork.xml")
    mapping.reshape({"var": [256, 512]})
    styles = core.compile_model(mapping, "CPU", settings)
    synthesis = core.compile_model(core.read_model(data / "SynthesisNetwork.xml"), "CPU", settings)
    rng = np.random.default_rng(seed)

    def first(result: Any) -> Any:
        return next(iter(result.values()))

    drawn = [first(styles({"var": rng.normal(size=(256, 512)).astype(np.float32)})) for _ in range(_MEAN_OF)]
    mean = np.concatenate(drawn).mean(0, keepdims=True)
    out.mkdir(parents=True, exist_ok=True)
    for number, style in enumerate(drawn[0][:count]):
        image = first(synthesis({"style": (mean + TRUNCATION * (style - mean)).astype(np.float32)}))[0]
        pixels = np.clip((image + 1) / 2 * 255 + 0.5, 0, 255).transpose(1, 2, 0).astype(np.uint8)
        Image.fromarray(pixels).resize((SIDE, SIDE), Image.Resampling.LANCZOS).save(out / f"{number:03d}.png")
    return min(count, len(drawn[0]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--count", type=int, default=130)
    given = parser.parse_args()
    print(invent(given.data, given.out, given.count))
