"""Pixels of a film: read from any file a hospital exports, made square, written as PNG.

First and last touch of the image on its way through the flow. Every film comes out alike: height x width, float32 in
[0, 1], white is dense (MONOCHROME2, DICOM PS3.3 C.7.6.3.1.2). Whatever cannot be read with certainty is refused with a
reason code; the size is taken from the header before anything is decoded, so a decompression bomb costs nothing.

Grey values beyond eight bits need a window. In order: the file's VOI LUT or window (PS3.3 C.11.2), the full range of an
8-bit film, else the range between two fixed percentiles of its own histogram. All three depend on the file alone.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import stat
import struct
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from updp.core.reasons import Reason, Refused

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL import Image as PILImage
    from pydicom.dataset import FileDataset

Fit = Literal["pad", "crop", "stretch"]
#: Where the grey scale came from: the file's own window, all values of an 8-bit film, or percentiles.
Window = Literal["file", "full", "percentile"]

#: Share of pixels cut off at either end when a film of more than eight bits brings no window.
TAIL = 0.001
#: Two channels of a grey JPEG stored as colour differ by rounding only; a tint or a drawing differs by more.
COLOUR_SPREAD = 12
COLOUR_SHARE = 0.001
#: Mean grey value above which a bar is no longer one.
_BAR = 0.03
#: Filtered rows of a film are noise: searching them for repeats costs half the time of encoding and gains nothing.
#: Run lengths alone (Z_RLE) make smaller files than level 6 in a third of its time; the level then hardly matters.
PNG_LEVEL = 4
PNG_STRATEGY = zlib.Z_RLE
#: Formats handed to Pillow; the rest of its plugins (some start other programs) stay shut.
FORMATS = ("PNG", "JPEG", "TIFF", "BMP", "WEBP", "GIF", "JPEG2000", "PPM")

# At level DEBUG Pillow logs the text tags of a TIFF, where scanners write the patient's name.
logging.getLogger("PIL").setLevel(logging.WARNING)

_DICOMDIR = "1.2.840.10008.1.3.10"
_DEFLATED = "1.2.840.10008.1.2.1.99"
# Header, private elements and overlays of an inflated data set beyond its pixels.
_HEADER_ROOM = 64 * 2**20


# -- reading -----------------------------------------------------------------------------------------------------------


def read_film(path: Path, *, max_pixels: int, min_side: int) -> NDArray[np.float32]:
    """The film at ``path`` as height x width in [0, 1], white is dense."""
    return read(path, max_pixels=max_pixels, min_side=min_side)[0]


def read(path: Path, *, max_pixels: int, min_side: int) -> tuple[NDArray[np.float32], Window]:
    """The film at ``path``, and where its grey scale came from."""
    with _opened(path) as (file, dicom):
        if not dicom:
            return _picture(file, max_pixels=max_pixels, min_side=min_side)
    return windowed(read_dicom(path, max_pixels=max_pixels), max_pixels=max_pixels, min_side=min_side)


def is_dicom(path: Path) -> bool:
    """Whether the file carries the DICOM prefix (PS3.10 7.1); refuses what is missing, empty or no plain file."""
    with _opened(path) as (_, dicom):
        return dicom


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[tuple[BinaryIO, bool]]:
    """The file at its start, and whether it is DICOM."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise Refused(Reason.IMAGE_UNREADABLE)  # a pipe or device would block the worker
        file = open(path, "rb")  # noqa: SIM115 - closed below, errors of the body are not those of opening
    except (FileNotFoundError, NotADirectoryError):
        raise Refused(Reason.IMAGE_MISSING) from None
    except (OSError, ValueError):
        raise Refused(Reason.IMAGE_UNREADABLE) from None
    with file:
        try:
            head = file.read(132)
            file.seek(0)
        except OSError:
            raise Refused(Reason.IMAGE_UNREADABLE) from None
        if not head:
            raise Refused(Reason.IMAGE_EMPTY)
        yield file, head[128:] == b"DICM"


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence of readers that quote the data: pydicom's warnings and log lines show the values they complain about."""
    logger = logging.getLogger("pydicom")
    before, logger.disabled = logger.disabled, True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.disabled = before


# -- pictures ----------------------------------------------------------------------------------------------------------


