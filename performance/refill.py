"""Make the test corpora of the report benchmark: real chest reports with their holes refilled, and held-out carriers.

Holes of real reports (``XXXX``) become ages, dates and names where the words beside them ask for one, and plain words
elsewhere; headers, sentences and sign-offs with identifiers are put around and between. Carriers are in
``held_out/*.txt`` and share no line with the training carriers; names are those the tagger never saw in training
(``updp.reports.synthesis.in_training``), and, if a file of further names is given, names in no list of the product.

    python performance/refill.py --reports NLMCXR_reports.tgz --out CORPUS_DIR [--names NAMES.txt]
"""

from __future__ import annotations

import argparse
import json
import random
import re
import tarfile
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from pathlib import Path

from faker import Faker

from updp.core.record import BENCHMARK_KEY, split_of
from updp.reports.lexicon import names as listed_names
from updp.reports.synthesis import in_training

HERE = Path(__file__).parent / "held_out"
#: What stands before an identifier and is none: a title, the word for a place in the house.
_ANNOUNCED = re.compile(r"(?:Dr\.?|Prof\.?|Ward|Room|[Bb]ed) ")
FIELD = re.compile(r"\{\{(\w+)\}\}")
LOCALES = [
    "en_US",
    "en_GB",
    "en_IE",
    "en_IN",
    "en_NZ",
    "es_MX",
    "es_ES",
    "fr_FR",
    "de_DE",
    "it_IT",
    "nl_NL",
    "pt_BR",
    "pl_PL",
    "sv_SE",
    "fi_FI",
    "tr_TR",
    "cs_CZ",
    "ro_RO",
    "hu_HU",
    "id_ID",
    "en_KE",
    "yo_NG",
    "zu_ZA",
    "vi_VN",
]
#: Field to category of the measurement; a field not named here is no identifier.
KIND = {
    "patient": "name",
    "reversed": "name",
    "REVERSED": "name",
    "last": "name",
    "first": "name",
    "staff": "name",
    "name_lower": "name",
    "mrn": "id",
    "accession": "id",
    "ssn": "id",
    "account": "id",
    "plan": "id",
    "licence": "id",
    "serial": "id",
    "id": "id",
    "username": "id",
    "plate": "id",
    "date": "date",
    "monthday": "date",
    "monthyear": "date",
    "year": "date",
    "month": "date",
    "weekday": "date",
    "holiday": "date",
    "time": "date",
    "phone": "contact",
    "fax": "contact",
    "ext": "contact",
    "email": "contact",
    "url": "contact",
    "ip": "contact",
    "street": "place",
    "street_only": "place",
    "city": "place",
    "state": "place",
    "zip": "place",
    "country": "place",
    "hospital": "institution",
    "ward": "institution",
    "school": "institution",
    "company": "institution",
    "age90": "age",
}


