"""Which keys come with more than one value, among any number of pairs, in flat memory.

The survey asks it of films and of studies and patients, assembly of contents and patients, the receiver of ids. Pairs
of 64-bit numbers are kept in memory up to a bound and in temporary files beyond it, by the first bits of the key.
"""

from __future__ import annotations

import hashlib
import tempfile
from array import array
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Pairs held in memory; files of pairs, of which one at a time is sorted.
_HELD, _BUCKETS = 2**17, 64


class Pairs:
    """Pairs of a key and a value: add all, then ask."""

    def __init__(self) -> None:
        self.held = array("Q")
        self.files: list[IO[bytes]] = []

    def __enter__(self) -> Pairs:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self.files:
            file.close()
        self.files.clear()

    def add(self, key: int, value: int) -> None:
        self.held.append(key)
        self.held.append(value)
        if len(self.held) == 2 * _HELD:
            self._spill()

    def _spill(self) -> None:
        if not self.files:
            self.files = [tempfile.TemporaryFile() for _ in range(_BUCKETS)]  # noqa: SIM115 - closed by __exit__
        pairs = self._table(self.held)
        places = (pairs[:, 0] // (2**64 // _BUCKETS)).astype("u1")
        for place, file in enumerate(self.files):
            file.write(pairs[places == place].tobytes())
        self.held = array("Q")

    def several(self) -> set[int]:
        """Keys that were added with two values or more."""
        if not self.files:
            return _several(self._table(self.held))
        self._spill()
        found: set[int] = set()
        for file in self.files:
            file.seek(0)
            found |= _several(self._table(file.read()))
        return found

    @staticmethod
    def _table(data: Any) -> NDArray[np.uint64]:
        import numpy as np

        return (np.frombuffer(data, np.uint64) if len(data) else np.empty(0, np.uint64)).reshape(-1, 2)


def _several(pairs: NDArray[np.uint64]) -> set[int]:
    import numpy as np

    keys, values = pairs[:, 0], pairs[:, 1]
    order = np.lexsort((values, keys))
    keys, values = keys[order], values[order]
    other = (keys[1:] == keys[:-1]) & (values[1:] != values[:-1])
    return set(keys[1:][other].tolist())


def number_of(text: str) -> int:
    """A 64-bit number of a name, to keep tables small."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