def _picture(file: BinaryIO, *, max_pixels: int, min_side: int) -> tuple[NDArray[np.float32], Window]:
    try:
        with _open(file) as image:
            _check_size(image.height, image.width, max_pixels=max_pixels, min_side=min_side)
            if getattr(image, "n_frames", 1) > 1:
                raise Refused(Reason.IMAGE_MULTIFRAME)
            # Pillow inverts a white-is-zero TIFF (tag 262 = 0) of up to eight bits itself, but not a deeper one.
            inverted = image.format == "TIFF" and _tag(image, 262) == 0
            return _grey(_upright(image), inverted=inverted)
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
        return _unit(np.asarray(image)), "full"
    if image.mode.startswith("I") or image.mode == "F":
        return _stretched(np.asarray(image), inverted=inverted), "percentile"
    if image.mode == "1":
        return _unit(np.asarray(image.convert("L"))), "full"
    if image.mode in ("LA", "PA", "RGBA", "La", "RGBa") or "transparency" in image.info:
        # What is transparent was not shown, and must not come to light: lay the picture over the film's own black.
        from PIL import Image

        shown = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", shown.size, (0, 0, 0, 255)), shown)
    return _unit(_one_channel(np.asarray(image.convert("RGB")))), "full"


def _tag(image: PILImage.Image, number: int) -> object:
    tags = getattr(image, "tag_v2", None)
    return None if tags is None else tags.get(number)