class Filler:
    """Values for the fields, from one random state."""

    def __init__(self, rng: random.Random, further: list[tuple[str, str]]) -> None:
        self.rng = rng
        self.us = Faker("en_US", use_weighting=False)
        self.all = [Faker(locale, use_weighting=False) for locale in LOCALES]
        for fake in (self.us, *self.all):
            fake.seed_instance(rng.random())
        held = sorted(n for n in listed_names() if not in_training(n) and len(n) > 2)
        code = listed_names()
        self.given = [n for n in held if code[n][0] >= "2"]
        self.surnames = [n for n in held if code[n][1] >= "2"]
        self.further = further

    def name(self) -> tuple[str, str]:
        r = self.rng.random()
        if self.further and r < 0.3:
            return self.rng.choice(self.further)
        if r < 0.6:
            for _ in range(40):
                fake = self.rng.choice(self.all)
                first, last = fake.first_name(), fake.last_name()
                if not in_training(first) and not in_training(last) and first.isascii() and last.isascii():
                    return first, last
        first, last = self.rng.choice(self.given).capitalize(), self.rng.choice(self.surnames).capitalize()
        if r > 0.96:
            last = f"{last}-{self.rng.choice(self.surnames).capitalize()}"
        return first, last

    def __call__(self, field: str) -> str:
        rng, us = self.rng, self.us
        first, last = self.name()
        middle = rng.choice("ABCDEFGHJKLMNPRSTW")
        when = us.date_between("-80y", "-1d")
        d, m, y = when.day, when.strftime("%B"), when.year
        full = rng.choice(
            [f"{first} {last}"] * 5 + [f"{first} {middle}. {last}", f"{first[0]}. {last}", f"{first} {middle} {last}"]
        )
        forms: dict[str, Callable[[], str]] = {
            "patient": lambda: full,
            "staff": lambda: rng.choice([full, f"Dr. {last}", f"Dr {first} {last}", f"Prof. {last}"]),
            "last": lambda: last,
            "first": lambda: first,
            "name_lower": lambda: rng.choice([f"{first} {last}", last]).lower(),
            "reversed": lambda: f"{last}, {first}" + rng.choice(["", f" {middle}."]),
            "REVERSED": lambda: f"{last}, {first}".upper(),
            "mister": lambda: rng.choice(["Mr.", "Mrs.", "Ms.", "Mr", "Mrs", "Miss"]),
            "title": lambda: rng.choice(["Dr.", "Dr", "Prof.", "Doctor"]),
            "relative": lambda: rng.choice(["wife", "husband", "son", "daughter", "mother", "brother", "niece"]),
            "age": lambda: str(rng.randint(18, 89)),
            "age90": lambda: str(rng.randint(90, 104)),
            "date": lambda: rng.choice(
                [
                    when.strftime(f)
                    for f in (
                        "%m/%d/%Y",
                        "%m/%d/%y",
                        "%d/%m/%Y",
                        "%Y-%m-%d",
                        "%d-%b-%Y",
                        "%d %B %Y",
                        "%b %d, %Y",
                        "%d.%m.%Y",
                        "%Y/%m/%d",
                    )
                ]
                + [f"{m} {d}, {y}", f"{m[:3]}. {d}, {y}", f"{when.month}/{d}/{y}"]
            ),
            "monthday": lambda: rng.choice([f"{m} {d}", f"{d} {m}", f"{m[:3]} {d}", f"{when.month}/{d}"]),
            "monthyear": lambda: rng.choice([f"{m} {y}", f"{when.month}/{y}", f"{m[:3]} {y}"]),
            "year": lambda: str(y),
            "month": lambda: m,
            "weekday": lambda: when.strftime("%A"),
            "holiday": lambda: rng.choice(
                ["Thanksgiving", "Christmas", "Easter", "New Year's Eve", "Labor Day", "Memorial Day", "Diwali"]
            ),
            "time": lambda: rng.choice(
                [
                    f"{rng.randint(0, 23):02d}:{rng.randint(0, 59):02d}",
                    f"{rng.randint(1, 12)}:{rng.randint(0, 59):02d} {rng.choice(['AM', 'PM', 'a.m.', 'pm'])}",
                ]
            ),
            "mrn": lambda: us.bothify(
                rng.choice(["#######", "########", "##-##-##-#", "?######", "H########", "00######"])
            ).upper(),
            "accession": lambda: us.bothify(
                rng.choice(["?########", "##-#######", "RAD-####-#####", "########", "XR######"])
            ).upper(),
            "ssn": us.ssn,
            "account": lambda: us.numerify(rng.choice(["##########", "#####-##", "########"])),
            "plan": lambda: us.bothify(rng.choice(["???#########", "#########A", "########", "W########"])).upper(),
            "licence": lambda: us.bothify(rng.choice(["?######", "#######", "??######"])).upper(),
            "serial": lambda: us.bothify(rng.choice(["???######", "#######", "??####?", "P####-###"])).upper(),
            "id": lambda: us.bothify(rng.choice(["######", "########", "??-#####", "####-####"])).upper(),
            "username": lambda: (
                rng.choice([f"{first[0]}{last}{rng.randint(1, 99)}", f"{first}.{last}", f"{last}{first[0]}01"])
                .lower()
                .replace(" ", "")
                .replace("'", "")
            ),
            "plate": lambda: us.bothify(rng.choice(["???-####", "### ???", "??? ####"])).upper(),
            "phone": lambda: rng.choice(
                [
                    us.numerify("(###) ###-####"),
                    us.numerify("###-###-####"),
                    us.numerify("###.###.####"),
                    us.numerify("+1 ### ### ####"),
                    us.numerify("+44 1### ######"),
                    us.numerify("+49 30 ######"),
                    us.numerify("###-####"),
                ]
            ),
            "fax": lambda: us.numerify("###-###-####"),
            "ext": lambda: us.numerify("####"),
            "email": lambda: f"{first}.{last}@{us.domain_name()}".lower().replace(" ", "").replace("'", ""),
            "url": lambda: rng.choice([us.url(), "www." + us.domain_name()]),
            "ip": us.ipv4,
            "street": lambda: us.street_address().replace("\n", ", "),
            "street_only": us.street_name,
            "city": us.city,
            "state": us.state_abbr,
            "zip": us.postcode,
            "country": lambda: rng.choice(
                ["Ghana", "Portugal", "Honduras", "Bangladesh", "Lebanon", "Romania", "Japan", "Chile"]
            ),
            "hospital": lambda: rng.choice(
                [
                    f"{last} Memorial Hospital",
                    f"{us.city()} General Hospital",
                    f"St. {first}'s Hospital",
                    f"{us.city()} Medical Center",
                    f"{last} Clinic",
                    f"{us.city()} Regional Medical Center",
                    f"{last} Nursing Home",
                    f"{last} Health Centre",
                ]
            ),
            "ward": lambda: rng.choice(
                [
                    f"Ward {rng.randint(1, 30)}",
                    f"Room {rng.randint(100, 900)}",
                    f"{rng.randint(2, 9)} East",
                    f"bed {rng.randint(1, 40)}",
                    f"Ward {rng.choice('ABC')}{rng.randint(1, 9)}",
                ]
            ),
            "school": lambda: f"{last} High School",
            "company": us.company,
        }
        return forms[field]()


