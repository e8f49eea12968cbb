"""Copy the figures of a bench, or of certificates, into what `updp methods` shows.

    updp bench methods --data CHESTXRAY14 --method keep --method privdiff --method dcm --out methods
    python performance/write_measured.py methods/methods.json
    updp certify --data CHESTXRAY14 --method keep --out keep.json
    python performance/write_measured.py keep.json

Methods measured anew replace their old entries; others keep theirs. ``--fresh`` forgets everything else.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import updp.methods
from updp.methods.measured import as_toml, from_bench, from_certificate, merged, read_measured

PLACE = Path(updp.methods.__file__).with_name("measured.toml")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench", type=Path, nargs="+", help="methods.json of a bench, or certificates; later ones win")
    parser.add_argument("--out", type=Path, default=PLACE)
    parser.add_argument("--fresh", action="store_true", help="keep no entry of before")
    arguments = parser.parse_args()
    entries = [] if arguments.fresh or not arguments.out.exists() else read_measured(arguments.out)
    for bench in arguments.bench:
        new = from_bench(bench) if bench.name == "methods.json" else [from_certificate(bench)]
        entries = merged(entries, new)
    arguments.out.write_text(
        as_toml(entries, "python performance/write_measured.py FILE", list(updp.methods.METHODS)),
        encoding="utf-8",
    )
    print("| method | strength | original found | another film found | skill kept | patients |")
    print("|---|---|---|---|---|---|")
    for one in read_measured(arguments.out):
        cells = ("not measured" if v is None else f"{v[0]:.2f} [{v[1]:.2f}, {v[2]:.2f}]"
                 for v in (one.own, one.other, one.skill))  # fmt: skip
        strength = "" if one.strength is None else f"{one.strength:.2g}"
        print(f"| {one.name} {dict(one.options) or ''} | {strength} | {' | '.join(cells)} | {one.patients} |")


if __name__ == "__main__":
    main()