def _one_channel(rgb: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The grey film in an RGB array; refuses a colour picture."""
    import numpy as np

    red, green, blue = rgb[..., 0], rgb[..., 1], rgb[..., 2]
    low, high = np.minimum(np.minimum(red, green), blue), np.maximum(np.maximum(red, green), blue)
    if np.count_nonzero(high - low > COLOUR_SPREAD) > COLOUR_SHARE * low.size:
        raise Refused(Reason.IMAGE_NOT_GREY)
    return np.ascontiguousarray(green)


# -- DICOM -------------------------------------------------------------------------------------------------------------


def read_dicom(path: Path, *, max_pixels: int | None = None) -> FileDataset:
    """The whole DICOM object at ``path``; a directory of objects (DICOMDIR) and damaged files are refused."""
    import pydicom

    try:
        with quiet():
            meta = pydicom.filereader.read_file_meta_info(path)
            if meta.get("MediaStorageSOPClassUID") == _DICOMDIR:
                raise Refused(Reason.DICOM_DIRECTORY)
            if meta.get("TransferSyntaxUID") == _DEFLATED and max_pixels is not None:
                _check_inflated(path, meta, 8 * max_pixels + _HEADER_ROOM)
            return pydicom.dcmread(path)
    except Refused:
        raise
    except FileNotFoundError:
        raise Refused(Reason.IMAGE_MISSING) from None
    except MemoryError:
        raise Refused(Reason.IMAGE_TOO_LARGE) from None
    except Exception:  # pydicom raises anything on damaged input, and quotes it
        raise Refused(Reason.DICOM_UNREADABLE) from None


def _check_inflated(path: Path, meta: Any, limit: int) -> None:
    """Refuse a deflated data set (PS3.5 A.5) that grows beyond ``limit`` bytes, without keeping what it grows to."""
    start = 132 + 12 + int(meta.FileMetaInformationGroupLength)
    inflate, size = zlib.decompressobj(-zlib.MAX_WBITS), 0
    with open(path, "rb") as file:
        file.seek(start)
        while not inflate.eof and (chunk := inflate.unconsumed_tail or file.read(2**16)):
            size += len(inflate.decompress(chunk, 2**22))
            if size > limit:
                raise Refused(Reason.IMAGE_TOO_LARGE)


def pixels_of(dataset: Any, *, max_pixels: int, min_side: int) -> NDArray[np.float32]:
    """The film in a DICOM data set as height x width in [0, 1], white is dense."""
    return windowed(dataset, max_pixels=max_pixels, min_side=min_side)[0]


def windowed(dataset: Any, *, max_pixels: int, min_side: int) -> tuple[NDArray[np.float32], Window]:
    """The film in a DICOM data set, and where its grey scale came from."""
    try:
        with quiet():
            if "PixelData" not in dataset:
                raise Refused(Reason.DICOM_NO_PIXELS)
            if int(dataset.get("NumberOfFrames") or 1) > 1:
                raise Refused(Reason.IMAGE_MULTIFRAME)
            height, width = int(dataset.Rows), int(dataset.Columns)
            _check_size(height, width, max_pixels=max_pixels, min_side=min_side)
            _check_codestream(dataset, height, width)
            return _checked(*_shown(dataset))
    except Refused:
        raise
    except MemoryError:
        raise Refused(Reason.IMAGE_TOO_LARGE) from None
    except Exception:  # as above
        raise Refused(Reason.DICOM_UNREADABLE) from None


def _check_codestream(dataset: Any, height: int, width: int) -> None:
    """Refuse compressed pixels whose own header tells another size than the data set: decoders believe the former."""
    syntax = dataset.file_meta.TransferSyntaxUID
    if not syntax.is_compressed or syntax == _DEFLATED:
        return
    from pydicom.encaps import get_frame

    found = codestream_size(get_frame(dataset.PixelData, 0, number_of_frames=1))
    if found is not None and found != (height, width):
        raise Refused(Reason.DICOM_UNREADABLE)


def codestream_size(data: bytes) -> tuple[int, int] | None:
    """Height and width a JPEG, JPEG-LS or JPEG 2000 stream announces; None for other streams."""
    if data[:4] == b"\xff\x4f\xff\x51":  # JPEG 2000: SOC, SIZ (ISO 15444-1 A.5.1)
        x1, y1, x0, y0 = struct.unpack_from(">4I", data, 8)
        return y1 - y0, x1 - x0
    if data[4:8] == b"jP  ":  # JPEG 2000 in a JP2 file
        at = data.find(b"ihdr")
        return struct.unpack_from(">2I", data, at + 4) if at >= 0 else None
    if data[:2] != b"\xff\xd8":
        return None
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF:  # fill byte
            at += 1
            continue
        # Start of frame: C0..CF but for DHT, JPG and DAC (ISO 10918-1 B.1.1.3), and F7 in JPEG-LS.
        if marker == 0xF7 or (0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC)):
            return struct.unpack_from(">2H", data, at + 5)
        at += 2 + int(struct.unpack_from(">H", data, at + 2)[0])
    return None


def _shown(dataset: Any) -> tuple[NDArray[np.float32], Window]:
    """The grey values a viewer would show."""
    import numpy as np
    from pydicom.pixels.processing import apply_color_lut

    stored = dataset.pixel_array
    kind = str(dataset.PhotometricInterpretation)
    if kind == "PALETTE COLOR":
        stored = apply_color_lut(stored, dataset)
        if stored.dtype != np.uint8:
            stored = (stored >> 8).astype(np.uint8)
    if stored.ndim == 3:
        if stored.dtype != np.uint8:
            raise Refused(Reason.IMAGE_NOT_GREY)
        return _unit(_one_channel(stored)), "full"
    inverted = kind == "MONOCHROME1"
    padding = _padding(dataset, stored)
    film, window = _window(dataset, stored, padding)
    if inverted:
        film = np.float32(1) - film
    if padding is not None:
        film[padding] = 0.0
    return film, window


def _window(
    dataset: Any, stored: NDArray[Any], padding: NDArray[np.bool_] | None
) -> tuple[NDArray[np.float32], Window]:
    import numpy as np
    from pydicom.pixels.processing import apply_modality_lut

    if "ModalityLUTSequence" in dataset:
        values = apply_modality_lut(stored, dataset)
    else:
        slope, intercept = float(dataset.get("RescaleSlope") or 1), float(dataset.get("RescaleIntercept") or 0)
        values = stored if (slope, intercept) == (1, 0) else stored.astype(np.float32) * np.float32(slope) + intercept
    film: NDArray[np.float32] | None = None
    if dataset.get("VOILUTSequence"):
        film = _by_table(dataset.VOILUTSequence[0], values)
    elif dataset.get("WindowCenter") is not None and dataset.get("WindowWidth") is not None:
        film = _by_centre_and_width(dataset, values)
    if film is not None and film.min() < film.max():
        return film, "file"
    bits = int(dataset.BitsStored)
    if values is stored and bits <= 8 and stored.dtype.kind == "u":
        return np.minimum(stored.astype(np.float32) / np.float32(2**bits - 1), np.float32(1)), "full"
    return _stretched(values, ignore=padding), "percentile"


def _by_centre_and_width(dataset: Any, values: NDArray[Any]) -> NDArray[np.float32] | None:
    """Window centre and width by the three functions of PS3.3 C.11.2.1.2 and C.11.2.1.3; None if they make no sense."""
    import numpy as np

    centre, width = _first(dataset.WindowCenter), _first(dataset.WindowWidth)
    function = str(dataset.get("VOILUTFunction") or "LINEAR").upper()
    if not (np.isfinite(centre) and np.isfinite(width)) or width < (1 if function == "LINEAR" else 1e-6):
        return None
    x = values.astype(np.float32)
    if function == "SIGMOID":
        with np.errstate(over="ignore"):
            return np.asarray(1 / (1 + np.exp(np.float32(-4 / width) * (x - np.float32(centre)))), dtype=np.float32)
    if function == "LINEAR":
        centre, width = centre - 0.5, max(width - 1, 1e-6)
    x -= np.float32(centre - width / 2)
    x *= np.float32(1 / width)
    return np.clip(x, 0, 1, out=x)


def _by_table(table: Any, values: NDArray[Any]) -> NDArray[np.float32]:
    """A VOI LUT (PS3.3 C.11.2.1.1). Entries of eight bits come one or two bytes each; both are met in the field."""
    import numpy as np

    entries, first, bits = (int(number) for number in table.LUTDescriptor)
    entries = entries or 2**16
    least = int(values.min())
    if first >= 2**15 and least < 0:  # written as unsigned where the pixels are signed
        first -= 2**16
    data = table.LUTData
    if isinstance(data, bytes):
        data = np.frombuffer(data, dtype=np.uint8 if len(data) < 2 * entries else "<u2")
    shown = np.asarray(data, dtype=np.float32)[:entries]
    # Some devices announce sixteen bits and fill twelve: the films would come out black.
    top = min(2**bits, 2 ** int(shown.max()).bit_length()) - 1
    scaled = np.clip(shown / np.float32(max(top, 1)), 0, 1)
    places = np.rint(values).astype(np.int64) - first
    return np.asarray(scaled[np.clip(places, 0, len(scaled) - 1)])


def _first(value: Any) -> float:
    return float(value if isinstance(value, int | float | str) else value[0])


def _padding(dataset: Any, stored: NDArray[Any]) -> NDArray[np.bool_] | None:
    """Pixels outside the exposed field (PS3.3 C.7.5.1.1.2), which say nothing about the range of the film."""
    value = dataset.get("PixelPaddingValue")
    if value is None:
        return None
    limit = dataset.get("PixelPaddingRangeLimit")
    low, high = sorted((int(value), int(value if limit is None else limit)))
    mask: NDArray[np.bool_] = (stored >= low) & (stored <= high)
    return mask if mask.any() else None


# -- grey scale --------------------------------------------------------------------------------------------------------


def _unit(values: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Eight bits over [0, 1]; refuses a film of one value."""
    if values.min() == values.max():
        raise Refused(Reason.IMAGE_BLANK)
    return _scaled(values)


def _scaled(values: NDArray[np.uint8]) -> NDArray[np.float32]:
    import numpy as np

    return np.multiply(values, np.float32(1 / 255), dtype=np.float32)


def _stretched(
    values: NDArray[Any], *, inverted: bool = False, ignore: NDArray[np.bool_] | None = None
) -> NDArray[np.float32]:
    """Values between two percentiles of the film's own histogram spread over [0, 1]."""
    import numpy as np

    counted = values if ignore is None else values[~ignore]
    if counted.size == 0 or not np.isfinite([counted.min(), counted.max()]).all():
        raise Refused(Reason.IMAGE_BLANK if counted.size == 0 else Reason.IMAGE_UNREADABLE)
    low, high = _percentiles(counted)
    if low == high:  # nearly all of one value: let what differs decide
        low, high = float(counted.min()), float(counted.max())
    if low == high:
        raise Refused(Reason.IMAGE_BLANK)
    film = values.astype(np.float32)
    film -= np.float32(low)
    film *= np.float32(1 / (high - low))
    np.clip(film, 0, 1, out=film)
    return np.float32(1) - film if inverted else film


def _percentiles(values: NDArray[Any]) -> tuple[float, float]:
    """The values below and above which lie ``TAIL`` of the pixels."""
    import numpy as np

    least = values.min()
    if values.dtype.kind in "iu" and int(values.max()) - int(least) < 2**16:
        # Counting is ten times faster than sorting, and exact.
        counts = np.cumsum(np.bincount((values.astype(np.int64) - int(least)).ravel()))
        cut = TAIL * values.size
        low, high = np.searchsorted(counts, [cut, values.size - cut])
        return float(int(least) + int(low)), float(int(least) + int(high))
    ordered = np.partition(values.ravel(), [int(TAIL * (values.size - 1)), int((1 - TAIL) * (values.size - 1))])
    return float(ordered[int(TAIL * (values.size - 1))]), float(ordered[int((1 - TAIL) * (values.size - 1))])


def _check_size(height: int, width: int, *, max_pixels: int, min_side: int) -> None:
    if height * width > max_pixels:
        raise Refused(Reason.IMAGE_TOO_LARGE)
    if min(height, width) < min_side:
        raise Refused(Reason.IMAGE_TOO_SMALL)


def _checked(film: NDArray[np.float32], window: Window) -> tuple[NDArray[np.float32], Window]:
    if film.min() == film.max():
        raise Refused(Reason.IMAGE_BLANK)
    return film, window


# -- square and encode -------------------------------------------------------------------------------------------------


def square(pixels: NDArray[Any], size: int, fit: Fit = "pad") -> NDArray[np.float32]:
    """The film as ``size`` x ``size``: padded with black, cropped at the centre, or stretched.

    Takes uint8, or float32 in [0, 1], which is resampled in eight bits too: the released film has no more, and an 8-bit
    film comes through unrounded. Bicubic with antialiasing; a film much larger than ``size`` is first averaged in whole
    blocks down to twice ``size``, which moves no pixel of a noisy film by more than one grey level.
    """
    import numpy as np
    from PIL import Image

    if fit not in ("pad", "crop", "stretch"):
        raise ValueError("fit is one of pad, crop, stretch")
    height, width = pixels.shape
    if (height, width) == (size, size):
        return _scaled(pixels) if pixels.dtype == np.uint8 else pixels.astype(np.float32, copy=False)
    box: tuple[float, float, float, float] = (0, 0, width, height)
    new_width = new_height = size
    if fit == "pad":
        longest = max(height, width)
        new_width, new_height = max(1, round(size * width / longest)), max(1, round(size * height / longest))
    elif fit == "crop":
        side = min(height, width)
        left, top = (width - side) // 2, (height - side) // 2
        box = (left, top, left + side, top + side)
    image = Image.fromarray(pixels if pixels.dtype == np.uint8 else _rounded(pixels))
    image = image.resize((new_width, new_height), Image.Resampling.BICUBIC, box=box, reducing_gap=2.0)
    small = _scaled(np.asarray(image))
    if (new_height, new_width) == (size, size):
        return small
    out = np.zeros((size, size), dtype=np.float32)
    top, left = (size - new_height) // 2, (size - new_width) // 2
    out[top : top + new_height, left : left + new_width] = small
    return out


def without_bars(pixels: NDArray[np.float32], shape: tuple[int, ...]) -> NDArray[np.float32]:
    """A film that was padded from ``shape`` without its bars; whole where a method has drawn over them."""
    size, (height, width) = pixels.shape[0], shape
    longest = max(height, width)
    rows, columns = (max(1, round(size * side / longest)) for side in (height, width))
    top, left = (size - rows) // 2, (size - columns) // 2
    # Half of a bar: a blur carries the film's edge into the other half.
    outer = [pixels[: top // 2], pixels[size - top // 2 :], pixels[:, : left // 2], pixels[:, size - left // 2 :]]
    if any(bar.size and float(bar.mean()) > _BAR for bar in outer):
        return pixels
    return pixels[top : top + rows, left : left + columns]


def grey8(pixels: NDArray[np.float32]) -> NDArray[np.uint8]:
    """The film in 256 grey values, as it is written."""
    import numpy as np

    return _rounded(np.clip(pixels, np.float32(0), np.float32(1)))


def _rounded(pixels: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Values within [0, 1] in eight bits, in strips that stay in the processor's cache."""
    import numpy as np

    out = np.empty(pixels.shape, dtype=np.uint8)
    strip = max(1, 2**15 // max(1, pixels.shape[1]))
    for top in range(0, pixels.shape[0], strip):
        part = np.multiply(pixels[top : top + strip], np.float32(255), dtype=np.float32)
        part += np.float32(0.5)
        out[top : top + strip] = part
    return out


def encode_png(pixels: NDArray[np.float32]) -> bytes:
    """The film as an 8-bit grey PNG: header, data and end chunk, nothing else; the same bytes for the same film."""
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(grey8(pixels)).save(out, "PNG", compress_level=PNG_LEVEL, compress_type=PNG_STRATEGY)
    return out.getvalue()
