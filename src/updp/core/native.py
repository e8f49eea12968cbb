"""A film as its file stores it: whole numbers of the file's own depth, neither resampled nor windowed.

Where a policy keeps films native, this travels in a ``Study`` beside what is said of it. Methods and the painting of
burned-in text compute in [0, 1], white is dense; every stored value comes back from there as it was.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Native:
    """Stored values and what they mean."""

    values: NDArray[Any]  # H x W, 8 or 16 bits each, signed or not
    bits: int  # of which these are used
    inverted: bool = False  # large values are shown dark (MONOCHROME1)

    @property
    def signed(self) -> bool:
        return self.values.dtype.kind == "i"

    @property
    def lowest(self) -> int:
        """The smallest value that can be stored."""
        return -(2 ** (self.bits - 1)) if self.signed else 0

    def unit(self) -> NDArray[np.float32]:
        """All values that can be stored over [0, 1], white is dense. Depends on the depth alone, not on the film."""
        import numpy as np

        top = 2**self.bits - 1
        if not self.signed and not self.inverted:
            scaled: NDArray[np.float32] = np.multiply(self.values, np.float32(1 / top), dtype=np.float32)
            return scaled
        away = self.values.astype(np.float32)
        away -= np.float32(self.lowest)
        away *= np.float32(1 / top)
        return np.subtract(np.float32(1), away, out=away) if self.inverted else away

    def of(self, unit: NDArray[np.float32]) -> Native:
        """The film with these values, at the same depth; the reverse of ``unit``."""
        import numpy as np

        top = 2**self.bits - 1
        scaled = np.clip(unit, np.float32(0), np.float32(1))
        if self.inverted:
            np.subtract(np.float32(1), scaled, out=scaled)
        scaled *= np.float32(top)
        np.rint(scaled, out=scaled)
        scaled += np.float32(self.lowest)
        return replace(self, values=scaled.astype(self.values.dtype))