def fill(template: str, value: Filler) -> tuple[str, list[dict[str, object]]]:
    """A carrier with its fields filled, and where the identifiers are."""
    text, spans, end = "", [], 0
    for match in FIELD.finditer(template):
        text += template[end : match.start()]
        made = value(match.group(1))
        if match.group(1) in KIND:
            announced = _ANNOUNCED.match(made)
            start = len(text) + (announced.end() if announced else 0)
            spans.append({"start": start, "end": len(text) + len(made), "category": KIND[match.group(1)]})
        text += made
        end = match.end()
    return text + template[end:], spans


def join(parts: list[tuple[str, list[dict[str, object]]]], glue: str) -> tuple[str, list[dict[str, object]]]:
    text, spans = "", []
    for piece, found in parts:
        text += glue if text else ""
        spans += [{**s, "start": s["start"] + len(text), "end": s["end"] + len(text)} for s in found]  # type: ignore[operator]
        text += piece
    return text, spans


def slips(text: str, spans: list[dict[str, object]], rng: random.Random) -> tuple[str, list[dict[str, object]]]:
    """A slip of the keyboard here and there, outside identifiers."""
    inside = bytearray(len(text) + 1)
    for s in spans:
        inside[s["start"] : s["end"]] = b"\1" * (s["end"] - s["start"])  # type: ignore[misc,operator]
    letters = list(text)
    for i in range(1, len(letters) - 1):
        if (
            letters[i].islower()
            and letters[i + 1].islower()
            and not inside[i]
            and not inside[i + 1]
            and rng.random() < 0.004
        ):
            letters[i], letters[i + 1] = letters[i + 1], letters[i]
    return "".join(letters), spans


def reports(archive: Path) -> Iterator[dict[str, str]]:
    """The reports of the Open-i archive that are not in the training split, by section."""
    with tarfile.open(archive) as tar:
        members = sorted((m for m in tar.getmembers() if m.name.endswith(".xml")), key=lambda m: m.name)
        for member in members:
            handle = tar.extractfile(member)
            if handle is None:
                continue
            root = ET.fromstring(handle.read())
            uid = root.find(".//uId")
            key = (uid.get("id") or "") if uid is not None else ""
            image = root.find(".//parentImage")
            film = (image.get("id") or "") if image is not None else ""
            # Training splits by the id CXR<uid>_<image>; take a report only if none of its films is in it.
            stem = re.match(r"(CXR\d+_IM-\d+)", film)
            if split_of(stem.group(1) if stem else key, BENCHMARK_KEY) == "train":
                continue
            row = {n.get("Label", "").lower(): (n.text or "").strip() for n in root.iter("AbstractText")}
            if row.get("findings") or row.get("impression"):
                yield {"id": stem.group(1) if stem else key, **row}


_PLAIN = ["structures", "changes", "vascularity", "markings", "findings", "contours"]


