"""Made-up clinical text with labelled identifiers, to train the tagger on.

Carriers (``data/training_templates.txt``) are filled with names, numbers, dates and places; fillers and real report
sentences, given by path, carry no identity. A random state comes in, so that the same inputs give the same corpus.
Half the names are altered into names that nobody has: the tagger must learn where names stand, not which there are.
"""

from __future__ import annotations

import random
import re
import string
import tomllib
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from updp.reports.lexicon import names, places, read_data, vocabulary, whitelist, word_class

MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
#: Field of a carrier to label of the tagger; fields not named here carry no identity.
LABELS = {
    "N": "NAME",
    "NL": "NAME",
    "L": "NAME",
    "F": "NAME",
    "S": "NAME",
    "I": "NAME",
    "i": "NAME",
    "nm": "NAME",
    "fn": "NAME",
    "ln": "NAME",
    "CITY": "LOC",
    "ST": "LOC",
    "STC": "LOC",
    "CTRY": "LOC",
    "ZIP": "LOC",
    "PC": "LOC",
    "ADDR": "LOC",
    "PN": "NAME",
    "WN": "NAME",
    "WL": "NAME",
    "FI": "NAME",
    "S2": "NAME",
    "NICK": "NAME",
    "SHORT": "INST",
    "BARE": "INST",
    "BARE2": "INST",
    "GID": "ID",
    "HOSP": "INST",
    "COMP": "INST",
    "SCHOOL": "INST",
    "W": "UNIT",
    "R": "UNIT",
    "MRN": "ID",
    "ACC": "ID",
    "SSN": "ID",
    "ID": "ID",
    "DEV": "ID",
    "LIC": "ID",
    "NPI": "ID",
    "NHS": "ID",
    "ACCT": "ID",
    "PLAN": "ID",
    "PLATE": "ID",
    "VIN": "ID",
    "USER": "ID",
    "D": "DATE",
    "Y": "DATE",
    "MY": "DATE",
    "MON": "DATE",
    "WD": "DATE",
    "HOL": "DATE",
    "RD": "DATE",
    "YY": "DATE",
    "STAMP": "DATE",
    "T": "DATE",
    "PH": "CONTACT",
    "FAX": "CONTACT",
    "EM": "CONTACT",
    "URL": "CONTACT",
    "IP": "CONTACT",
    "EXT": "CONTACT",
    "HANDLE": "CONTACT",
    "AGE90": "AGE",
}
_FIELD = re.compile(r"\{([A-Za-z0-9]+)\}")
#: So many names are any word that is also borne as one.
_WORD_NAMES = 0.15
#: So many firms and schools are of a kind that is any word.
_ANY_TAIL = 0.4
#: One of several wordings of a carrier.
_CHOICE = re.compile(r"\(([^()]*\|[^()]*)\)")


def in_training(name: str) -> bool:
    """Whether a name may be used for training; the others are kept for tests."""
    return zlib.crc32(name.lower().encode()) % 5 != 0


@dataclass(frozen=True, slots=True)
class Labelled:
    """A text and its identifiers as (start, end, label)."""

    text: str
    spans: tuple[tuple[int, int, str], ...]


