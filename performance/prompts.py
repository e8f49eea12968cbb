"""Are UPDP's prompts clean: reports seeded with invented people, placeholders and numbers, ten thousand prompts.

    python performance/prompts.py --data SOURCE [--prompts 10000] [--steps 8]

Each report gets names, dates, record numbers and de-identification placeholders written into it; prompts are optimised
towards real films in every mode. Counted: tokens on the blacklist, hits of the report detector, hits of the second
detector that `updp verify` uses, and words of the invented people.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from faker import Faker

from updp.bench.prompts import validation_studies
from updp.core.memory import keep_freed_memory
from updp.core.record import Report, Study
from updp.domains.chest import PACK
from updp.methods.updp.method import UPDP
from updp.models import load_pack
from updp.release.residual import residual_spans
from updp.reports import Detector

CARRIERS = (
    "Discussed with Dr. {name} at {time}.",
    "{name}, MRN {number}, was seen on {date}.",
    "Compared with XXXX from ___ [**{date}**].",
    "Dictated by {name}, phone {phone}, {place}.",
    "Mr. {last} is a {age}-year-old male from {place}.",
)


def seeded(study: Study, fake: Faker, rng: np.random.Generator) -> tuple[Study, set[str]]:
    """The study with two carrier sentences in its report, and the words that came with them."""
    first, last, place = fake.first_name(), fake.last_name(), fake.city()
    filled = {
        "name": f"{first} {last}",
        "last": last,
        "place": place,
        "time": fake.time(),
        "date": fake.date(),
        "phone": fake.phone_number(),
        "number": str(rng.integers(10**6, 10**8)),
        "age": str(rng.integers(20, 99)),
    }
    said = [str(c).format(**filled) for c in rng.choice(CARRIERS, 2, replace=False)]
    sections = dict(study.report.sections) if study.report else {}
    sections["findings"] = " ".join([said[0], sections.get("findings", ""), said[1]])
    words = {w.lower() for w in f"{first} {last} {place}".split()}
    return study.but(report=Report(sections)), words


def main() -> None:
    keep_freed_memory()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--prompts", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--pack", default=PACK)
    parser.add_argument("--threads", type=int, default=1)
    asked = parser.parse_args()
    pack = load_pack(asked.pack)
    studies = list(validation_studies([asked.data], 256))
    films = torch.from_numpy(np.stack([s.pixels for s in studies if s.pixels is not None]))[:, None]
    with torch.no_grad():
        targets = torch.cat([pack.vlm.embed_images(films[i : i + 32]) for i in range(0, len(films), 32)])
    detector = Detector()
    modes: dict[str, dict[str, object]] = {
        "resolved": {},
        "resolved, warm": {"temperature": 0.3},
        "literal": {"mode": "literal"},
        "ldp": {"mode": "ldp"},
        "random start": {"init": "random"},
    }
    print("| mode | prompts | blacklisted tokens | detector hits | second detector | invented people's words |")
    print("|---|---|---|---|---|---|")
    share = asked.prompts // len(modes)
    for number, (name, options) in enumerate(modes.items()):
        method = UPDP(pack=asked.pack, steps=asked.steps, **options)
        method.__dict__["pack"] = pack
        torch.set_num_threads(asked.threads)
        counts = np.zeros(4, int)
        made = 0
        while made < share:
            size = min(64, share - made)
            rng = np.random.default_rng([number, made])
            fake = Faker()
            fake.seed_instance(int(rng.integers(2**31)))
            chosen = rng.integers(0, len(studies), size)
            pairs = [seeded(studies[i], fake, rng) for i in chosen]
            streams = [np.random.default_rng([number, made, i]) for i in range(size)]
            written = method.write([s for s, _ in pairs], films[chosen], 0.25, streams, targets=targets[chosen])
            for text, (_, private) in zip(written.texts, pairs, strict=True):
                words = text.split()
                counts += (
                    sum(not method.vocabulary.words.allowed(word) for word in words),
                    len(detector.spans(text)),
                    len(residual_spans(text)),
                    # A finding may share a word with a city ("Mass"); only words no list allows are the person's.
                    sum(w in private and not method.vocabulary.words.allowed(w) for w in words),
                )
            made += size
        print(f"| {name} | {made} | " + " | ".join(map(str, counts)) + " |", flush=True)


if __name__ == "__main__":
    main()
