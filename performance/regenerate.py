"""The certificate and every table of the documentation about privacy and usefulness, one command.

    python performance/regenerate.py --chestxray14 CHESTXRAY14 --out WORK --install

Steps run side by side, a process a core, and leave what they print in WORK/NAME.txt. A step whose output is there is
passed over, and one that was cut off goes on from what it kept, so the command can be stopped at any time and started
again. ``--list`` shows the steps; ``--only NAME`` runs some of them; those that take long run only when they are named.
Another pack: ``--pack``.

``--install`` copies what the steps left into the repository: certificates into ``src/updp/release/certificates``, where
their signer is added to ``signers.txt`` (the private key, WORK/certifier.key, is removed then), figures into
``docs/figures``, ``measured.toml`` and the picture; and writes the pages that show them (``docs/generate.py``).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from updp.bench.evidence import FIDELITY, FILM, SKILL
from updp.bench.methods import AS_PRINTED, FROZEN, JUDGE, RETRAINED, STRONGEST
from updp.domains.chest import PACK

REPOSITORY = Path(__file__).parents[1]
CERTIFICATES = REPOSITORY / "src" / "updp" / "release" / "certificates"
DOCS = REPOSITORY / "docs"
#: Settings whose certificates ship: the default ones.
CERTIFIED = (("updp", 1.0),)
#: The methods of the evidence are dealt to so many processes, of which as many run at a time as there are cores.
_PARTS = 6
#: What a page needs of a measurement beside its figure.
_DETAIL = ("not_measured", "exemption", "unit", "min_cell", "expected", "real_to_real", "judges_start_from")


class Step(NamedTuple):
    name: str
    about: str
    command: Sequence[str]
    parts: Sequence[Sequence[str]] = ()  # commands that leave most of the work done, in any order
    long: bool = False


def steps(chest: Path, reports: Path | None, out: Path, pack: str, films: int, jobs: int) -> Iterator[Step]:
    python, updp = [sys.executable], [sys.executable, "-m", "updp"]
    performance = REPOSITORY / "performance"
    for method, strength in CERTIFIED:
        name = f"{method}-{strength:g}"
        command = [*updp, "certify", "--data", str(chest), "--method", method, "--strength", str(strength), "--quick"]
        command += ["--films", "1600", "--work", str(out / "certify"), "--key", str(out / "certifier.key")]
        command += ["--out", str(out / f"{name}.json")]
        yield Step(f"certificate-{name}", "certificate of a default setting", command)
    bench = [*updp, "bench", "methods", "--data", str(chest), "--films", str(films), "--quick"]
    if pack != PACK:  # else each method has the pack that its weights learned with
        bench += ["--pack", pack]
    bench += ["--tables", "evidence,identity,privdiff", "--out", str(out / "evidence")]
    bench += ["--plan", str(DOCS / "plans" / "evidence.toml")]
    parts = [[*bench, "--part", f"{k}/{_PARTS}"] for k in range(1, _PARTS + 1)] if jobs > 1 else []
    yield Step("evidence", "what the gate asks, of every method and of controls", bench, parts)
    interval = [*python, str(performance / "film_interval.py"), "--data", str(chest)]
    yield Step("film-interval", "coverage of the interval, by simulation", interval, long=True)
    if reports is not None:
        words = [*updp, "bench", "methods", "--pack", pack, "--data", str(reports), "--method", "updp"]
        words += ["--tables", "reports", "--films", "2400", "--out", str(out / "reports")]
        yield Step("report-generation", "report generation by regime", words, long=True)
        cohort = [*python, str(performance / "compose_reports.py"), "--films", str(chest), "--reports", str(reports)]
        cohort += ["--out", str(out / "cohort")]
        composed = [*updp, "bench", "methods", "--data", str(out / "cohort"), "--films", "480", "--quick"]
        composed += ["--tables", "evidence", "--plan", str(DOCS / "plans" / "composed.toml")]
        composed += ["--out", str(out / "composed")]
        about = "several studies of a patient with reports, a composed cohort"
        yield Step("composed", about, composed, [cohort], long=True)


def run(todo: Sequence[Step], out: Path, jobs: int) -> bool:
    """The steps, unless what they printed is there already: parts first, as many side by side as there are cores."""
    left = []
    for step in todo:
        if done(step, out):
            print(f"{step.name}: there")
        else:
            left.append(step)
    whole = [(step.name, step.command) for step in left if not step.parts]
    parts = [(f"{step.name}-{k}", part) for step in left for k, part in enumerate(step.parts, 1)]
    with ThreadPoolExecutor(jobs) as pool:
        ended = list(pool.map(lambda one: call(*one, out, alone=jobs == 1), [*whole, *parts]))
    return all(ended) and all(call(step.name, step.command, out, alone=True) for step in left if step.parts)


def done(step: Step, out: Path) -> bool:
    return (out / f"{step.name}.txt").is_file()


def call(name: str, command: Sequence[str], out: Path, alone: bool) -> bool:
    """One command; what it prints lands whole or not at all. It has one thread unless it runs alone."""
    print(f"{name}: {' '.join(command)}", flush=True)
    part = out / f"{name}.part"
    threads = {} if alone else {"OMP_NUM_THREADS": "1"}
    with part.open("w") as told:
        told.write(f"$ {' '.join(command)}\n")
        told.flush()
        code = subprocess.run(
            command, stdout=told, stderr=subprocess.STDOUT, check=False, env={**os.environ, **threads}
        ).returncode
    if code:
        print(f"{name}: ended with {code}; see {part}", flush=True)
        return False
    os.replace(part, out / f"{name}.txt")
    print(f"{name}: done", flush=True)
    return True


# -- into the repository ---------------------------------------------------------------------------------------------


def install(out: Path) -> None:
    """What the steps left, as far as it is there, and the pages that show it."""
    install_certificates(out)
    figures = DOCS / "figures"
    for name in ("evidence", "reports", "composed"):
        made = out / name / "methods.json"
        if made.is_file():
            figures.mkdir(exist_ok=True)
            text = json.dumps(trimmed(json.loads(made.read_bytes()), name), indent=None, separators=(",", ":"))
            (figures / f"{name}.json").write_text(text.replace('{"method"', '\n{"method"') + "\n", "utf-8")
    picture = out / "evidence" / "frontier.svg"
    if picture.is_file():
        shutil.copyfile(picture, DOCS / "pictures" / "privacy-utility.svg")
    measured = [out / "evidence" / "methods.json", *(out / f"{m}-{s:g}.json" for m, s in CERTIFIED)]
    there = [str(path) for path in measured if path.is_file()]
    if there:
        subprocess.run([sys.executable, str(REPOSITORY / "performance" / "write_measured.py"), *there], check=True)
    subprocess.run([sys.executable, str(DOCS / "generate.py")], check=True)


def install_certificates(out: Path) -> None:
    """The certificates into the package, with their signer; the private key goes."""
    made = [out / f"{method}-{strength:g}.json" for method, strength in CERTIFIED]
    made = [path for path in made if path.is_file()]
    if not made:
        return
    CERTIFICATES.mkdir(exist_ok=True)
    signers = CERTIFICATES / "signers.txt"
    known = signers.read_text("ascii").split() if signers.is_file() else []
    for path in made:
        raw = path.read_bytes()
        known.append(json.loads(raw)["signed_by"])
        (CERTIFICATES / path.name).write_bytes(raw)
    # Keys whose certificates were replaced vouch for nothing any more.
    still = {json.loads(path.read_bytes())["signed_by"] for path in CERTIFICATES.glob("*.json")}
    signers.write_text("\n".join(key for key in dict.fromkeys(known) if key in still) + "\n", "ascii")
    (out / "certifier.key").unlink(missing_ok=True)


def trimmed(facts: Mapping[str, Any], table: str) -> dict[str, Any]:
    """A ``methods.json`` with what its page shows and nothing else."""
    columns = (*FILM, *SKILL, *FIDELITY, AS_PRINTED, RETRAINED, FROZEN, STRONGEST, JUDGE)
    shown = {(c.metric, *sorted(c.fields.items())) for c in columns}

    def wanted(m: Mapping[str, Any]) -> bool:
        if table == "reports":
            return m["question"] == "utility" and m["value"] is not None
        if m["question"] == "record" or m["metric"] == "strongest membership":
            return True
        real = m["metric"] == "diagnosis AUC" and m["regime"] == "train real, test real"
        real |= m["metric"] in ("age accuracy", "sex accuracy")
        return real or any(m["metric"] == one[0] and all(m[k] == v for k, v in one[1:]) for one in shown)

    def small(m: Mapping[str, Any]) -> dict[str, Any]:
        kept = (*_DETAIL, "each_sharing")
        figures = {k: None if m[k] is None else round(m[k], 4) for k in ("value", "low", "high")}
        whole = {**m, **figures, "detail": {k: m["detail"][k] for k in kept if k in m["detail"]}}
        return {name: value for name, value in whole.items() if name != "name"}

    rows = []
    for row in facts["rows"]:
        # The record is the same for every method: once is enough.
        found = [small(m) for m in row["measurements"] if wanted(m) and not (rows and m["question"] == "record")]
        rows.append({**row, "measurements": found})
    return {"about": facts["about"], "rows": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chestxray14", type=Path, required=True)
    parser.add_argument("--iu-xray", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pack", default=PACK)
    parser.add_argument("--films", type=int, default=400, help="of the evidence")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes side by side")
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--install", action="store_true", help="put what was made into the repository")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    chosen = []
    for step in steps(options.chestxray14, options.iu_xray, options.out, options.pack, options.films, options.jobs):
        if options.list:
            print(f"{step.name}: {step.about}{' (only when named)' if step.long else ''}")
        elif step.name in options.only if options.only else not step.long:
            chosen.append(step)
    if not run(chosen, options.out, options.jobs):
        sys.exit(1)
    if options.install:
        install(options.out)


if __name__ == "__main__":
    main()
