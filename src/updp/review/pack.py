"""`updp study pack`: a folder that a reader opens on a computer without Python; answers come back as a file.

The page is the one that the server shows, with the films beside it. It needs no network and no server: a browser opens
``index.html``. Answers are kept in the browser until the reader saves them to a file. Films are written as scripts,
since a page that was opened as a file may run a script beside it and may not read the pixels of a picture.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path

from updp.core.keys import Key
from updp.core.storage import explain
from updp.review.plan import BadPlan, film_bytes, load_plan

_STATIC = Path(__file__).parent / "static"
_SCRIPTS = ("review.css", "theme.js", "viewer.js", "code.js", "read.js")

_README = """Reader study, {reader}

Open index.html in a browser. Nothing is installed and nothing is sent anywhere.
Read in one browser on one computer: answers stay in that browser until you press "Save answers to a file".
Send the saved file back to the hospital.

The films in this folder are of patients and of models; headers and burned-in text are removed.
Keep the folder as you would keep patients' films, and delete it after the study.
"""


def pack(study: Path, out: Path, key: Key, reader: str | None = None) -> list[Path]:
    """Write a folder for one reader, or one for each; returns them."""
    from updp.review.pages import templates

    plan = load_plan(study, key)
    names = [reader] if reader else [one.name for one in plan.readers]
    made = []
    for name in names:
        items = plan.reader(name).items
        folder = out / name.replace(" ", "-")
        if folder.exists():
            raise BadPlan(f"{folder} is there already; a hand-out is never overwritten")
        page = (
            templates()
            .get_template("packed.html.jinja")
            .render(reader=name, total=len(items), simulated=plan.simulated)
        )
        handed = json.dumps(plan.hand_out(key, name))
        try:
            (folder / "films").mkdir(parents=True, mode=0o700)
            (folder / "index.html").write_text(page, "utf-8")
            (folder / "README.txt").write_text(_README.format(reader=name), "utf-8")
            (folder / "study.js").write_text(f"window.updpStudy = {handed};\n", "utf-8")
            for script in _SCRIPTS:
                (folder / script).write_bytes((_STATIC / script).read_bytes())
            for film in dict.fromkeys(item.film for item in items):
                data = base64.b64encode(film_bytes(study, plan, film)).decode()
                (folder / "films" / f"{film}.js").write_text(
                    f'window.updpFilm("{film}", "data:image/png;base64,{data}");\n', "ascii"
                )
        except OSError as error:
            raise explain(error) from None
        made.append(folder)
    return made
