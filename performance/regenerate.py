"""Every certificate and every table of the documentation about privacy and usefulness, one command.

    python performance/regenerate.py --chestxray14 CHESTXRAY14 --iu-xray IU_XRAY --out WORK

Steps run one after another and leave what they print in WORK/NAME.txt. A step whose output is there is passed over, and
one that was cut off goes on from what it kept, so the command can be stopped at any time and started again. ``--list``
shows the steps; ``--only NAME`` runs some of them. Another pack: ``--pack``. Nothing is written into the repository:
certificates go into ``src/updp/release/certificates`` with ``--install``, where their signer is added to
``signers.txt``; the private key, WORK/certifier.key, is removed then.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from updp.domains.chest import PACK

REPOSITORY = Path(__file__).parents[1]
CERTIFICATES = REPOSITORY / "src" / "updp" / "release" / "certificates"
#: Settings whose certificates ship: the default ones.
CERTIFIED = (("updp", 1.0),)
KINDS = ("noise", "shuffled", "planted", "keep", "blur", "dp-pix", "prichexy", "updp")


class Step(NamedTuple):
    name: str
    about: str
    command: Sequence[str]


def steps(chest: Path, reports: Path | None, out: Path, pack: str) -> Iterator[Step]:
    python, updp = [sys.executable], [sys.executable, "-m", "updp"]
    performance = REPOSITORY / "performance"
    for method, strength in CERTIFIED:
        name = f"{method}-{strength:g}"
        command = [*updp, "certify", "--data", str(chest), "--method", method, "--strength", str(strength), "--quick"]
        command += ["--work", str(out / "certify"), "--key", str(out / "certifier.key")]
        yield Step(
            f"certificate-{name}", "certificate of a default setting", [*command, "--out", str(out / f"{name}.json")]
        )
    linkage = [*python, str(performance / "film_beyond_record.py"), "--data", str(chest), "--pack", pack]
    yield Step(
        "film-beyond-record", "film linkage of controls and methods", [*linkage, "--patients", "100", "--kinds", *KINDS]
    )
    yield Step(
        "film-interval",
        "coverage of the interval, by simulation",
        [*python, str(performance / "film_interval.py"), "--data", str(chest)],
    )
    yield Step(
        "attacks", "are the attackers real", [*python, str(performance / "attacks.py"), "--data", str(chest), "--quick"]
    )
    plans = REPOSITORY / "docs" / "plans"
    bench = [*updp, "bench", "methods", "--pack", pack]
    every = ["--data", str(chest), "--plan", str(plans / "every-method.toml"), "--films", "1000", "--quick"]
    yield Step(
        "every-method", "privacy and usefulness of every method", [*bench, *every, "--out", str(out / "methods")]
    )
    if reports is not None:
        some = ["--data", str(reports), "--method", "updp", "--tables", "reports", "--films", "2400"]
        yield Step("report-generation", "report generation by regime", [*bench, *some, "--out", str(out / "reports")])


def run(step: Step, out: Path) -> bool:
    """One step, unless what it printed is there already; its output lands whole or not at all."""
    target = out / f"{step.name}.txt"
    if target.is_file():
        print(f"{step.name}: there")
        return True
    print(f"{step.name}: {' '.join(step.command)}", flush=True)
    part = target.with_suffix(".part")
    with part.open("w") as told:
        told.write(f"$ {' '.join(step.command)}\n")
        told.flush()
        ended = subprocess.run(step.command, stdout=told, stderr=subprocess.STDOUT, check=False).returncode
    if ended:
        print(f"{step.name}: ended with {ended}; see {part}")
        return False
    os.replace(part, target)
    return True


def install(out: Path) -> None:
    """The certificates into the package, with their signer; the private key goes."""
    import json

    CERTIFICATES.mkdir(exist_ok=True)
    signers = CERTIFICATES / "signers.txt"
    known = signers.read_text("ascii").split() if signers.is_file() else []
    for method, strength in CERTIFIED:
        name = f"{method}-{strength:g}.json"
        raw = (out / name).read_bytes()
        known.append(json.loads(raw)["signed_by"])
        (CERTIFICATES / name).write_bytes(raw)
    signers.write_text("\n".join(dict.fromkeys(known)) + "\n", "ascii")
    (out / "certifier.key").unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chestxray14", type=Path, required=True)
    parser.add_argument("--iu-xray", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pack", default=PACK)
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--install", action="store_true", help="put the certificates into the package")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for step in steps(options.chestxray14, options.iu_xray, options.out, options.pack):
        if options.list:
            print(f"{step.name}: {step.about}")
        elif (not options.only or step.name in options.only) and not run(step, options.out):
            sys.exit(1)
    if options.install:
        install(options.out)


if __name__ == "__main__":
    main()
