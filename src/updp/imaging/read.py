"""A film from any file a hospital exports: height x width, float32 in [0, 1], white is dense.

Every film comes out alike (MONOCHROME2, DICOM PS3.3 C.7.6.3.1.2). Whatever cannot be read with certainty is refused
with a reason code; the size is taken from the header before anything is decoded, so a decompression bomb costs nothing.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from updp.core.native import Native
from updp.core.reasons import Reason, Refused

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
from updp.imaging.dicom import read_dicom, windowed
from updp.imaging.grey import Window
from updp.imaging.pictures import native_picture, read_picture


def read_film(path: Path, *, max_pixels: int, min_side: int) -> NDArray[np.float32]:
    """The film at ``path`` as height x width in [0, 1], white is dense."""
    return read_with_window(path, max_pixels=max_pixels, min_side=min_side)[0]


def read_with_window(
    path: Path, *, max_pixels: int, min_side: int, channels: int = 1
) -> tuple[NDArray[np.float32], Window]:
    """The image at ``path``, and where its grey scale came from; a DICOM film has one channel."""
    with _opened(path) as (file, dicom):
        if not dicom:
            return read_picture(file, max_pixels=max_pixels, min_side=min_side, channels=channels)
    if channels != 1:
        raise Refused(Reason.IMAGE_NOT_COLOUR)
    return windowed(read_dicom(path, max_pixels=max_pixels), max_pixels=max_pixels, min_side=min_side)


def read_native(path: Path, *, max_pixels: int, min_side: int) -> Native:
    """The picture at ``path`` at its own size and depth. A DICOM film comes with its header: ``imaging.dicom``."""
    with _opened(path) as (file, _):
        return native_picture(file, max_pixels=max_pixels, min_side=min_side)


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
