"""Word lists with provenance: what may never leave (blacklist), what must survive (whitelist), names, words, places.

Detection reads them, and generation is steered by the same files. ``data/README.md`` says where each comes from.
"""

from __future__ import annotations

import gzip
import json
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from types import MappingProxyType


class LayerMissing(RuntimeError):
    """A layer of the detector cannot be loaded; nothing may be released without it."""


def read_data(name: str) -> bytes:
    """The bytes of a shipped data file; ``.gz`` files are unpacked."""
    try:
        raw = (resources.files("updp.reports") / "data" / name).read_bytes()
        return gzip.decompress(raw) if name.endswith(".gz") else raw
    except (OSError, EOFError, gzip.BadGzipFile) as error:
        raise LayerMissing(f"the report detector's data file {name} cannot be read; reinstall updp") from error


def _terms(name: str, table: str = "terms") -> Mapping[str, frozenset[str]]:
    try:
        groups = tomllib.loads(read_data(name).decode())[table]
    except (tomllib.TOMLDecodeError, KeyError, UnicodeDecodeError) as error:
        raise LayerMissing(f"the report detector's data file {name} is damaged; reinstall updp") from error
    return MappingProxyType({group: frozenset(words) for group, words in groups.items()})


@lru_cache(maxsize=1)
def blacklist() -> Mapping[str, frozenset[str]]:
    """Terms that announce or carry identity, by the seven groups of the UPDP paper."""
    return _terms("blacklist.toml")


@lru_cache(maxsize=1)
def prompt_blacklist() -> Mapping[str, frozenset[str]]:
    """Terms that may stay in a report but never steer a generated film: sex, age, origin."""
    return _terms("blacklist.toml", "prompt_terms")


@lru_cache(maxsize=1)
def whitelist() -> Mapping[str, frozenset[str]]:
    """Terms that must survive, by kind: pathology, modality, view, anatomy, tissue, ..."""
    return _terms("whitelist.toml")


@lru_cache(maxsize=1)
def _classes() -> Mapping[str, frozenset[str]]:
    try:
        table = tomllib.loads(read_data("word_classes.toml").decode())
    except tomllib.TOMLDecodeError as error:
        raise LayerMissing("the report detector's data file word_classes.toml is damaged; reinstall updp") from error
    return {
        name: frozenset(w.strip() for w in text.replace("\n", " ").split("," if "," in text else None))
        for name, text in table.items()
    }


def word_class(name: str) -> frozenset[str]:
    """A small class of words: titles, credentials, kin, months, ..."""
    return _classes()[name]


@lru_cache(maxsize=1)
def names() -> Mapping[str, str]:
    """Name to a three-letter code: how common as a given name (0-3), as a surname (0-3), and sex (F, M or U)."""
    return _coded("names.txt.gz")


@lru_cache(maxsize=1)
def vocabulary() -> Mapping[str, str]:
    """Word that is no name to "1" (known), "2" (common English) or "3" (used in real radiology reports)."""
    words = dict(_coded("vocabulary.txt.gz"))
    for line in read_data("extra_words.txt").decode().splitlines():
        if not line.startswith("#"):
            words |= {w: "2" for w in line.split() if words.get(w, "0") < "2"}
    return words


@lru_cache(maxsize=1)
def places() -> frozenset[str]:
    """Cities and counties, lower case without diacritics."""
    return frozenset(read_data("places.txt.gz").decode().split("\n"))


@lru_cache(maxsize=1)
def countries() -> frozenset[str]:
    """Names of countries, in small letters."""
    return frozenset(name.lower() for name in tomllib.loads(read_data("gazetteer.toml").decode())["countries"])


@lru_cache(maxsize=1)
def trigrams() -> Mapping[str, int]:
    """Letter triple to ten times the log-odds that it comes from a name rather than a word."""
    try:
        odds: dict[str, int] = json.loads(read_data("trigrams.json.gz"))
    except ValueError as error:
        raise LayerMissing("the report detector's data file trigrams.json.gz is damaged; reinstall updp") from error
    return odds


@lru_cache(maxsize=1)
def dicom_keywords() -> frozenset[str]:
    """Keywords of DICOM attributes in lower case; one word alone may be a town's."""
    from pydicom.datadict import keyword_dict

    return frozenset(name.lower() for name in keyword_dict if sum(c.isupper() for c in name) > 1)


@lru_cache(maxsize=1)
def surrogate_names() -> Mapping[str, tuple[str, ...]]:
    """The public pool surrogate names are drawn from: "surname", "F" and "M"."""
    return {k: tuple(v) for k, v in json.loads(read_data("surrogate_names.json.gz")).items()}


def _coded(name: str) -> Mapping[str, str]:
    """Words with their codes: one word per line, one mark per word, and what each mark stands for."""
    try:
        words, marks, table = read_data(name).decode().split("\0")
        codes = dict(pair.split(" ") for pair in table.split("\n"))
        return dict(zip(words.split("\n"), map(codes.__getitem__, marks), strict=True))
    except (ValueError, KeyError) as error:
        raise LayerMissing(f"the report detector's data file {name} is damaged; reinstall updp") from error