class Synthesizer:
    """Fills carriers. ``sentences`` are report sentences without identifiers."""

    def __init__(self, rng: random.Random, sentences: list[str]) -> None:
        self.rng = rng
        self.sentences = sentences
        self.fill: dict[str, list[str]] = tomllib.loads(read_data("training_fillers.toml").decode())
        lines = read_data("training_templates.txt").decode().splitlines()
        self.carriers = [line.replace("\\n", "\n") for line in lines if line and not line.startswith("#")]
        code = {n: c for n, c in names().items() if in_training(n)}
        self.given = {r: sorted(n for n, c in code.items() if c[0] == str(r)) for r in (1, 2, 3)}
        self.surnames = {r: sorted(n for n, c in code.items() if c[1] == str(r)) for r in (1, 2, 3)}
        words = vocabulary()
        self.word_names = sorted(n for n in self.surnames[3] if words.get(n, "0") >= "2")
        self.given_word_names = sorted(n for n in self.given[3] if words.get(n, "0") == "2" and len(n) > 3)
        # Of the names that are words, however rarely they are borne: the tagger must learn where names stand.
        self.rare_word_names, self.rare_given_words = (
            sorted(n for n, c in code.items() if c[at] >= "1" and words.get(n, "0") >= "2" and len(n) > 2)
            for at in (1, 0)
        )
        eponyms = {w for t in whitelist()["eponyms"] for w in t.split()}
        self.eponyms = sorted(n for n, c in code.items() if n in eponyms and max(c[:2]) >= "2")
        self.terms = sorted(t for t in whitelist()["eponyms"] if t.isalpha())
        lines = [line for line in read_data("extra_words.txt").decode().splitlines() if not line.startswith("#")]
        extra = sorted({w for line in lines for w in line.split() if w.isascii() and w.isalpha()})
        self.brands = [w for w in extra if len(w) > 4]
        self.letters = [w for w in extra if 2 < len(w) < 6]
        self.cities = sorted(places())
        white = {w for terms in whitelist().values() for t in terms for w in t.split()}
        self.nouns = sorted(w for w, r in words.items() if r == "2" and w.isalpha() and len(w) > 3 and w not in white)
        self._makers: dict[str, Callable[[], str]] = {
            "N": self._full,
            "NL": self._reversed,
            "L": self._surname,
            "F": self._given,
            "S": self._staff,
            "I": lambda: self._initials().upper(),
            "i": lambda: self._initials().lower(),
            "nm": lambda: rng.choice([self._full, self._full, self._surname])().lower(),
            "fn": lambda: self._given().lower(),
            "ln": lambda: self._surname().lower(),
            "PN": self._person,
            "WN": self._words,
            "FI": lambda: f"{self._given()} {rng.choice(string.ascii_uppercase)}{rng.choice(['.', '.', ''])}",
            "S2": lambda: f"{self._given()} {self._short_surname()}",
            "NICK": self._nicknamed,
            "SHORT": self._short_institution,
            "BARE": self._bare,
            "BARE2": lambda: f"{self._bare()} {self._one('bare_kinds')}",
            "WL": lambda: self._title(rng.choice(self.word_names)),
            "GID": lambda: self._form(self._one("grouped_numbers")),
            "CITY": self._city,
            "ST": self._state,
            "STC": lambda: rng.choice(sorted(word_class("state_codes"))),
            "CTRY": self._country,
            "ZIP": lambda: self._form(
                rng.choice([*["#####"] * 8, "#####-####", "####", "### ##", "######", "### ###", "#### @@"])
            ),
            "PC": self._postcode,
            "ADDR": self._address,
            "HOSP": self._hospital,
            "COMP": self._firm,
            "SCHOOL": lambda: rng.choice(
                [
                    f"{self._surname()} {self._tail('schools')}",
                    f"{self._city()} {self._tail('schools')}",
                    f"University of {self._city()}",
                    f"{self._surname()} College",
                    f"{self._given()} {self._surname()} Elementary",
                ]
            ),
            "W": self._ward,
            "R": lambda: rng.choice(
                [
                    self._n(1, 999),
                    f"{self._n(1, 99)}-{rng.choice('ABC')}",
                    f"{rng.choice('ABCDEFNSWE')}{self._n(10, 999)}",
                ]
            ),
            "MRN": self._mrn,
            "ACC": self._accession,
            "SSN": lambda: self._form(
                rng.choice(
                    [
                        *["###-##-####", "### ## ####", "#########"] * 2,
                        *["########-####", "######-####", "######-###@", "###.###.###-##", "#### #### ####"],
                        *["#####-#######-#", "#### ## ####", "###.##.###", "@#######@", "####", "#### ### ### ###"],
                    ]
                )
            ),
            "ID": lambda: self._form(
                rng.choice(
                    [
                        "######",
                        "########",
                        "#######",
                        "A#####",
                        "@@-####",
                        "@@###/#####",
                        "#####-###",
                        "@#######",
                        "####-##-##",
                    ]
                )
            ),
            "DEV": lambda: self._form(
                rng.choice(
                    [
                        "@@@######",
                        "########",
                        "@/###",
                        "@@## ### ###",
                        "@@/#",
                        "@@#####@",
                        "@##-####-##",
                        "#####-@@",
                        "@@@##@###",
                        "(01)############## (21)####",
                        "######",
                    ]
                )
            ),
            "LIC": lambda: self._form(
                rng.choice(
                    [
                        *["@#######", "@@#######", "######", "@@-####-##", "#######", "@###-####-####"],
                        *["@####@@", "@#######@", "#######@", "@@ ### ####", "@ ########", "@@#### ##", "@#####@@"],
                    ]
                )
            ),
            "NPI": lambda: self._form("##########"),
            "NHS": lambda: self._form(rng.choice(["### ### ####", "##########"])),
            "ACCT": lambda: self._form(
                rng.choice(
                    [
                        *["########", "##########", "####-####-####-####", "####-####", "A-######"],
                        *["@@-###/##", "@@@/##/####", "@@@ #### ##", "###/##/####", "@@-## ### ##", "@/##/###"],
                    ]
                )
            ),
            "PLAN": lambda: self._form(
                rng.choice(
                    [
                        *["@@@#########", "#########@", "####@@####", "@###-###-##", "########", "#@@#-@@#-@@##"],
                        *[
                            "@@@/###/##",
                            "@@ ## #### #",
                            "#### ##### #",
                            "#@@# @## @@##",
                            "@@ ### ### ###",
                            "@@@ #### ####",
                        ],
                        *["@# ## ###", "######", "##-####-#", "@@-########"],
                    ]
                )
            ),
            "PLATE": lambda: self._form(
                rng.choice(
                    [
                        *["@@@ ####", "@@@-####", "#@@@###", "@@## @@@", "### @@@", "@-@@@@", "@@-@@@", "@@ ####"],
                        *["@@ ###", "@### @@@", "@@-##-@@-####", "@@-@@ ###", "@### @@ ##", "@####@@"],
                    ]
                )
            ),
            "VIN": lambda: self._form("#@@@@##@#@@######"),
            "USER": lambda: rng.choice(
                [
                    self._given()[:1] + self._surname(),
                    self._surname() + rng.choice(["1", "02", "", "77"]),
                    self._given() + "." + self._surname(),
                    self._form("@@@##"),
                ]
            ).lower(),
            "D": self._date,
            "Y": lambda: self._n(1950, 2026),
            "MY": self._month_year,
            "MON": lambda: rng.choice(MONTHS),
            "WD": lambda: rng.choice(WEEKDAYS),
            "HOL": lambda: self._one("holidays"),
            "RD": self._relative_date,
            "YY": lambda: f"{rng.randrange(100):02d}",
            "STAMP": lambda: (
                f"{rng.randint(1960, 2026)}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}"
                f"{rng.choice('T ')}{rng.randrange(24):02d}:{rng.randrange(60):02d}{rng.choice(['', ':07', ':41Z'])}"
            ),
            "HANDLE": lambda: "@" + (self._given() + rng.choice(["", "_", "."]) + self._surname()).lower(),
            "T": self._time,
            "PH": self._phone,
            "FAX": self._phone,
            "EXT": lambda: self._form(rng.choice(["####", "#####", "x####"])),
            "EM": self._mail,
            "URL": lambda: (
                rng.choice(["www.", "https://", "http://www."])
                + self._surname().lower().replace("'", "")
                + rng.choice([".org", ".com/portal", ".edu/~x"])
            ),
            "IP": lambda: ".".join(self._n(1, 254) for _ in range(4)),
            "AGE90": lambda: self._n(90, 107),
            "PLANNAME": lambda: self._one("plan_names"),
            "age": lambda: self._n(1, 89),
            "n": lambda: self._n(10, 99),
            "n2": lambda: self._n(1, 9),
            "big": lambda: self._n(100, 450),
            "mm": lambda: rng.choice(
                [f"{self._n(2, 40)} mm", f"{self._n(1, 9)}.{self._n(0, 9)} cm", f"{self._n(1, 9)} x {self._n(1, 9)} cm"]
            ),
            "noun": lambda: rng.choice(self.nouns),
            "Noun": lambda: self._title(rng.choice(self.nouns)),
            "epo": lambda: self._title(rng.choice(self.terms)),
            "brand": lambda: self._title(rng.choice(self.brands)),
            "abbr": lambda: rng.choice(self.letters).upper(),
            "coin": self._coin,
            "finding": lambda: rng.choice(self.sentences),
            "FINDING": lambda: rng.choice(self.sentences).upper(),
        }

    def corpus(self, size: int) -> Iterator[Labelled]:
        """``size`` labelled texts."""
        for i in range(size):
            yield self.one(
                self.carriers[i % len(self.carriers)] if i < 2 * len(self.carriers) else self.rng.choice(self.carriers)
            )

    def one(self, carrier: str) -> Labelled:
        """One carrier filled, then altered: case, line breaks, typing errors."""
        carrier = _CHOICE.sub(lambda found: self.rng.choice(found.group(1).split("|")), carrier)
        text, spans, end = "", [], 0
        for match in _FIELD.finditer(carrier):
            text += carrier[end : match.start()]
            field = match.group(1)
            value = self._makers[field]() if field in self._makers else self._one(field)
            if field in LABELS:
                spans.append((len(text), len(text) + len(value), LABELS[field]))
            text += value
            end = match.end()
        text += carrier[end:]
        return self._wear(Labelled(text, tuple(spans)))

    # -- pieces ----------------------------------------------------------------------------------------------------

    def _one(self, field: str) -> str:
        return self.rng.choice(self.fill[field])

    def _tail(self, field: str) -> str:
        """The word for a kind of house or firm: one of a list, or any word, since no list has all."""
        return self._title(self.rng.choice(self.nouns)) if self.rng.random() < _ANY_TAIL else self._one(field)

    def _short_surname(self) -> str:
        """A surname of two or three letters: one of a list, or one nobody has thought of."""
        if self.rng.random() < 0.6:
            return self._one("short_surnames")
        made = self.rng.choice("BCDFGHJKLMNPRSTVWYZ") + self.rng.choice("aeiou")
        return made + self.rng.choice(["", "", "h", "n", "o", "u", "i"])

    def _n(self, low: int, high: int) -> str:
        return str(self.rng.randint(low, high))

    def _form(self, form: str) -> str:
        letters = "ABCDEFGHJKLMNPRSTUVWXYZ"
        draw = {"#": lambda: self._n(0, 9), "@": lambda: self.rng.choice(letters)}
        return "".join(draw[c]() if c in draw else c for c in form)

    def _bend(self, name: str) -> str:
        """A name nobody has: two names spliced, or letters changed."""
        other = self.rng.choice(self.surnames[2])
        cut, cut2 = max(2, len(name) // 2), max(1, len(other) // 2)
        bent = name[:cut] + other[cut2:]
        if self.rng.random() < 0.4:
            at = self.rng.randrange(len(name))
            bent = name[:at] + self.rng.choice("aeiouklmnrstvyz") + name[at:]
        return bent if len(bent) > 2 else name

    def _city(self) -> str:
        """A city, or a place that might be one."""
        r = self.rng.random()
        if r < 0.6:
            return self._title(self.rng.choice(self.cities))
        stem = self._title(self.rng.choice(self.surnames[2]))
        if r < 0.68:
            joint = self.rng.choice(
                [" of ", "-on-", "-sur-", "-le-", " de la ", " upon ", "-by-the-", " or ", "-", " am "]
            )
            return stem + joint + self._title(self.rng.choice(self.surnames[2]))
        if r < 0.85:
            return stem + self.rng.choice(
                [
                    "ton",
                    "ville",
                    "burg",
                    "bury",
                    "ford",
                    "field",
                    "port",
                    "mouth",
                    "berg",
                    "stad",
                    "haven",
                    "town",
                    "borough",
                    "shire",
                    "land",
                    "side",
                    "view",
                    "chester",
                    "fort",
                ]
            )
        return (
            self.rng.choice(["North", "South", "East", "West", "New", "Port", "Lake", "Fort", "San", "Mount"])
            + " "
            + stem
        )

    def _given(self) -> str:
        if self.rng.random() < _WORD_NAMES:
            return self._title(self.rng.choice(self.rare_given_words))
        r = self.rng.random()
        pool = self.given_word_names if r < 0.06 else self.given[3 if r < 0.35 else 2 if r < 0.9 else 1]
        name = self.rng.choice(pool)
        if r > 0.985:  # "Jean-marc", "Anne-Marie"
            other = self.rng.choice(self.given[3])
            return f"{self._title(name)}-{self._title(other) if self.rng.random() < 0.7 else other}"
        return self._title(self._bend(name) if self.rng.random() < 0.3 else name)

    def _surname(self) -> str:
        if self.rng.random() < _WORD_NAMES:
            return self._title(self.rng.choice(self.rare_word_names))
        r = self.rng.random()
        name = self.rng.choice(self.word_names if r < 0.08 else self.surnames[3 if r < 0.25 else 2 if r < 0.8 else 1])
        if 0.08 <= r < 0.11:
            name = self.rng.choice(self.eponyms)
        elif self.rng.random() < 0.35:
            name = self._bend(name)
        name = self._title(name)
        r = self.rng.random()
        if r < 0.04:
            return (
                self._title(self.rng.choice(["van ", "de la ", "von ", "al-", "o'", "mc", "mac", "st. ", "di ", "el "]))
                + name
            )
        if r < 0.08:
            return f"{name}-{self._title(self.rng.choice(self.surnames[2]))}"
        return name

    def _full(self) -> str:
        r = self.rng.random()
        given, surname = self._given(), self._surname()
        if r < 0.12:
            return f"{given} {self.rng.choice(string.ascii_uppercase)}. {surname}"
        if r < 0.16:
            return f"{given} {self.rng.choice(string.ascii_uppercase)} {surname}"
        if r < 0.22:
            return f"{given[0]}. {surname}"
        if r < 0.26:
            return f"{given} {self._given()} {surname}"
        if r < 0.28:
            return f"{given} {surname} {self.rng.choice(['Jr.', 'III', 'Sr', 'II'])}"
        return f"{given} {surname}"

    def _person(self) -> str:
        """Somebody named in one of the ways of the world."""
        r = self.rng.random()
        if r < 0.35:
            return self._full()
        given, surname = self._given(), self._surname()
        if r < 0.6:
            particle = self._one("particles")
            return f"{given} {particle}{'' if particle[-1] in '-' + chr(39) else ' '}{surname}"
        if r < 0.75:
            return f"{given} {self._one('short_surnames')}"
        if r < 0.85:
            return f"{given} {self._surname()} {surname}"
        if r < 0.89:
            joint = self.rng.choice(["s/o", "d/o", "w/o", "S/O", "bin", "binte", "ibn"])
            return f"{given} {joint} {self._given()} {surname}"
        return self._nicknamed() if r < 0.94 else f"{given[0]}. {self.rng.choice(string.ascii_uppercase)}. {surname}"

    def _words(self) -> str:
        """A name that is made of words."""
        given = self._title(self.rng.choice(self.given_word_names)) if self.rng.random() < 0.5 else self._given()
        surname = self._title(self.rng.choice(self.word_names))
        return self.rng.choice([f"{given} {surname}", f"{given} {surname}", f"{surname}, {given}"])

    def _coin(self) -> str:
        """What a scale, a test or a brand may be called that no list knows."""
        if self.rng.random() < 0.5:
            return self._title(self._bend(self.rng.choice(self.surnames[1])))
        return self._title("".join(self._one("syllables") for _ in range(self.rng.choice([2, 2, 3]))))

    def _nicknamed(self) -> str:
        marks = self.rng.choice(['""', "''", "()"])
        return f"{self._given()} {marks[0]}{self._given()}{marks[1]} {self._surname()}"

    def _bare(self) -> str:
        """A house by its name alone."""
        r = self.rng.random()
        if r < 0.6:
            return self._one("bare_heads") + self._one("bare_tails")
        return self._one("bare_words") if r < 0.9 else self._title(self.rng.choice(self.surnames[2]))

    def _short_institution(self) -> str:
        """What people call a hospital: letters, a saint, a town's children, a patron's name."""
        r = self.rng.random()
        if r < 0.4:
            letters = "".join(self.rng.choice("ABCDEGHJKLMNPRSTUVW") for _ in range(self.rng.choice([1, 2, 2, 3])))
            if r < 0.12:
                return letters + self.rng.choice("ABCDEGHJKLMNPRSTUVW") if len(letters) > 1 else "U" + letters + "A"
            return letters + self.rng.choice(["H", "MC", "GH", "UH", "MH", "RMC", "CH"])
        if r < 0.6:
            saint = self.rng.choice(["St. ", "St ", "Saint ", "St. "]) + self._title(self.rng.choice(self.given[3]))
            return saint + self.rng.choice(["'s", "'s", ""])
        if r < 0.7:
            return f"{self._city()} Children's"
        if r < 0.8:
            return f"{self._surname()}{self.rng.choice(['', '', chr(39) + 's'])}"
        return self.rng.choice(
            [
                f"{self._city()} General",
                f"Mt. {self._surname()}",
                f"{self._city()} Regional",
                f"Royal {self._city()}",
                f"UZ {self._city()}",
                f"{self._city()} Memorial",
                "the VA",
            ]
        )

    def _reversed(self) -> str:
        comma = self.rng.choice([", ", ", ", ",", " ", "^"])
        tail = self.rng.choice(
            ["", "", "", " " + self.rng.choice(string.ascii_uppercase), f" {self.rng.choice(string.ascii_uppercase)}."]
        )
        name = self._surname() + comma + self._given() + tail
        return name.upper() if self.rng.random() < 0.4 else name

    def _staff(self) -> str:
        r = self.rng.random()
        return self._surname() if r < 0.5 else self._full() if r < 0.9 else f"{self._given()[0]}. {self._surname()}"

    def _initials(self) -> str:
        return "".join(self.rng.choice(string.ascii_uppercase) for _ in range(self.rng.choice([2, 2, 3])))

    def _title(self, text: str) -> str:
        return re.sub(r"[a-z]+", lambda m: m.group().capitalize(), text)

    def _state(self) -> str:
        return self.rng.choice(sorted(word_class("state_codes"))) if self.rng.random() < 0.5 else self._one("states")

    def _country(self) -> str:
        return self._one("countries")

    def _postcode(self) -> str:
        return self._form(self.rng.choice(["@@# #@@", "@## #@@", "@#@ #@#", "@@## #@@"]))

    def _address(self) -> str:
        street = (
            self._one("street_names") if self.rng.random() < 0.5 else self._title(self.rng.choice(self.surnames[2]))
        )
        apartment = self.rng.choice(
            [
                "",
                "",
                "",
                f", Apt {self._n(1, 40)}{self.rng.choice('ABC')}",
                f" #{self._n(1, 900)}",
                f", Suite {self._n(100, 900)}",
            ]
        )
        if self.rng.random() < 0.4:
            return self._made(self._one("address_forms"))
        if self.rng.random() < 0.05:
            return f"P.O. Box {self._n(10, 9999)}"
        return f"{self._n(1, 9999)} {street} {self._one('streets')}{apartment}"

    def _made(self, form: str) -> str:
        """A form with names, towns, words and digits in it."""
        draw: dict[str, Callable[[], str]] = {
            "*": self._surname,
            "%": self._city,
            "@": self._given,
            "#": lambda: self._title(self.rng.choice(self.nouns)),
            "0": lambda: self._n(1, 9),
        }
        return "".join(draw[c]() if c in draw else c for c in form)

    def _firm(self) -> str:
        """A firm, a ship or a club: a name and a word for its kind, or a name that says nothing of it."""
        r = self.rng.random()
        if r < 0.5:
            head = self._surname() if r < 0.4 else self._title(self.rng.choice(self.word_names))
            return f"{head} {self._tail('companies')}"
        if r < 0.6:
            return "".join(self.rng.choice(string.ascii_uppercase) for _ in range(self.rng.choice([2, 3, 3, 4, 5])))
        if r < 0.66:
            return self._coin()
        return self._made(self._one("firm_forms")).removeprefix("the ")

    def _relative_date(self) -> str:
        """A day told by another, by a feast or by what went on."""
        rng = self.rng
        r = rng.random()
        if r < 0.55:
            return f"{self._one('relative')} {rng.choice([*self.fill['spans_of_time'], *WEEKDAYS, *MONTHS])}"
        feast = self._one("holidays").removeprefix("the ") if rng.random() < 0.7 else self._coin()
        if r < 0.75:
            return f"{rng.choice(['last', 'last', 'this past', 'next'])} {feast}"
        day = rng.choice([*WEEKDAYS, "week", "weekend", "day", "night", "morning", "eve", "month"])
        return f"the {day} {rng.choice(['of', 'after', 'before'])} {rng.choice(['', 'the '])}{feast}"

    def _hospital(self) -> str:
        if self.rng.random() < 0.3:
            return self._made(self._one("house_forms")).removeprefix("the ")
        r = self.rng.random()
        if r < 0.45:
            head = self._one("hospital_heads")
        elif r < 0.7:
            head = self._title(self.rng.choice(self.cities))
        else:
            head = self._surname()
        if 0.63 < r < 0.7 or r > 0.93:
            return self._one("hospital_forms").replace("*", head)
        if self.rng.random() < 0.06:
            return self.rng.choice(
                [
                    "MGH",
                    "BIDMC",
                    "UCSF",
                    "VAMC",
                    "CHOP",
                    "NYU Langone",
                    "Mayo Clinic",
                    "Cleveland Clinic",
                    "IU Health",
                    "UPMC",
                ]
            )
        return f"{head} {self._one('hospital_tails')}"

    def _ward(self) -> str:
        form = self._one("wards")
        return form.replace("{n}", self._n(1, 9)).replace("{N}", self._n(4, 9)).replace("{A}", self.rng.choice("ABCD"))

    def _mrn(self) -> str:
        return self._form(
            self.rng.choice(
                [
                    "#######",
                    "########",
                    "######",
                    "###-##-##",
                    "##-##-##",
                    "@######",
                    "@@@#######",
                    "#########",
                    "###-##-##-#",
                    "MRN######",
                    "0000#####",
                ]
            )
        )

    def _accession(self) -> str:
        return self._form(
            self.rng.choice(
                [
                    "########",
                    "@#######",
                    "@@-##-#####",
                    "##-######",
                    "@##-####",
                    "####@@#####",
                    "CR##########",
                    "2019-######",
                ]
            )
        )

    def _date(self) -> str:
        rng = self.rng
        y, m, d = rng.randint(1928, 2026), rng.randint(1, 12), rng.randint(1, 28)
        name = MONTHS[m - 1]
        ordinal = f"{d}{'th' if 10 < d < 14 else {1: 'st', 2: 'nd', 3: 'rd'}.get(d % 10, 'th')}"
        return rng.choice(
            [
                f"{m}/{d}/{y}",
                f"{m:02d}/{d:02d}/{y}",
                f"{m}/{d}/{y % 100:02d}",
                f"{m}-{d}-{y % 100:02d}",
                f"{y}-{m:02d}-{d:02d}",
                f"{d}.{m}.{y}",
                f"{d}/{m}/{y}",
                f"{name} {d}, {y}",
                f"{name[:3]} {d}, {y}",
                f"{name[:3]} {d} {y}",
                f"{d} {name} {y}",
                f"{d}-{name[:3]}-{y}",
                f"{d}-{name[:3].upper()}-{y % 100:02d}",
                f"{name} {d}",
                f"{name[:3]} {d}",
                f"{name} {ordinal}",
                f"{ordinal} of {name}",
                f"{name} {y}",
                f"{m}/{d}",
                f"{y}{m:02d}{d:02d}",
                f"{rng.choice(WEEKDAYS)}, {name} {d}, {y}",
                f"{ordinal} {name} {y}",
            ]
        )

    def _month_year(self) -> str:
        m, y = self.rng.randint(1, 12), self.rng.randint(1975, 2026)
        return self.rng.choice(
            [f"{m}/{y % 100:02d}", f"{m}/{y}", f"{MONTHS[m - 1][:3]} {y}", f"{MONTHS[m - 1]} of {y}", f"{m:02d}-{y}"]
        )

    def _time(self) -> str:
        h, m = self.rng.randint(0, 23), self.rng.randint(0, 59)
        half = "AM" if h < 12 else "PM"
        return self.rng.choice(
            [
                f"{h:02d}:{m:02d}",
                f"{h % 12 or 12}:{m:02d} {half}",
                f"{h % 12 or 12}:{m:02d}{half.lower()}",
                f"{h:02d}:{m:02d}:{self.rng.randint(0, 59):02d}",
                f"{h:02d}{m:02d} hours",
                f"{h % 12 or 12} {half.lower()}",
            ]
        )

    def _mail(self) -> str:
        host = self.rng.choice(["gmail.com", "hospital.org", "yahoo.co.uk", "mail.example.edu"])
        return f"{self._given()}{self.rng.choice(['.', '_', ''])}{self._surname()}@{host}".lower().replace("'", "")

    def _phone(self) -> str:
        return self._form(
            self.rng.choice(
                [
                    "(###) ###-####",
                    "###-###-####",
                    "###.###.####",
                    "### ### ####",
                    "+1 ###-###-####",
                    "1-###-###-####",
                    "###-####",
                    "+44 20 #### ####",
                    "0## #### ####",
                    "###-###-#### ext. ###",
                    "##########",
                    *["0# ## ## ## ##", "+## # ## ## ## ##", "+## ### ### ####", "#### ### ###", "0#### ######"],
                    *[
                        "#### ## ## ##",
                        "0#-#### ####",
                        "+### ## ### ####",
                        "(##) #####-####",
                        "#### ####",
                        "##### #####",
                    ],
                    *[
                        "0###-#######",
                        "0### ### ## ##",
                        "+## #### ######",
                        "###-#######",
                        "#### ### ## ##",
                        "00## ### ####",
                    ],
                ]
            )
        )

    # -- alterations -------------------------------------------------------------------------------------------------

    def _wear(self, item: Labelled) -> Labelled:
        r = self.rng.random()
        text = item.text
        if r < 0.13:
            text = text.lower()
        elif r < 0.27:
            text = text.upper()
        if len(text) != len(item.text):  # a letter that changes length with its case
            text = item.text
        if self.rng.random() < 0.12:
            return self._slips(text, item.spans)
        return Labelled(text, item.spans)

    def _slips(self, text: str, spans: tuple[tuple[int, int, str], ...]) -> Labelled:
        """Letters dropped, doubled, swapped or misread, anywhere in the text; the spans follow."""
        out: list[str] = []
        moved = [0] * (len(text) + 1)
        misread = {"l": "1", "o": "0", "i": "l", "m": "rn", "e": "c", "S": "5", "B": "8", "O": "0", "I": "l"}
        size = 0
        for i, c in enumerate(text):
            moved[i] = size
            piece = c
            if c.isalpha() and self.rng.random() < 0.02:
                piece = self.rng.choice(["", c + c, misread.get(c, c), self.rng.choice(string.ascii_lowercase)])
            elif c == " " and self.rng.random() < 0.02:
                piece = self.rng.choice(["", "  ", "\n"])
            out.append(piece)
            size += len(piece)
        moved[len(text)] = size
        kept = tuple((moved[a], moved[b], label) for a, b, label in spans if moved[a] < moved[b])
        return Labelled("".join(out), kept)
