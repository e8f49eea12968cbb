"""A canary sweep: search everything under a folder for strings that must not be there.

Used on the virtual hospital, where every identifier is known, and by anyone who has a list of what must not leave. A
file is searched under its own name, as bytes (UTF-8 and UTF-16), and as what it holds: DICOM elements, Parquet values,
JSON strings, text chunks of pictures, archives, embedded pictures of a page. Case and diacritics do not matter; in
numbers of six digits and more, neither do the separators between digits.
"""

from __future__ import annotations

import base64
import binascii
import bz2
import gzip
import html
import io
import json
import lzma
import re
import tarfile
import unicodedata
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Archives inside archives are opened this deep.
_DEPTH = 4
#: Fewer bytes turn up in compressed data by chance; such a string is looked for in decoded text only.
_LEAST_IN_BYTES = 6
_NUMBER = re.compile(r"\d(?:[ \t\-./()\u00a0]{0,2}\d)+")
_DATA_URI = re.compile(rb"data:[a-z]+/[a-z0-9.+-]+;base64,([A-Za-z0-9+/=]+)")


@dataclass(frozen=True, slots=True, order=True)
class Hit:
    """A canary that was found."""

    canary: str
    file: str  # path within the folder, or a part of it: "a.zip: b.txt"


class Net:
    """A set of strings ready to be looked for."""

    def __init__(self, canaries: Iterable[str]) -> None:
        import ahocorasick

        self._words, self._bytes = ahocorasick.Automaton(), ahocorasick.Automaton()
        self._numbers: dict[str, str] = {}
        for canary in sorted({c for c in canaries if c.strip()}):
            for form in {_folded(canary), _folded(json.dumps(canary)[1:-1]), _folded(html.escape(canary))}:
                self._words.add_word(form, (form, canary))
            for raw in _encoded(canary):
                self._bytes.add_word(raw, (raw, canary))
            digits = re.sub(r"\D", "", canary)
            if len(digits) >= 6 and not re.search(r"[^\W\d]", canary):
                self._numbers[digits] = canary
        self._longest = max(map(len, self._numbers), default=0)
        self._words.make_automaton()
        self._bytes.make_automaton()

    def text(self, text: str) -> set[str]:
        """The canaries in a text, as whole words."""
        folded = _folded(text)
        found = _whole(self._words, folded)
        for run in _NUMBER.finditer(folded):
            groups = re.findall(r"\d+", run.group())
            for first in range(len(groups)):
                digits = ""
                for group in groups[first:]:
                    digits += group
                    if (canary := self._numbers.get(digits)) is not None:
                        found.add(canary)
                    if len(digits) > self._longest:
                        break
        return found

    def data(self, data: bytes) -> set[str]:
        """The canaries in raw bytes: as text if they are text, else in the encodings a header may use."""
        if b"\0" not in data:
            try:
                return self.text(data.decode("utf-8"))
            except UnicodeDecodeError:
                pass
        return _whole(self._bytes, data.lower().decode("latin-1"))


def _encoded(canary: str) -> Iterator[str]:
    """The bytes a canary may be written as, each byte as one character, ASCII in lower case."""
    for codec in ("utf-8", "utf-16-le", "utf-16-be", "latin-1"):
        for form in {canary.lower(), canary.upper(), canary, _folded(canary)}:
            try:
                raw = form.encode(codec)
            except UnicodeEncodeError:
                continue
            if len(raw) >= _LEAST_IN_BYTES:
                yield raw.lower().decode("latin-1")


def _whole(automaton: Any, text: str) -> set[str]:
    """Matches that are not part of a longer word or number."""
    if not len(automaton):
        return set()
    return {
        canary
        for end, (form, canary) in automaton.iter(text)
        if not _joined(text, end - len(form), end - len(form) + 1) and not _joined(text, end, end + 1)
    }


def sweep(folder: Path, canaries: Iterable[str]) -> list[Hit]:
    """Every canary found under ``folder``, with the file it was found in."""
    net = Net(canaries)
    hits: set[Hit] = set()
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        hits |= {Hit(canary, name) for canary in net.text(name)}
        if path.is_file() and not path.is_symlink():
            hits |= {Hit(canary, part) for part, canary in _search(net, name, path.read_bytes(), _DEPTH)}
    return sorted(hits)


def _folded(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text.casefold())
    return "".join(c for c in plain if not unicodedata.combining(c))


def _joined(text: str, left: int, right: int) -> bool:
    """Whether the characters at two neighbouring places belong to one word or one number."""
    if left < 0 or right >= len(text):
        return False
    a, b = text[left], text[right]
    return (a.isalpha() and b.isalpha()) or (a.isdigit() and b.isdigit())


