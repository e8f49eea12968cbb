"""Tables as spreadsheets and databases save them: which encoding, which delimiter.

UTF-8 and UTF-16 are known by their marks or form. Windows-1252 has neither; it is assumed where a table has bytes
beyond ASCII, not one of its lines is UTF-8, and all of them are letters of words under Windows-1252. A table with lines
of both kinds, or with stray bytes, is taken as UTF-8, and the rows that are not are refused one by one: nobody can say
what they mean.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Collection
from typing import BinaryIO

DELIMITERS = (",", ";", "\t", "|")
_LOOK = 20  # rows looked at to tell the delimiter
_CHUNK = 2**20
#: Letters beyond ASCII with no other beside them, which are no word of a language written in Windows-1252.
_WORDS = "àáâäåæèéêìíòóôöøùúÀÁÂÄÅÆÈÉÊÌÍÒÓÔÖØÙÚªº"
_ODD = r"[^\W\d_a-zA-Z]"
_STRAY = re.compile(rf"(?<![^\W\d_])(?:{_ODD}{{2,}}|(?![{_WORDS}]){_ODD})(?![^\W\d_])")


def encoding_of(raw: BinaryIO, *, legacy: bool = True) -> str:
    """The encoding of a table, which is read once and wound back. ``legacy`` allows Windows-1252."""
    head = raw.read(64)
    raw.seek(0)
    if head[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return "utf-16"
    if len(head) >= 4 and head.count(0) * 2 >= len(head) - 1:  # Latin text of two bytes a letter
        return "utf-16-le" if head[1] == 0 else "utf-16-be"
    if not legacy:
        return "utf-8"
    odd = 0
    for chunk in iter(lambda: raw.read(_CHUNK) + raw.readline(_CHUNK), b""):  # whole lines
        if chunk.isascii():
            continue
        for line in chunk.splitlines():
            if not line.isascii():
                try:
                    line.decode("utf-8")
                except UnicodeDecodeError:
                    odd += 1
                    if _STRAY.search(line.decode("cp1252", "surrogateescape")):
                        raw.seek(0)
                        return "utf-8"
                else:
                    raw.seek(0)
                    return "utf-8"
    raw.seek(0)
    return "cp1252" if odd else "utf-8"


class _Recoded(io.RawIOBase):
    """A file in another encoding, read as UTF-8; what it cannot mean stays undecodable."""

    def __init__(self, raw: BinaryIO, encoding: str) -> None:
        self.raw = raw
        # Undefined bytes of Windows-1252 come out as they are, and their rows are refused; half a letter of UTF-16 has
        # no such form and becomes the character that says so.
        errors = "surrogateescape" if encoding == "cp1252" else "replace"
        self.decoder = codecs.getincrementaldecoder(encoding)(errors)
        self.left = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        while not self.left:
            chunk = self.raw.read(_CHUNK)
            self.left = self.decoder.decode(chunk, final=not chunk).encode("utf-8", "surrogateescape")
            if not chunk:
                break
        count = min(len(buffer), len(self.left))
        buffer[:count], self.left = self.left[:count], self.left[count:]
        return count

    def close(self) -> None:
        self.raw.close()
        super().close()


def recoded(raw: BinaryIO, encoding: str) -> BinaryIO:
    """The file as UTF-8."""
    return raw if encoding == "utf-8" else io.BufferedReader(_Recoded(raw, encoding))  # type: ignore[type-var]


def delimiter_of(lines: list[str], known: Collection[str], default: str) -> str:
    """What stands between two columns: the sign that gives most known columns, and rows as wide as the header."""

    def fit(sign: str) -> tuple[int, int, int, bool]:
        try:
            header, *rows = csv.reader(lines[:_LOOK], delimiter=sign)
        except (csv.Error, ValueError):
            return 0, 0, 0, False
        names = {name.strip().lower() for name in header}
        alike = sum(len(row) == len(header) for row in rows) if len(header) > 1 else 0
        return len(names & set(known)), alike, len(header), sign == default

    return max(DELIMITERS, key=fit)
