"""Films in DICOM files: reading the file, decoding its pixels, and the grey values a viewer would show.

Grey values beyond eight bits need a window. In order: the file's VOI LUT or window (PS3.3 C.11.2), the full range of an
8-bit film, else the range between two fixed percentiles of its own histogram. All three depend on the file alone.

A film that keeps its size and depth is read as stored (``stored``); ``view`` is then what a viewer would show of it.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from updp.core.global_state import quiet
from updp.core.native import Native
from updp.core.reasons import Reason, Refused

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from pydicom.dataset import FileDataset
from updp.imaging.grey import Window, check_size, checked, one_channel, stretched, unit_range

DICOMDIR = "1.2.840.10008.1.3.10"
_DEFLATED = "1.2.840.10008.1.2.1.99"
# Header, private elements and overlays of an inflated data set beyond its pixels.
_HEADER_ROOM = 64 * 2**20
#: What only films in colour or with a palette have; a film that is read as one grey channel has none of it.
_OF_COLOUR = (
    "PlanarConfiguration",
    "ICCProfile",
    "ColorSpace",
    "PaletteColorLookupTableUID",
    *(f"{colour}PaletteColorLookupTableDescriptor" for colour in ("Red", "Green", "Blue")),
    *(f"{colour}PaletteColorLookupTableData" for colour in ("Red", "Green", "Blue")),
    *(f"Segmented{colour}PaletteColorLookupTableData" for colour in ("Red", "Green", "Blue")),
)
_Read = TypeVar("_Read")


def read_dicom(path: Path, *, max_pixels: int | None = None) -> FileDataset:
    """The whole DICOM object at ``path``; a directory of objects (DICOMDIR) and damaged files are refused."""
    import pydicom

    try:
        with quiet():
            meta = pydicom.filereader.read_file_meta_info(path)
            if meta.get("MediaStorageSOPClassUID") == DICOMDIR:
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


def windowed(dataset: Any, *, max_pixels: int, min_side: int) -> tuple[NDArray[np.float32], Window]:
    """The film in a DICOM data set, and where its grey scale came from."""
    return _decoded(dataset, lambda ds: checked(*_shown(ds, ds.pixel_array)), max_pixels, min_side)


def stored(dataset: Any, *, max_pixels: int, min_side: int) -> Native:
    """The film in a DICOM data set as it is stored. Bits that are no part of a pixel (PS3.5 8.1.1) do not come along.

    A grey film stored in colour or with a palette becomes one channel of eight bits, and the data set says so.
    """
    return _decoded(dataset, _stored, max_pixels, min_side)


def view(dataset: Any, native: Native) -> NDArray[np.float32]:
    """What a viewer would show of a native film with this header."""
    with quiet():
        return _shown(dataset, native.values)[0]


def _decoded(dataset: Any, read: Callable[[Any], _Read], max_pixels: int, min_side: int) -> _Read:
    """What ``read`` makes of a data set whose size was found to be right; any error in it is a reason."""
    try:
        with quiet():
            if "PixelData" not in dataset:
                raise Refused(Reason.DICOM_NO_PIXELS)
            if int(dataset.get("NumberOfFrames") or 1) > 1:
                raise Refused(Reason.IMAGE_MULTIFRAME)
            height, width = int(dataset.Rows), int(dataset.Columns)
            check_size(height, width, max_pixels=max_pixels, min_side=min_side)
            _check_codestream(dataset, height, width)
            return read(dataset)
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


def _stored(dataset: Any) -> Native:
    kind = str(dataset.PhotometricInterpretation)
    if kind not in ("MONOCHROME1", "MONOCHROME2"):
        values = _grey(dataset, dataset.pixel_array)
        if values is None:
            raise Refused(Reason.IMAGE_NOT_GREY)
        for name in _OF_COLOUR:
            if name in dataset:
                delattr(dataset, name)
        dataset.SamplesPerPixel, dataset.PhotometricInterpretation = 1, "MONOCHROME2"
        dataset.BitsAllocated, dataset.BitsStored, dataset.HighBit, dataset.PixelRepresentation = 8, 8, 7, 0
        film = Native(values, 8)
        blank = bool(values.min() == values.max())
    else:
        allocated, bits = int(dataset.BitsAllocated), int(dataset.BitsStored)
        if allocated not in (8, 16) or not 2 <= bits <= allocated or int(dataset.HighBit) != bits - 1:
            raise Refused(Reason.IMAGE_NOT_NATIVE)
        values, blank = _own_bits(dataset, _values(dataset, allocated), bits)
        film = Native(values, bits, inverted=kind == "MONOCHROME1")
    if blank:
        raise Refused(Reason.IMAGE_BLANK)
    return film


def _values(dataset: Any, allocated: int) -> NDArray[Any]:
    """The pixels of a grey film. Uncompressed ones are taken as they lie: decoding copies them three times."""
    import numpy as np

    syntax = dataset.file_meta.TransferSyntaxUID
    kind = "i" if int(dataset.PixelRepresentation) else "u"
    wanted = np.dtype(f"<{kind}{allocated // 8}")
    height, width = int(dataset.Rows), int(dataset.Columns)
    if (syntax.is_compressed and syntax != _DEFLATED) or not syntax.is_little_endian:
        values = dataset.pixel_array
        if (values.dtype.kind, values.dtype.itemsize) != (wanted.kind, wanted.itemsize):  # stream and header disagree
            raise Refused(Reason.IMAGE_NOT_NATIVE)
        return np.asarray(values, wanted)
    if len(dataset.PixelData) < height * width * wanted.itemsize:
        raise Refused(Reason.DICOM_UNREADABLE)
    return np.frombuffer(dataset.PixelData, wanted, height * width).reshape(height, width)


def _own_bits(dataset: Any, values: NDArray[Any], bits: int) -> tuple[NDArray[Any], bool]:
    """The pixels without what older devices keep in the bits above them: an overlay, with the patient's name as a rule;
    and whether all have one value. Values beyond the stored bits without such an overlay mean that the header is wrong.
    """
    signed = values.dtype.kind == "i"
    lowest, highest = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    least, most = int(values.min()), int(values.max())
    if least >= lowest and most <= highest:
        return values, least == most
    positions = [dataset.get((group, 0x0102)) for group in range(0x6000, 0x6020, 2)]
    if not any(position is not None and int(position.value or 0) >= bits for position in positions):
        raise Refused(Reason.IMAGE_NOT_NATIVE)
    unused = 8 * values.dtype.itemsize - bits
    own = (values << unused) >> unused  # the sign comes along where there is one
    return own, bool(own.min() == own.max())


def _grey(dataset: Any, decoded: NDArray[Any]) -> NDArray[np.uint8] | None:
    """The one channel of a grey film that is stored in colour or with a palette; None for any other."""
    import numpy as np
    from pydicom.pixels.processing import apply_color_lut

    if str(dataset.PhotometricInterpretation) == "PALETTE COLOR":
        decoded = apply_color_lut(decoded, dataset)
        if decoded.dtype != np.uint8:
            decoded = (decoded >> 8).astype(np.uint8)
    if decoded.ndim != 3:
        return None
    if decoded.dtype != np.uint8:
        raise Refused(Reason.IMAGE_NOT_GREY)
    return one_channel(decoded)


def _shown(dataset: Any, stored: NDArray[Any]) -> tuple[NDArray[np.float32], Window]:
    """The grey values a viewer would show."""
    import numpy as np

    if (grey := _grey(dataset, stored)) is not None:
        return unit_range(grey), "full"
    inverted = str(dataset.PhotometricInterpretation) == "MONOCHROME1"
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
    return stretched(values, ignore=padding), "percentile"


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
