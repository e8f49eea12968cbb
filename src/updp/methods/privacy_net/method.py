"""Privacy-Net (Kim et al., TMI 2021): an encoder trained against a network that links encoded films.

A U-Net turns a film into another picture of the same shape; a classifier of findings and a segmentation of the lungs
are trained with it, and a Siamese discriminator learns to link pictures of one patient. The paper's encoder has one
weight between the two; here the weight is an input of the encoder and scales what it changes, so that one network
serves every ``strength`` and 0 is the film. Where the paper lets the encoder make the discriminator wrong without
bound, here it makes it uncertain.

The picture is for machines. A classifier that never saw such pictures misjudges it, which says little about what it
still shows: ``findings`` asks the classifier that was trained along.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from updp.core.record import Study
from updp.methods import method_info
from updp.methods.base import MethodInfo
from updp.methods.learned import Trained
from updp.methods.privacy_net.segmentation import Segmenter
from updp.methods.unet import SmallUNet
from updp.models.classifier import Classifier
from updp.models.errors import PackError

if TYPE_CHECKING:
    import numpy as np

PLACE = 4
#: The U-Net starts at zero; with this in front of it a few hundred steps reach any picture.
GAIN = 10.0


class Encoder(nn.Module):
    """Films to pictures in [0, 1], conditioned on the strength; untrained it gives the film itself."""

    def __init__(self, width: int = 24, pools: int = 3) -> None:
        super().__init__()
        self.config = {"width": width, "pools": pools}
        # Four by four pixels are one place: a sixteenth of the work at the largest maps.
        self.unet = SmallUNet(PLACE**2 + 1, PLACE**2, width, pools, negative_slope=0.2)

    def forward(self, films: Tensor, strength: Tensor) -> Tensor:
        places = functional.pixel_unshuffle(films, PLACE)
        asked = strength[:, None, None, None].expand(-1, 1, *places.shape[-2:])
        change = functional.pixel_shuffle(self.unet(torch.cat([places, asked], 1)), PLACE)
        return torch.sigmoid(torch.logit(films, 0.02) + GAIN * strength[:, None, None, None] * change)


class EncoderAndTask(nn.Module):
    """What is kept of the training: the encoder, and the networks that read its pictures. Weights of the first
    generation have no segmenter."""

    def __init__(
        self, encoder: dict[str, Any], classifier: dict[str, Any], segmenter: dict[str, Any] | None = None
    ) -> None:
        super().__init__()
        self.config: dict[str, Any] = {"encoder": encoder, "classifier": classifier}
        self.encoder = Encoder(**encoder)
        self.classifier = Classifier(**classifier)
        self.segmenter: Segmenter | None = None
        if segmenter is not None:
            self.config["segmenter"] = segmenter
            self.segmenter = Segmenter(**segmenter)


class PrivacyNet(Trained):
    info: ClassVar[MethodInfo] = method_info("privacy-net")
    Options = Trained.FirstOptions

    def build(self, config: dict[str, Any]) -> EncoderAndTask:
        return EncoderAndTask(**config)

    def make(self, studies: list[Study], films: Tensor, strength: float, rngs: list[np.random.Generator]) -> Tensor:
        made: Tensor = self.network.encoder(films, torch.full((len(films),), strength))
        return made

    def findings(self, films: Tensor) -> Tensor:
        """Probabilities of the co-trained classifier for released pictures N×1×S×S."""
        found: Tensor = self.network.classifier.probabilities(films)
        return found

    def lungs(self, films: Tensor) -> Tensor:
        """Lung fields N×1×64×64 that the co-trained segmenter sees in released pictures, as probabilities."""
        if self.network.segmenter is None:
            raise PackError("these weights of privacy-net have no segmentation; train them again")
        return torch.sigmoid(self.network.segmenter(films))
