"""Films in picture files (PNG, JPEG, TIFF, ...): opened by Pillow, turned upright, made grey."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

from updp.core.global_state import quiet
from updp.core.native import Native
from updp.core.reasons import Reason, Refused

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL import Image as PILImage
from updp.imaging.grey import Window, check_size, one_channel, stretched, unit_range

#: Formats handed to Pillow; the rest of its plugins (some start other programs) are not used.
FORMATS = ("PNG", "JPEG", "TIFF", "BMP", "WEBP", "GIF", "JPEG2000", "PPM")


def read_picture(
    file: BinaryIO, *, max_pixels: int, min_side: int, channels: int = 1
) -> tuple[NDArray[np.float32], Window]:
    with _upright_picture(file, max_pixels, min_side) as (image, inverted):
        if channels != 1:
            return _colour(image), "full"
        return _grey(image, inverted=inverted)


def native_picture(file: BinaryIO, *, max_pixels: int, min_side: int) -> Native:
    """The picture at its own size and depth: 8 bits, or 16 where the file has 16."""
    import numpy as np

    with _upright_picture(file, max_pixels, min_side) as (image, inverted):
        if image.mode.startswith("I") or image.mode == "F":
            if not image.mode.startswith("I;16"):
                raise Refused(Reason.IMAGE_NOT_NATIVE)
            values = np.asarray(image).astype(np.uint16)
            if values.min() == values.max():
                raise Refused(Reason.IMAGE_BLANK)
            return Native(~values if inverted else values, 16)
        return Native(np.rint(_grey(image, inverted=inverted)[0] * np.float32(255)).astype(np.uint8), 8)


@contextlib.contextmanager
def _upright_picture(file: BinaryIO, max_pixels: int, min_side: int) -> Iterator[tuple[PILImage.Image, bool]]:
    """The picture as it is to be shown, and whether its values still are inverted; what goes wrong is a reason."""
    try:
        # At level DEBUG Pillow logs the text tags of a TIFF, where scanners write the patient's name.
        with quiet(), _open(file) as image:
            check_size(image.height, image.width, max_pixels=max_pixels, min_side=min_side)
            if getattr(image, "n_frames", 1) > 1:
                raise Refused(Reason.IMAGE_MULTIFRAME)
            # Pillow inverts a white-is-zero TIFF (tag 262 = 0) of up to eight bits itself, but not a deeper one.
            inverted = image.format == "TIFF" and _tag(image, 262) == 0
            yield _upright(image), inverted
    except Refused:
        raise
    except MemoryError:
        raise Refused(Reason.IMAGE_TOO_LARGE) from None
    except Exception:  # decoders raise anything on damaged input, and say what they saw
        raise Refused(Reason.IMAGE_UNREADABLE) from None


@contextlib.contextmanager
def _open(file: BinaryIO) -> Iterator[PILImage.Image]:
    """Open a picture by its header alone; the policy's size limit stands in for Pillow's own."""
    from PIL import Image

    limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
    try:
        image = Image.open(file, formats=FORMATS)
    finally:
        Image.MAX_IMAGE_PIXELS = limit
    with image:
        yield image


def _upright(image: PILImage.Image) -> PILImage.Image:
    """The picture as EXIF says it is to be shown; an unturned film would be another film to every later station."""
    from PIL import ImageOps

    turned = ("exif" in image.info or image.format == "TIFF") and image.getexif().get(0x0112, 1) != 1
    return ImageOps.exif_transpose(image) if turned else image


def _grey(image: PILImage.Image, *, inverted: bool) -> tuple[NDArray[np.float32], Window]:
    import numpy as np

    if image.mode == "L" and "transparency" not in image.info:
        return unit_range(np.asarray(image)), "full"
    if image.mode.startswith("I") or image.mode == "F":
        return stretched(np.asarray(image), inverted=inverted), "percentile"
    if image.mode == "1":
        return unit_range(np.asarray(image.convert("L"))), "full"
    return unit_range(one_channel(np.asarray(_opaque(image).convert("RGB")))), "full"


def _colour(image: PILImage.Image) -> NDArray[np.float32]:
    """Red, green and blue, channels last; a picture that was stored as grey is none."""
    import numpy as np

    if image.mode in ("1", "L", "LA", "La", "F") or image.mode.startswith("I"):
        raise Refused(Reason.IMAGE_NOT_COLOUR)
    return unit_range(np.asarray(_opaque(image).convert("RGB")))


def _opaque(image: PILImage.Image) -> PILImage.Image:
    """What is transparent was not shown and must not become visible: the picture laid over black."""
    if image.mode not in ("LA", "PA", "RGBA", "La", "RGBa") and "transparency" not in image.info:
        return image
    from PIL import Image

    shown = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", shown.size, (0, 0, 0, 255)), shown)


def _tag(image: PILImage.Image, number: int) -> object:
    tags = getattr(image, "tag_v2", None)
    return None if tags is None else tags.get(number)
