"""Lexicons: seven groups, all eighteen classes, and a detector that will not work without any of its layers."""

from __future__ import annotations

import gzip
from collections.abc import Iterator

import pytest

from updp.reports import Detector, LayerMissing, lexicon
from updp.reports.categories import GROUPS, categories

_CACHED = (lexicon.names, lexicon.vocabulary, lexicon.places, lexicon.whitelist, lexicon.blacklist, lexicon.trigrams)


def test_the_blacklist_has_the_seven_groups_of_the_paper() -> None:
    assert tuple(lexicon.blacklist()) == GROUPS
    assert all(len(terms) > 20 for terms in lexicon.blacklist().values())


def test_the_whitelist_covers_every_kind() -> None:
    kinds = {
        "pathology",
        "modality",
        "view",
        "anatomy",
        "tissue",
        "normal",
        "devices",
        "eponyms",
        "negation",
        "laterality",
        "measurement",
    }
    assert set(lexicon.whitelist()) == kinds
    assert {"no", "without", "not"} <= lexicon.whitelist()["negation"]


def test_all_eighteen_safe_harbor_classes_map_onto_the_groups() -> None:
    letters = {c.safe_harbor for c in categories().values() if c.group}
    assert letters == set("ABCDEFGHIJKLMNOPQR")
    assert {c.group for c in categories().values()} == {*GROUPS, ""}


def test_lexicons_cannot_be_changed_by_a_reader() -> None:
    with pytest.raises(TypeError):
        lexicon.whitelist()["pathology"] = frozenset()  # type: ignore[index]


@pytest.fixture
def _fresh() -> Iterator[None]:
    for cached in _CACHED:
        cached.cache_clear()
    yield
    for cached in _CACHED:
        cached.cache_clear()


@pytest.mark.usefixtures("_fresh")
@pytest.mark.parametrize(
    "name",
    [
        "names.txt.gz",
        "vocabulary.txt.gz",
        "places.txt.gz",
        "patterns.toml",
        "gazetteer.toml",
        "whitelist.toml",
        "tagger.features.gz",
        "trigrams.json.gz",
    ],
)
def test_a_missing_layer_stops_the_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = lexicon.read_data

    def broken(wanted: str) -> bytes:
        if wanted == name:
            raise LayerMissing(f"the report detector's data file {wanted} cannot be read; reinstall updp")
        return real(wanted)

    for module in ("lexicon", "patterns", "gazetteer", "tagger"):
        monkeypatch.setattr(f"updp.reports.{module}.read_data", broken)
    with pytest.raises(LayerMissing, match=name):
        Detector()


@pytest.mark.usefixtures("_fresh")
@pytest.mark.parametrize(
    ("name", "rubbish"), [("patterns.toml", b"= ["), ("gazetteer.toml", b"x = 1"), ("whitelist.toml", b"[a]")]
)
def test_a_damaged_layer_stops_the_run(name: str, rubbish: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    real = lexicon.read_data
    for module in ("lexicon", "patterns", "gazetteer", "tagger"):
        monkeypatch.setattr(
            f"updp.reports.{module}.read_data", lambda wanted: rubbish if wanted == name else real(wanted)
        )
    with pytest.raises(LayerMissing, match="damaged"):
        Detector()


def test_a_truncated_file_is_a_missing_layer(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x.gz").write_bytes(gzip.compress(b"hello world" * 99)[:20])
    monkeypatch.setattr("updp.reports.lexicon.resources.files", lambda _: tmp_path)
    with pytest.raises(LayerMissing):
        lexicon.read_data("x.gz")
    with pytest.raises(LayerMissing):
        lexicon.read_data("not-there")
