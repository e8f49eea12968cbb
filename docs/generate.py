"""Write the reference pages from the code: policy, its JSON schema, command line, reason codes; the figures of the
README from ``figures.toml`` and from what `updp methods` prints; and the tables of the results from the certificate
that ships and from what `performance/regenerate.py` left in ``figures/``.

Run from anywhere: ``python docs/generate.py``; ``--check`` writes nothing and fails if a page is out of date.
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
_MADE = "<!-- Made by docs/generate.py from the code; do not edit. -->\n"


def pages() -> dict[str, str]:
    """Every generated page: path within docs/ to text."""
    from updp.core.policy import json_schema

    return {
        "reference/policy.md": policy_page(),
        "reference/policy.schema.json": json_schema(),
        "reference/command-line.md": command_line_page(),
        "reference/reason-codes.md": reason_codes_page(),
        "../README.md": readme(),
        **result_pages(),
    }


# -- figures ---------------------------------------------------------------------------------------------------------

_BEGIN, _END = "<!-- figures:", "<!-- end of figures -->"


def readme() -> str:
    """The README with the table of figures as it stands in the data."""
    text = (DOCS.parent / "README.md").read_text("utf-8")
    head, _, rest = text.partition(_BEGIN)
    mark, _, rest = rest.partition("\n")
    _, _, tail = rest.partition(_END)
    return f"{head}{_BEGIN}{mark}\n{figures()}{_END}{tail}"


def figures() -> str:
    """Figures as a table. A row without a command or a measurement behind it is an error."""
    import tomllib

    from updp.methods.measured import Measured, read_measured

    known = {(one.name, one.strength): one for one in read_measured() if not one.options}
    used: dict[tuple[str, float | None], Measured] = {}
    out = ["| what | updp | for comparison |", "|---|---|---|"]
    for row in tomllib.loads((DOCS / "figures.toml").read_text("utf-8"))["row"]:
        if "method" in row:
            at = (row["method"], row["strength"])
            used[at] = known[at]
            values = [getattr(known[at], name) for name in row["figures"]]
            cell = "; ".join("not measured" if v is None else "{:.2f} [{:.2f}, {:.2f}]".format(*v) for v in values)
        else:
            assert row["command"], row["what"]
            cell = row["updp"]
        out.append(f"| {row['what']} | {cell} | {row['beside']} |")
    for (name, strength), one in used.items():
        quick = ", a quick evaluation" if one.quick else ""
        out.append(
            f"\nFigures of `{name}` at strength {strength:g} are of {one.films} films of {one.patients} patients who "
            f"trained no model{quick}; judges and\nattackers learned on other patients of these. `updp methods` prints "
            "the same: both come from `measured.toml`."
        )
    return "\n".join(out) + "\n\n"


# -- results ---------------------------------------------------------------------------------------------------------

_ABSENT = "These tables have not been made with the models of this version.\n\n"


def result_pages() -> dict[str, str]:
    """The pages of results with their tables as they stand in the data.

    A table stands between ``<!-- NAME: … -->`` and ``<!-- end of NAME -->``.
    """
    made = {}
    for page in ("results.md", "results-updp.md", "results-faces.md"):
        text = (DOCS / page).read_text("utf-8")
        for name in re.findall(r"^<!-- end of ([\w-]+) -->$", text, re.MULTILINE):
            head, _, rest = text.partition(f"<!-- {name}:")
            mark, _, rest = rest.partition("\n")
            _, _, tail = rest.partition(f"<!-- end of {name} -->")
            inner = certificate() if name == "certificate" else table_of(name)
            text = f"{head}<!-- {name}:{mark}\n{inner}<!-- end of {name} -->{tail}"
        made[page] = text
    return made


def table_of(name: str) -> str:
    """What `performance/regenerate.py` left of a step, as tables under the command that made them."""
    path = DOCS / "figures" / f"{name}.json"
    if not path.is_file():
        return _ABSENT
    facts = json.loads(path.read_bytes())
    known = _TABLES | _FACES
    tables = known[name](facts) if name in known else "\n".join(facts["lines"])
    return f"`{facts['command']}`\n\n{tables.strip()}\n\n"


def on_whom(about: dict[str, Any]) -> str:
    """The models and the films that figures are of, in a sentence."""
    pack = about["pack"]
    models = f"{pack['role']} of pack {pack['name']}" if "role" in pack else f"pack {pack['name']}"
    where = f"{about['films']} films of {about['patients']} patients, " if "films" in about else ""
    return f"{where}{models} (`{pack['sha256'][:12]}`), seed {about['seed']}."


def _methods(*tables: str) -> Callable[[Any], str]:
    def text(facts: Any) -> str:
        from updp.bench.evidence import rows_of
        from updp.bench.methods import markdown

        return markdown(rows_of(facts), facts["about"], tables)

    return text


def _ablation(facts: Any) -> str:
    from updp.bench.ablation import Gain, Row, markdown
    from updp.bench.tables import read_rows

    text = markdown(read_rows(Row, facts["rows"]), read_rows(Gain, facts["gains"]))
    pictures = "![Score by prompt length](pictures/ablation-length.png) "
    return f"{on_whom(facts['about'])}\n\n{text}\n{pictures}![Score by steps](pictures/ablation-iterations.png)"


def _generated(facts: Any) -> str:
    from updp.bench.generated import Row, markdown
    from updp.bench.tables import read_rows

    names = {"By prompt length": "length", "By content iteration": "iterations"}
    pictures = "\n\n".join(f"![{words}](pictures/generated-{name}.png)" for words, name in names.items())
    return f"{on_whom(facts['about'])}\n\n{markdown(read_rows(Row, facts['rows']))}\n{pictures}"


def _epsilon(facts: Any) -> str:
    from updp.bench.epsilon import Row, markdown
    from updp.bench.tables import read_rows

    text = markdown(read_rows(Row, facts["rows"]))
    return f"{on_whom(facts['about'])}\n\n{text}\n![Gain kept by budget](pictures/epsilon.png)"


def _rate(facts: Any) -> str:
    from updp.bench.rate import Row, markdown
    from updp.bench.tables import read_rows

    text = markdown(read_rows(Row, facts["rows"]))
    return f"{on_whom(facts['about'])}\n\n{text}\n![Findings and identity by bits](pictures/rate.png)"


def _privdiff_path(facts: Any) -> str:
    from updp.bench.privdiff import Row, Size, markdown
    from updp.bench.tables import read_rows

    return f"{on_whom(facts['about'])}\n\n{markdown(read_rows(Row, facts['rows']), read_rows(Size, facts['sizes']))}"


def _identity(facts: Any) -> str:
    from updp.bench.identity import groups_of, markdown

    budget = "A quick" if facts["about"]["quick"] else "The full"
    return f"{on_whom(facts['about'])} {budget} evaluation.\n\n{markdown(groups_of(facts))}"


def _frontier(facts: Any) -> str:
    from updp.bench.frontier import page

    return f"![Usefulness against film linkage by strength](pictures/frontier.svg)\n\n{page(facts)}"


def _evidence(facts: Any) -> str:
    picture = "![Usefulness against film linkage](pictures/privacy-utility.svg)"
    return f"{picture}\n\n{_methods('evidence', 'identity', 'privdiff')(facts)}"


def _faces(facts: Any) -> str:
    from updp.bench.faces import markdown

    about = facts["about"]
    brute, people = about["brute force"], next(iter(facts["settings"].values()))["identity"]
    apart = ", ".join(f"{one['of two people'][0]:.3f} ({name})" for name, one in people.items())
    words = [
        on_whom(about).replace("films", "photographs").replace("patients", "people"),
        f"Two different people are {apart} apart. Attackers and judges that adapt learned on {about['taught']}",
        "released photographs of training people.",
    ]
    if brute:
        tried = f"{brute['passwords']} passwords of `fit` are tried on one photograph in {brute['seconds']:.0f} s"
        words.append(f"All {tried} of one core.")
    return "\n".join(words) + "\n\n" + markdown(facts)


def _mema(facts: Any) -> str:
    """Tables 1 and 2 of MedSem-DeID, ours and as printed."""
    from updp.bench.faces import published
    from updp.core.markdown import table_lines

    theirs, out = published(), []
    names = [name for name in facts["thresholds"]]
    rows = [[way, *(f"{100 * shares[name]:.1f} %" for name in (*names, "average"))]
            for way, shares in facts["leakage"].items()]  # fmt: skip
    out += ["### Table 1: samples nearer to a patient than one in a thousand strangers", ""]
    out += table_lines(["sampled", *names, "average"], rows)
    out += ["As printed:", "", *table_lines(theirs["mema"]["heads"], theirs["mema"]["rows"])]
    measures = list(facts["distance"]["guided"])
    rows = [
        [way, *("–" if shares[name] is None else f"{shares[name]:.3f}" for name in measures)]
        for way, shares in facts["distance"].items()
    ]
    out += ["### Table 2: distance of the set to the clinic", "", *table_lines(["drawn", *measures], rows)]
    out += ["As printed (Wasserstein throughout):", ""]
    out += table_lines(theirs["distance"]["heads"], theirs["distance"]["rows"])
    out.append(
        f"{facts['written']} photographs were written, {facts['tumours']} of them with a mask of their tumour; "
        f"{facts['dropped']} were rejected as too near to a patient."
    )
    return "\n".join(out)


def _medsem(facts: Any) -> str:
    """What a training said of people who validate."""
    from updp.core.markdown import table_lines

    rows = [[name, f"{value:.3g}" if abs(value) < 10 else f"{value:.1f}"] for name, value in facts["figures"].items()]
    return "\n".join(table_lines(["figure", "value"], rows))


#: Steps whose figures are data; of the others the tables that they printed are kept.
_TABLES: dict[str, Callable[[Any], str]] = {
    "evidence": _evidence,
    "frontier": _frontier,
    "composed": _methods("evidence"),
    "reports": _methods("reports"),
    "searches": _methods("reports"),
    "privdiff": _methods("privdiff"),
    "ablation": _ablation,
    "generated": _generated,
    "epsilon": _epsilon,
    "identity": _identity,
    "rate": _rate,
    "privdiff-path": _privdiff_path,
    "drafts": _methods("skill"),
}
#: The same of `performance/faces.py`.
_FACES: dict[str, Callable[[Any], str]] = {"faces": _faces, "mema": _mema, "medsem": _medsem}


def certificate() -> str:
    """The figures of the certificate of the default method, with the bounds of the default policy."""
    from updp.core.measurement import Measurement
    from updp.core.policy import GatePolicy
    from updp.core.questions import QUESTIONS
    from updp.evaluation.probes.utility.diagnosis import AUC, KEPT, OTHER, RELEASED_REAL, SKILL
    from updp.release.certificate import shipped

    held = json.loads(shipped().joinpath("updp-1.json").read_bytes())["certificate"]
    cohort, subject = held["cohort"], held["subject"]
    found = [Measurement.from_json(m) for m in held["measurements"]]
    lines = []
    for m in found:
        bound = QUESTIONS[m.question or ""].bound_of(m)
        other = m.protocol == OTHER and (m.metric == AUC or (m.metric == SKILL and m.regime == RELEASED_REAL))
        first = m.protocol is None and m.metric == AUC
        if not m.measured or not (bound or other or first or m.metric.startswith("copies")):
            continue
        limit = "none" if bound is None else f"{bound.allowed(GatePolicy(), m):.2f}"
        lines.append(f"| {m.title} | {m.value:.3f} [{m.low:.3f}, {m.high:.3f}] | {m.n} | {limit} |")
    start = next((m.detail.get("judges_start_from") for m in found if m.metric == KEPT), None)
    others = any(m.protocol == OTHER and m.measured for m in found)
    pack = ", ".join(f"{use} `{digest[:12]}`" for use, digest in subject["packs"].items())
    words = [
        f"`updp certify --data CHESTXRAY14 --method {subject['method']} --strength {subject['strength']:g} --films "
        f"{cohort['films']}{' --quick' if cohort['quick'] else ''}`, {held['made']}: {cohort['films']} films of",
        f"{cohort['patients']} patients who trained no model ({pack}). Every patient is scored, by attackers and",
        "judges that learned from others.",
        f"Judges start from {start}, three seeds of each kind."
        + (" A second kind looks through VGG16, which has no part in any training here." if others else ""),
        "",
        "| figure | value | patients | bound |",
        "|---|---|---|---|",
        *lines,
    ]
    return "\n".join(words) + "\n\n"


# -- policy ----------------------------------------------------------------------------------------------------------


def policy_page() -> str:
    from updp.core.policy import Policy, Section

    out = [
        _MADE,
        "# Policy\n",
        "A policy is one TOML file. Every field has a default, so an empty file is a complete policy; a field that",
        "does not exist is an error that names its line. For machines: [policy.schema.json](policy.schema.json).",
        "How to write one: [how-to/policy.md](../how-to/policy.md).\n",
    ]
    for name, field in Policy.model_fields.items():
        section: type[Section] = field.annotation  # type: ignore[assignment]
        out.append(f"## `[{name}]`\n")
        if section.__doc__ and section.__doc__ != Section.__doc__:
            out.append(inspect.cleandoc(section.__doc__) + "\n")
        out += ["| field | type | default | meaning |", "|---|---|---|---|"]
        schema = section.model_json_schema()["properties"]
        defaults = section.model_construct().model_dump(mode="json")
        for key, facts in schema.items():
            cells = (f"`{key}`", _type(facts), _value(defaults[key]), facts.get("description", ""))
            out.append("| " + " | ".join(_cell(cell) for cell in cells) + " |")
        out.append("")
    out += ["## The defaults as a file\n", "```toml", Policy().to_toml().rstrip(), "```\n"]
    return "\n".join(out)


def _type(facts: dict[str, Any]) -> str:
    if "anyOf" in facts:
        return " or ".join(_type(option) for option in facts["anyOf"] if option.get("type") != "null")
    if "enum" in facts:
        return ", ".join(f"`{value}`" for value in facts["enum"])
    kind = {"boolean": "true or false", "integer": "whole number", "number": "number", "string": "text",
            "object": "table"}.get(facts.get("type", ""), facts.get("type", ""))  # fmt: skip
    if facts.get("type") == "array":
        return f"list of {_type(facts.get('items', {'type': 'string'}))}"
    low, high = facts.get("minimum"), facts.get("maximum")
    if low is not None and high is not None:
        return f"{kind}, {low:g} to {high:g}"
    return f"{kind}, at least {low:g}" if low is not None else kind


def _value(value: Any) -> str:
    return "none" if value is None else f"`{json.dumps(value)}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


# -- command line ----------------------------------------------------------------------------------------------------


def command_line_page() -> str:
    import typer

    from updp.cli.app import app

    out = [
        _MADE,
        "# Command line\n",
        "Exit codes: 0 done, 2 wrong use or unreadable source, 3 blocked by the gate, 4 (`--strict`) something was",
        "quarantined, 130 stopped by the user.\n",
        "`--json`, `--log FILE` and `--debug` may stand anywhere. With `--json` standard output holds one JSON object:",
        "`command`, `exit`, `error` where there is one, and what came out; words go to standard error. `updp scan`",
        "without `--out` prints its spans first, and the object is the last line.\n",
        "`--log FILE` adds JSON lines to the file (0600): `time`, `event`, and facts. Events are `start`, `progress`,",
        "`kept back` (`ref`, `station`, `reason`: a [reason code](reason-codes.md)) and `end`. No argument of the",
        "command and nothing of a patient is written.\n",
    ]
    for names, command in _commands(typer.main.get_command(app), ["updp"]):
        positional = [p for p in command.params if p.param_type_name == "argument"]
        options = [p for p in command.params if p.param_type_name == "option" and p.name != "help"]
        usage = [
            *names,
            *(p.name.upper() if p.required else f"[{p.name.upper()}]" for p in positional),
            *(["[OPTIONS]"] if options else []),
        ]
        out += [
            f"## `{' '.join(names)}`\n",
            inspect.cleandoc(command.help or "") + "\n",
            f"```\n{' '.join(usage)}\n```\n",
        ]
        if command.params:
            rows = [
                *((f"`{p.name.upper()}`", "", getattr(p, "help", "") or "") for p in positional),
                *(("`" + "`, `".join([*p.opts, *p.secondary_opts]) + "`", _default(p), p.help or "") for p in options),
            ]
            if rows:
                out += ["| parameter | default | meaning |", "|---|---|---|"]
                out += ["| " + " | ".join(_cell(cell) for cell in row) + " |" for row in rows]
                out.append("")
    return "\n".join(out)


def _commands(command: Any, names: list[str]) -> Iterator[tuple[list[str], Any]]:
    if hasattr(command, "commands"):
        if len(names) == 1:
            yield names, command
        for name, inner in command.commands.items():
            yield from _commands(inner, [*names, name])
    else:
        yield names, command


def _default(option: Any) -> str:
    if option.default is None or option.is_flag:
        return ""
    return f"`{option.default}`"


# -- reason codes ----------------------------------------------------------------------------------------------------


def reason_codes_page() -> str:
    from updp.core.reasons import REPAIR, Reason

    out = [
        _MADE,
        "# Reason codes\n",
        "Why a study was kept back. `quarantine.jsonl` beside the release has one line per study: a keyed reference,",
        "the station, the code. To find the study behind a line: [how-to/quarantine.md](../how-to/quarantine.md).\n",
        "| code | what to do |",
        "|---|---|",
        *(f"| `{reason.value}` | {_cell(REPAIR[reason])} |" for reason in Reason),
        "",
    ]
    return "\n".join(out)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page is out of date")
    args = parser.parse_args()
    stale = []
    for name, text in pages().items():
        path = DOCS / name
        if not path.is_file() or path.read_text("utf-8") != text:
            stale.append(name)
            if not args.check:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, "utf-8")
    print(("out of date: " if args.check else "written: ") + (", ".join(stale) or "none"))
    return 1 if args.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
