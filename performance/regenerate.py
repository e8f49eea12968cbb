"""The certificate and every table of the documentation on privacy, usefulness and the papers, by one command.

    python performance/regenerate.py --chestxray14 CHESTXRAY14 --iu-xray IU_XRAY --out WORK --install

Steps run side by side, a process a core, and leave what they print in WORK/NAME.txt. A step whose output is there, of
the same command and models, is passed over, and one that was cut off goes on from what it kept: the command can be
stopped at any time and started again. Steps that measure time come last, alone. ``--list`` shows the steps; ``--only
NAME`` runs some of them, with what they need first. Another pack: ``--pack``. ``--trial`` takes a few films for each
step, to see in minutes that all of them run.

``--install`` copies what the steps left into the repository: certificates into ``src/updp/release/certificates``, where
their signer is added to ``signers.txt`` (the private key, WORK/certifier.key, is removed then), figures into
``docs/figures``, ``measured.toml`` and pictures; and writes the pages that show them (``docs/generate.py``).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

from updp.bench import frontier, identity
from updp.bench.evidence import FIDELITY, FILM, SKILL, Column
from updp.bench.methods import AS_PRINTED, FROZEN, JUDGE, PRIVACY, RETRAINED, SKILLS, STRONGEST, UTILITY
from updp.domains.chest import METHOD_WEIGHTS, PACK
from updp.models import load_pack

REPOSITORY = Path(__file__).parents[1]
CERTIFICATES = REPOSITORY / "src" / "updp" / "release" / "certificates"
DOCS = REPOSITORY / "docs"
PLANS = DOCS / "plans"
#: Settings whose certificates ship: the default ones.
CERTIFIED = (("updp", 1.0),)
#: The settings of a large bench are dealt to so many processes, of which as many run at a time as there are cores.
_PARTS = 6
#: What a page needs of a measurement beside its figure.
_DETAIL = ("not_measured", "exemption", "unit", "min_cell", "expected", "real_to_real", "judges_start_from")
#: When a step runs: before those that need what it makes, side by side, or alone because it measures time.
FIRST, BESIDE, ALONE = range(3)
#: Films (or prompts, or repetitions) of each step, and of a trial.
SIZES: Mapping[str, tuple[int, int]] = {
    "certificate": (1600, 40),
    "evidence": (400, 40),
    "frontier": (320, 40),
    "identity": (50, 4),  # patients
    "composed": (480, 30),
    "cohort": (150, 12),  # patients
    "ablation": (64, 2),  # of each source
    "generated": (24, 2),  # of each source
    "epsilon": (64, 2),  # of each source
    "prompts": (10_000, 20),
    "searches": (240, 24),
    "reports": (2400, 60),
    "privdiff": (400, 40),
    "drafts": (800, 40),
    "privdiff-path": (64, 4),  # patients
    "rate": (1000, 100),
    "interval": (40, 1),  # repetitions
    "speed": (32, 2),
    "search-speed": (8, 1),
}


@dataclass(frozen=True)
class Step:
    name: str
    about: str
    command: Sequence[str]
    parts: Sequence[Sequence[str]] = ()  # commands that leave most of the work done, in any order
    stage: int = BESIDE
    needs: Sequence[str] = ()  # steps of the first stage
    roles: Sequence[str] | None = None  # models of the pack that it uses; None: all, and the methods' weights
    figures: str = ""  # file of figures in WORK; without one, the tables it prints
    columns: Sequence[Column] | None = None  # measurements that its page shows; None: the figures as they are
    pictures: Mapping[str, str] = field(default_factory=dict)  # file in WORK to name in docs/pictures


def steps(
    chest: Path, reports: Path | None, out: Path, pack: str, jobs: int = 1, trial: bool = False
) -> Iterator[Step]:
    """Every step, as far as the data allow."""
    python, updp = [sys.executable], [sys.executable, "-m", "updp"]
    performance = REPOSITORY / "performance"
    own = [] if pack == PACK else ["--pack", pack]  # else each method has the pack that its weights learned with
    both = [*([] if reports is None else ["--data", str(reports)]), "--data", str(chest)]

    def size(name: str) -> str:
        return str(SIZES[name][trial])

    def shared(command: list[str]) -> list[list[str]]:
        return [[*command, "--part", f"{k}/{_PARTS}"] for k in range(1, _PARTS + 1)] if jobs > 1 else []

    def bench(name: str, source: Path, *more: str) -> list[str]:
        return [*updp, "bench", "methods", "--data", str(source), *own, *more, "--films", size(name),
                "--out", str(out / name)]  # fmt: skip

    def plan(name: str) -> tuple[str, str]:
        # A trial tries no method beyond a few: those of the other benches run through the same code.
        return "--plan", str(PLANS / f"{'composed' if trial and name == 'evidence' else name}.toml")

    for method, strength in CERTIFIED:
        name = f"{method}-{strength:g}"
        command = [*updp, "certify", "--data", str(chest), "--method", method, "--strength", str(strength), "--quick"]
        command += ["--films", size("certificate"), "--work", str(out / "certify"), "--key", str(out / "certifier.key")]
        command += ["--out", str(out / f"{name}.json")]
        yield Step(f"certificate-{name}", "certificate of a default setting", command)

    judge = str(out / "judge.safetensors")
    yield Step("judge", "a second vlm, which scores prompts and is never optimised",
               [*updp, "train", "judge", *both, "--out", judge], stage=FIRST, roles=())  # fmt: skip
    if reports is not None:
        cohort = [*python, str(performance / "compose_reports.py"), "--films", str(chest), "--reports", str(reports)]
        cohort += ["--pack", pack, "--patients", size("cohort"), "--out", str(out / "cohort")]
        yield Step("cohort", "films of several studies of a patient, with reports of others", cohort, stage=FIRST,
                   roles=("vlm",))  # fmt: skip

    columns = (*FILM, *SKILL, *FIDELITY, AS_PRINTED, RETRAINED, FROZEN, STRONGEST, JUDGE, *ATTRIBUTES)
    command = bench("evidence", chest, "--quick", "--tables", "evidence,identity,privdiff", *plan("evidence"))
    yield Step("evidence", "what the gate asks, of every method and of controls", command, shared(command),
               figures="evidence/methods.json", columns=columns,
               pictures={"evidence/frontier.svg": "privacy-utility.svg"})  # fmt: skip
    command = [*updp, "bench", "frontier", "--data", str(chest), *own, "--quick", "--films", size("frontier")]
    command += ["--out", str(out / "frontier"), *(["--method", "keep", "--method", "k-same"] if trial else [])]
    yield Step("frontier", "every method by its knob", command, shared(command), figures="frontier/frontier.json",
               columns=frontier.COLUMNS, pictures={"frontier/frontier.svg": "frontier.svg"})  # fmt: skip
    command = [*updp, "bench", "identity", "--data", str(chest), *own, "--quick", "--patients", size("identity")]
    yield Step("identity", "naming one of fifty patients, whom the generator met or not",
               [*command, "--out", str(out / "identity")], figures="identity/identity.json",
               columns=identity.COLUMNS)  # fmt: skip
    for name, about, roles in (
        ("ablation", "what each part of the prompt search adds", ("vlm",)),
        ("generated", "UPDP's Table 3 and Figures 4 and 5 on generated films", None),
        ("epsilon", "similarity of prompts by privacy budget", ("vlm",)),
    ):
        command = [*updp, "bench", name, *both, *own, "--judge", judge, "--films", size(name), "--out", str(out / name)]
        yield Step(name, about, command, needs=["judge"], roles=roles, figures=f"{name}/{name}.json",
                   pictures=PROMPT_PICTURES[name])  # fmt: skip
    command = bench("privdiff", chest, "--quick", "--tables", "privdiff", *plan("privdiff"))
    yield Step("privdiff", "PrivDiff-Net without its parts", command, figures="privdiff/methods.json",
               columns=(*PRIVACY, *UTILITY, *ATTRIBUTES))  # fmt: skip
    command = bench("drafts", chest, "--tables", "skill", *plan("drafts"))
    yield Step("drafts", "films of the record alone, by how the one that leaves is chosen", command, shared(command),
               figures="drafts/methods.json", columns=SKILLS)  # fmt: skip
    name = "privdiff-path"
    command = [*updp, "bench", "privdiff", "--data", str(chest), *own, "--patients", size(name)]
    command += ["--out", str(out / name)]
    yield Step(name, "where identity passes in PrivDiff-Net", command, figures=f"{name}/privdiff.json")
    command = [*updp, "bench", "rate", "--data", str(chest), *own, "--films", size("rate"), "--out", str(out / "rate")]
    yield Step("rate", "what DCM-DeID's code tells, by its length in bits", command, figures="rate/rate.json",
               pictures={"rate/rate.png": "rate.png"})  # fmt: skip
    command = [*python, str(performance / "film_interval.py"), "--data", str(chest), "--patients", "60"]
    yield Step("interval", "coverage of the interval, by simulation", [*command, "--repeats", size("interval")],
               roles=())  # fmt: skip
    if reports is None:
        return
    yield Step("reports", "report generation by regime",
               bench("reports", reports, "--tables", "reports", "--method", "updp"),
               figures="reports/methods.json", columns=())  # fmt: skip
    command = bench("searches", reports, "--quick", "--tables", "reports", *plan("prompt-searches"))
    yield Step("searches", "report generation by prompt search", command, shared(command),
               figures="searches/methods.json", columns=())  # fmt: skip
    command = bench("composed", out / "cohort", "--quick", "--tables", "evidence", *plan("composed"))
    yield Step("composed", "several studies of a patient with reports, a composed cohort", command, needs=["cohort"],
               figures="composed/methods.json", columns=columns)  # fmt: skip
    command = [*python, str(performance / "prompts.py"), "--data", str(reports), "--pack", pack, "--steps", "4"]
    yield Step("prompts", "whether prompts are clean", [*command, "--prompts", size("prompts")], roles=("vlm",))
    command = [*python, str(performance / "updp_method.py"), "--data", str(reports), "--films", size("speed")]
    yield Step("speed", "UPDP beside the literal loop", command, stage=ALONE)
    command = [*python, str(performance / "searches.py"), "--data", str(reports), "--pack", pack]
    yield Step("search-speed", "prompt searches beside their literal loops",
               [*command, "--films", size("search-speed")], stage=ALONE, roles=("vlm",))  # fmt: skip


#: Age and sex, which stand beside PrivDiff-Net's Table 3.
ATTRIBUTES = (Column("age", "age accuracy"), Column("sex", "sex accuracy"))
PROMPT_PICTURES: Mapping[str, Mapping[str, str]] = {
    "ablation": {f"ablation/{name}": name for name in ("ablation-length.png", "ablation-iterations.png")},
    "generated": {f"generated/{name}": name for name in ("generated-length.png", "generated-iterations.png")},
    "epsilon": {"epsilon/epsilon.png": "epsilon.png"},
}


def chosen_of(known: Sequence[Step], only: Sequence[str]) -> list[Step]:
    """The steps asked for, with what they need, in the order of their stages."""
    names = {step.name for step in known}
    if unknown := sorted(set(only) - names):
        raise SystemExit(f"no step {unknown[0]}; there are {', '.join(sorted(names))}")
    wanted = set(only) or names
    wanted |= {need for step in known if step.name in wanted for need in step.needs}
    return sorted((step for step in known if step.name in wanted), key=lambda step: step.stage)


def run(todo: Sequence[Step], out: Path, jobs: int, mark: Callable[[Step], str] = lambda step: "") -> bool:
    """The steps, unless what they printed is there already. One that fails stops those that need it and no other."""
    failed: set[str] = set()
    for stage in (FIRST, BESIDE, ALONE):
        left = []
        for step in todo:
            if step.stage != stage:
                continue
            if done(step.name, step.command, out, mark(step)):
                print(f"{step.name}: there", flush=True)
            elif missing := failed & set(step.needs):
                print(f"{step.name}: left out, since {', '.join(sorted(missing))} failed", flush=True)
                failed.add(step.name)
            else:
                left.append(step)
        failed |= _side_by_side(left, out, 1 if stage == ALONE else jobs, {step.name: mark(step) for step in left})
    if failed:
        print(f"failed: {', '.join(sorted(failed))}", flush=True)
    return not failed


def _side_by_side(todo: Sequence[Step], out: Path, jobs: int, marks: Mapping[str, str]) -> set[str]:
    """Names of those that failed. What puts the parts of a step together runs as soon as the last of them has ended."""
    ended: dict[str, list[bool]] = {step.name: [] for step in todo}
    lock = Lock()

    def one(step: Step, name: str, command: Sequence[str]) -> None:
        mark = marks[step.name]
        fine = done(name, command, out, mark) or call(name, command, out, jobs == 1, mark)
        with lock:
            ended[step.name].append(fine)
            last = len(ended[step.name]) == len(step.parts) and all(ended[step.name])
        if last:
            fine = call(step.name, step.command, out, jobs == 1, mark)
            ended[step.name].append(fine)

    with ThreadPoolExecutor(jobs) as pool:
        for step in todo:
            pieces = [(f"{step.name}-{k}", part) for k, part in enumerate(step.parts, 1)]
            for name, command in pieces or [(step.name, step.command)]:
                pool.submit(one, step, name, command)
    whole = {step.name: len(step.parts) + 1 if step.parts else 1 for step in todo}
    return {name for name, fine in ended.items() if not all(fine) or len(fine) < whole[name]}


def done(name: str, command: Sequence[str], out: Path, mark: str) -> bool:
    """Whether its output is there, of this command and these models; another interpreter or checkout makes the same."""
    try:
        begun = (out / f"{name}.txt").read_text("utf-8").splitlines()[:2]
    except OSError:
        return False
    return [shown(line.split(" "), {}) for line in begun] == _began(command, mark).splitlines()


def _began(command: Sequence[str], mark: str) -> str:
    return f"$ {shown(command, {})}\n# models {mark}\n"


def models_of(step: Step, pack: str) -> str:
    """A digest of the models that a step uses; with others it is made anew."""
    found = load_pack(pack, verify=False)
    if step.roles is None:
        used: list[Any] = [found.digest, load_pack(METHOD_WEIGHTS, verify=False).digest]
    else:
        used = [[found.info["roles"][role], found.role_digest(role)] for role in step.roles]
    return hashlib.sha256(json.dumps(used, sort_keys=True).encode()).hexdigest()[:16]


def call(name: str, command: Sequence[str], out: Path, alone: bool, mark: str = "") -> bool:
    """One command; what it prints lands whole or not at all. It has one thread unless it runs alone."""
    print(f"{name}: {' '.join(command)}", flush=True)
    part = out / f"{name}.part"
    threads = {} if alone else {"OMP_NUM_THREADS": "1"}
    with part.open("w") as told:
        told.write(_began(command, mark))
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


def install(known: Sequence[Step], out: Path, places: Mapping[str, str]) -> None:
    """What the steps left, as far as it is there, and the pages that show it."""
    install_certificates(out)
    (DOCS / "figures").mkdir(exist_ok=True)
    for step in known:
        facts = figures_of(step, out)
        if facts is None:
            continue
        held = {"command": shown(step.command, places), **facts}
        text = json.dumps(held, indent=None, separators=(",", ":"))
        for start in ('{"method"', '{"table"', '{"variant"', '{"channels"', '{"strength"', '"| '):
            text = text.replace(start, f"\n{start}")
        (DOCS / "figures" / f"{step.name}.json").write_text(text + "\n", "utf-8")
        for made, name in step.pictures.items():
            shutil.copyfile(out / made, DOCS / "pictures" / name)
    measured = [out / "evidence" / "methods.json", *(out / f"{m}-{s:g}.json" for m, s in CERTIFIED)]
    there = [str(path) for path in measured if path.is_file()]
    if there:
        subprocess.run([sys.executable, str(REPOSITORY / "performance" / "write_measured.py"), *there], check=True)
    subprocess.run([sys.executable, str(DOCS / "generate.py")], check=True)


def figures_of(step: Step, out: Path) -> dict[str, Any] | None:
    """What a page shows of a step that has ended: its figures, or the lines of the tables it printed."""
    told = out / f"{step.name}.txt"
    if not told.is_file() or step.stage == FIRST or step.name.startswith("certificate-"):
        return None
    if not step.figures:
        lines = told.read_text("utf-8").splitlines()
        rows = [k for k, line in enumerate(lines) if line.startswith("|")]
        return {"lines": lines[rows[0] : rows[-1] + 1]} if rows else None
    facts: dict[str, Any] = json.loads((out / step.figures).read_bytes())
    return facts if step.columns is None else trimmed(facts, step.columns)


def shown(command: Sequence[str], places: Mapping[str, str]) -> str:
    """A command for readers: nothing of this machine."""
    text = " ".join(command).replace(f"{sys.executable} -m updp", "updp").replace(sys.executable, "python")
    for place, name in {str(REPOSITORY) + "/": "", **places}.items():
        text = text.replace(place, name)
    return text


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


def trimmed(facts: Mapping[str, Any], columns: Sequence[Column]) -> dict[str, Any]:
    """A file of a bench of methods with what its page shows; without columns, what was measured of usefulness."""
    shown = {(c.metric, *sorted(c.fields.items())) for c in columns}

    def wanted(m: Mapping[str, Any]) -> bool:
        if not columns:
            return m["question"] == "utility" and m["value"] is not None
        if m["question"] == "record" or m["metric"] == "strongest membership":
            return True
        real = m["metric"] == "diagnosis AUC" and m["regime"] == "train real, test real"
        return real or any(m["metric"] == one[0] and all(m[k] == v for k, v in one[1:]) for one in shown)

    def small(m: Mapping[str, Any]) -> dict[str, Any]:
        kept = (*_DETAIL, "each_sharing")
        figures = {k: None if m[k] is None else round(m[k], 4) for k in ("value", "low", "high")}
        whole = {**m, **figures, "detail": {k: m["detail"][k] for k in kept if k in m["detail"]}}
        return {name: value for name, value in whole.items() if name != "name"}

    def fewer(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        out: list[dict[str, Any]] = []
        for row in rows:
            # The record is the same for every method: a page shows all of it once, and beside a method what it names.
            named = [c.metric for c in columns]
            found = [
                small(m)
                for m in row["measurements"]
                if wanted(m) and not (out and m["question"] == "record" and m["metric"] not in named)
            ]
            out.append({**row, "measurements": found})
        return out

    if "groups" in facts:
        return {**facts, "groups": [{**group, "rows": fewer(group["rows"])} for group in facts["groups"]]}
    return {**facts, "rows": fewer(facts["rows"])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chestxray14", type=Path, required=True)
    parser.add_argument("--iu-xray", type=Path, help="without it, steps that need reports are left out")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pack", default=PACK)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes side by side")
    parser.add_argument("--only", nargs="+", default=[], help="these steps")
    parser.add_argument("--without", nargs="+", default=[], help="all but these steps")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--trial", action="store_true", help="a few films for each step; nothing can be installed")
    parser.add_argument("--install", action="store_true", help="put what was made into the repository")
    options = parser.parse_args()
    if options.trial and options.install:
        parser.error("figures of a trial are not for the documentation")
    out = options.out.absolute()
    known = list(steps(options.chestxray14, options.iu_xray, out, options.pack, options.jobs, options.trial))
    if options.list:
        for step in known:
            print(f"{step.name}: {step.about}{' (before others)' if step.stage == FIRST else ''}")
        return
    out.mkdir(parents=True, exist_ok=True)
    chosen = chosen_of(known, options.only or [s.name for s in known if s.name not in options.without])
    fine = run(chosen, out, options.jobs, lambda step: models_of(step, options.pack))
    if options.install:
        places = {str(out): "WORK", str(options.chestxray14): "CHESTXRAY14", str(options.iu_xray): "IU_XRAY"}
        install(known, out, places)
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()
