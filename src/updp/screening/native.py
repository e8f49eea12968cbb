"""A native film before the text screen: what is looked at, and painting at the depth of the file.

What leaves are the stored values, and a receiver may set any window. So the screen looks at the film as its window
shows it, and, where values that the window cuts off differ from each other, at the whole range as well: a name written
white on white shows there alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from updp.core.native import Native
from updp.imaging.dicom import view
from updp.screening.painting import Rect, paint_out

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Share of all grey values by which pixels beyond one end of the window may differ without a further look.
HIDDEN = 0.02


@dataclass(frozen=True, slots=True)
class NativeFilm:
    """A film as stored, with the header that says how it is shown; a picture has none."""

    native: Native
    header: Any = None

    def views(self) -> Sequence[NDArray[np.float32]]:
        whole = self.native.unit()
        if self.header is None:
            return [whole]
        shown = view(self.header, self.native)
        hidden = any(_spread(whole[shown == end]) > HIDDEN for end in (shown.min(), shown.max()))
        return [shown, whole] if hidden else [shown]

    def painted(self, rects: Sequence[Rect], spare: Sequence[Rect]) -> NativeFilm:
        return replace(self, native=self.native.of(paint_out(self.native.unit(), rects, spare)))


def _spread(values: NDArray[np.float32]) -> float:
    return float(values.max() - values.min())