def _search(net: Net, name: str, data: bytes, depth: int) -> Iterator[tuple[str, str]]:
    for canary in net.data(data):
        yield name, canary
    for text in _texts(data):
        for canary in net.text(text):
            yield name, canary
    if depth:
        for part, inner in _parts(data):
            yield from ((f"{name}: {part}", canary) for canary in net.text(part))
            yield from _search(net, f"{name}: {part}" if part else name, inner, depth - 1)


# -- what a file holds -----------------------------------------------------------------------------------------------


def _texts(data: bytes) -> Iterator[str]:
    """Texts of a file that its bytes do not show."""
    head = data[:4]
    if data[128:132] == b"DICM":
        yield from _dicom(data)
    elif head == b"PAR1":
        yield from _parquet(data)
    elif head in (b"\x89PNG", b"GIF8", b"RIFF", b"II*\0", b"MM\0*") or data[:2] == b"\xff\xd8":
        yield from _picture(data)
    elif data.lstrip()[:1] in (b"{", b"["):
        yield from _json(data)
    elif b"&" in data and b"<" in data:
        yield html.unescape(data.decode("utf-8", "replace"))


def _dicom(data: bytes) -> Iterator[str]:
    import pydicom

    from updp.core.global_state import quiet

    try:
        with quiet():
            dataset = pydicom.dcmread(io.BytesIO(data), force=True)
            for element in [*dataset.file_meta, *dataset.iterall()]:
                if element.VR not in ("SQ", "OW", "OF", "OD"):
                    value = element.value
                    yield value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    except Exception:  # a damaged file has been searched as bytes
        return


def _parquet(data: bytes) -> Iterator[str]:
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(io.BytesIO(data)) as table:
            for pair in (table.schema_arrow.metadata or {}).items():
                yield from (part.decode("utf-8", "replace") for part in pair)
            for batch in table.iter_batches():
                for row in batch.to_pylist():
                    yield from _strings(row)
    except Exception:  # as above
        return


def _picture(data: bytes) -> Iterator[str]:
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data)) as image:
            image.load()
            for pair in image.info.items():
                for part in pair:
                    yield part.decode("utf-8", "replace") if isinstance(part, bytes) else str(part)
            yield from map(str, image.getexif().values())
    except Exception:  # as above
        return


def _json(data: bytes) -> Iterator[str]:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return
    try:
        yield from _strings(json.loads(text))
    except ValueError:
        for line in text.splitlines():
            try:
                yield from _strings(json.loads(line))
            except ValueError:
                continue


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield str(name)
            yield from _strings(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _strings(inner)
    elif value is not None and not isinstance(value, bool):
        yield str(value)
        if isinstance(value, str) and value[:1] in "{[" and len(value) > 2:  # JSON within JSON
            try:
                yield from _strings(json.loads(value))
            except ValueError:
                return


def _parts(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Files within a file: archives, compressed streams, embedded pictures, pixel data."""
    for number, match in enumerate(_DATA_URI.finditer(data)):
        try:
            yield f"embedded {number}", base64.b64decode(match.group(1), validate=True)
        except binascii.Error:
            continue
    try:
        if data[:2] == b"\x1f\x8b":
            yield "", gzip.decompress(data)
        elif data[:3] == b"BZh":
            yield "", bz2.decompress(data)
        elif data[:6] == b"\xfd7zXZ\0":
            yield "", lzma.decompress(data)
        elif data[:4] == b"PK\3\4":
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                for info in archive.infolist():
                    yield info.filename, archive.read(info)
        elif data[257:262] == b"ustar":
            with tarfile.open(fileobj=io.BytesIO(data)) as tar:
                for member in tar:
                    if (file := tar.extractfile(member)) is not None:
                        yield member.name, file.read()
        elif data[:4] == b"\x89PNG":
            yield from _png(data)
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile, tarfile.TarError, lzma.LZMAError, RuntimeError):
        return  # damaged, or locked; searched as bytes


def _png(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Chunks of a PNG, pixel data unpacked (ISO 15948, 5.3)."""
    at, packed = 8, b""
    while at + 8 <= len(data):
        length, kind = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        body = data[at + 8 : at + 8 + length]
        if kind == b"IDAT":
            packed += body
        elif kind == b"zTXt":
            yield "text", zlib.decompress(body.split(b"\0", 1)[1][1:])
        at += 12 + length
    if at < len(data) or data[at:]:
        yield "trailer", data[at:]
    if packed:
        yield "pixels", zlib.decompress(packed)
