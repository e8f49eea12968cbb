"""Which language a report is written in: the detector reads English, and what it cannot read it must not release.

Words that only one language has are counted (``data/languages.toml``). A report in German, French, Spanish, Dutch,
Italian or Portuguese is recognised by them and refused with a reason. (Its headings open sections as English ones do,
so that the text gets here at all: ``sources/sections.json``.)
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache

from updp.reports.lexicon import LayerMissing, read_data

ENGLISH = "en"
#: So many different words of another language, and more than English has, make a report foreign.
_FEWEST = 3
_WORD = re.compile(r"[^\W\d_]{2,20}")
#: The language of a report shows in its beginning.
_READ = 4_000


@lru_cache(maxsize=1)
def _table() -> Mapping[str, Mapping[str, object]]:
    try:
        return tomllib.loads(read_data("languages.toml").decode())
    except tomllib.TOMLDecodeError as error:
        raise LayerMissing("the report detector's data file languages.toml is damaged; reinstall updp") from error


@lru_cache(maxsize=1)
def _words() -> dict[str, tuple[str, ...]]:
    """Word to the languages that have it."""
    out: dict[str, tuple[str, ...]] = {}
    for code, words in _table()["words"].items():
        for word in str(words).split():
            out[word] = (*out.get(word, ()), code)
    return out


def language(text: str) -> str:
    """The code of the language ``text`` is written in: "de", "fr", "es", "nl", "it", "pt", or "en" for any other."""
    text = text[:_READ].lower()
    if not text.isascii():
        text = "".join(
            c for c in unicodedata.normalize("NFKD", text.replace("ß", "ss")) if not unicodedata.combining(c)
        )
    known = _words()
    votes: Counter[str] = Counter()
    for word in set(_WORD.findall(text)):
        votes.update(known.get(word, ()))
    english = votes.pop(ENGLISH, 0)
    if not votes:
        return ENGLISH
    code, most = max(votes.items(), key=lambda item: item[1])
    return code if most >= _FEWEST and most > english else ENGLISH