def refill(
    row: dict[str, str], blocks: dict[str, list[str]], value: Filler, rng: random.Random
) -> tuple[str, list[dict[str, object]]]:
    """One real report with its holes closed and identifiers put in."""
    parts = [fill(rng.choice(blocks["H"]), value)]
    for section in ("indication", "comparison", "findings", "impression"):
        if not row.get(section):
            continue
        body = []
        for sentence in re.split(r"(?<=[.!?])(?<!Dr\.)\s+", row[section]):
            sentence = re.sub(r"x-XXXX", "x-ray", sentence)
            template = re.sub(
                r"XXXX(?=[ -]year[ -]old)",
                lambda _: rng.choice(["{{age}}", "{{age}}", "{{age}}", "{{age90}}"]),
                sentence,
            )
            template = re.sub(r"(?<=[Dd]r\. )XXXX|(?<=Dr )XXXX", "{{last}}", template)
            template = re.sub(r"(?<=(?:from|ated) )XXXX|(?<=since )XXXX|(?<=to )XXXX(?=\.)", "{{date}}", template)
            if section == "comparison":
                template = re.sub(r"(?<![\\w/-])XXXX(?:,? XXXX)*(?![\\w/-])", "{{date}}", template)
            template = re.sub(r"XXXX", lambda _: rng.choice(_PLAIN), template)
            body.append(fill(template.replace("{{{", "{{"), value))
            if section in ("findings", "impression") and rng.random() < 0.12:
                body.append(fill(rng.choice(blocks["I"]), value))
        piece, found = join(body, " ")
        head = rng.choice([section.upper() + ": ", section.capitalize() + ": ", section.upper() + ":\n"])
        parts.append(join([(head.rstrip(" "), []), (piece, found)], " " if head.endswith(" ") else ""))
    parts.append(fill(rng.choice(blocks["S"]), value))
    text, spans = join(parts, "\n")
    if rng.random() < 0.06 and len(text.upper()) == len(text):
        text = text.upper()
    elif rng.random() < 0.06 and len(text.lower()) == len(text):
        text = text.lower()
    return slips(text, spans, rng)


def carriers(name: str) -> list[str]:
    lines = (HERE / f"{name}.txt").read_text("utf-8").splitlines()
    return [line.replace("\\n", "\n") for line in lines if line and not line.startswith("#")]


def write(path: Path, rows: list[tuple[str, list[dict[str, object]]]]) -> None:
    with path.open("w", encoding="utf-8") as out:
        for i, (text, spans) in enumerate(rows):
            out.write(json.dumps({"id": f"{path.stem}-{i}", "text": text, "spans": spans}) + "\n")
    print(f"{path.name}: {len(rows)} texts, {sum(len(s) for _, s in rows)} identifiers")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reports", type=Path, required=True, help="NLMCXR_reports.tgz")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--names", type=Path, help="further names, 'given surname' a line, in no list of the product")
    parser.add_argument("--limit", type=int, default=1000, help="real reports to refill")
    parser.add_argument("--fillings", type=int, default=1, help="times each of them is refilled, each time anew")
    parser.add_argument("--rounds", type=int, default=25, help="times each held-out carrier is filled")
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    rng = random.Random(args.seed)
    further = [tuple(line.split(" ", 1)) for line in args.names.read_text().splitlines()] if args.names else []
    value = Filler(rng, further)  # type: ignore[arg-type]
    blocks: dict[str, list[str]] = {"H": [], "I": [], "S": []}
    for line in carriers("radiology"):
        blocks[line[0]].append(line[2:])
    rows = list(reports(args.reports))
    rng.shuffle(rows)
    refilled = [refill(row, blocks, value, rng) for _ in range(args.fillings) for row in rows[: args.limit]]
    write(args.out / "radiology.jsonl", refilled)
    plain = [{k: re.sub(r"x-XXXX", "x-ray", v) for k, v in row.items()} for row in rows[args.limit : 2 * args.limit]]
    write(
        args.out / "untouched.jsonl",
        [
            ("\n".join(v for k, v in row.items() if k in ("indication", "findings", "impression") and v), [])
            for row in plain
        ],
    )
    for path in sorted(HERE.glob("*.txt")):
        if path.stem != "radiology":
            made = [fill(line, value) for _ in range(args.rounds) for line in carriers(path.stem)]
            write(args.out / f"{path.stem}.jsonl", made)


if __name__ == "__main__":
    main()
