"""A pack of method weights of the real classes, untrained and small, bound to a tiny pack."""

import numpy as np
import torch

from tests.conftest import draw
from updp.core.record import Study
from updp.methods.dcm.compensation import FeatureCompensator
from updp.methods.prichexy.method import Deformer
from updp.methods.privacy_net.method import EncoderAndTask
from updp.methods.privdiff.method import Denoiser
from updp.methods.train import export_method
from updp.models import load_pack


def tiny_weights(pack_folder, out):
    """Weights of all four learned methods, last layers stirred so that they do something."""
    pack = load_pack(pack_folder)
    roles = pack.info["roles"]
    spaces = {"space": pack.vlm.embed_texts([""]).shape[1], "context": pack.generator.condition([""]).states.shape[2]}
    torch.manual_seed(3)
    made = {
        "privdiff": Denoiser(roles["generator"]["config"], 16, roles["classifier"]["config"]["labels"], bank=2),
        "prichexy": Deformer(width=8, pools=2, side=32),
        "privacy-net": EncoderAndTask({"width": 8, "pools": 2}, roles["classifier"]["config"]),
        "dcm": FeatureCompensator(roles["classifier"]["config"], **spaces, channels=2, hidden=8, tokens=2),
    }
    for part in (made["prichexy"].unet.last, made["privacy-net"].encoder.unet.last):
        torch.nn.init.normal_(part.weight, std=1.0)
    for module in made["privdiff"].unet.modules():
        for name in ("last", "out"):
            layer = getattr(module, name, None)
            if isinstance(layer, torch.nn.Conv2d | torch.nn.Linear):
                torch.nn.init.normal_(layer.weight, std=0.1)
    for name, module in made.items():
        export_method(name, module, pack, out, ("autoencoder", "identity"))
    return out


def studies(count, first=0, **changes):
    made = [
        Study(f"f{n}", f"s{n}", f"p{n}", pixels=draw(n, 256).astype(np.float32) / 255, view="PA", labels=("Effusion",),
              age=50, sex="F")
        for n in range(first, first + count)
    ]  # fmt: skip
    return [study.but(**changes) for study in made]


def streams(count, seed=0):
    return [np.random.default_rng(seed + n) for n in range(count)]


def films(batch):
    return torch.from_numpy(np.stack([study.pixels for study in batch]))[:, None]
