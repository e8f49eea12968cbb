"""Figures of a model pack: `python performance/pack.py --data SOURCE… [--pack cxr256-2] [--out FIGURES.json]`.

The same as `updp bench pack`, with the parts that train models (`useful`, `curves`) and a JSON to build the card from.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from updp.bench.pack import PARTS, QUICK, bench_pack
from updp.domains.chest import PACK


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", type=Path, required=True)
    parser.add_argument("--pack", default=PACK)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(QUICK))
    parser.add_argument("--films", type=int, default=320, help="generated films for the generator's figures")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--pictures", type=Path)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    figures = bench_pack(
        given.pack,
        given.data,
        given.parts,
        seed=given.seed,
        films=given.films,
        cache=given.cache,
        pictures=given.pictures,
    )
    if given.out:
        known = json.loads(given.out.read_text()) if given.out.exists() else {}
        given.out.write_text(json.dumps({**known, **figures}, indent=1) + "\n")


if __name__ == "__main__":
    main()
