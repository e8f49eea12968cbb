"""Make the pictures of the documentation from a demonstration: python docs/make_pictures.py demo-out

Needs Chromium for drawing pages (Debian: apt-get install chromium). Writes ``pictures/demo.png``, the top of the
demonstration's report, and ``pictures/one-identity.png``, one patient in header, film and report, before and after.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from markupsafe import Markup
from PIL import Image, ImageChops

PICTURES = Path(__file__).parent / "pictures"

_STYLE = """
body { margin: 0; background: #fff; font: 15px/1.5 system-ui, "DejaVu Sans", sans-serif; color: #17202a; }
.strip { padding: 20px 24px; display: grid; grid-template-columns: 84px 1fr 320px 1.15fr; gap: 14px 20px; }
.strip { align-items: center; width: 1152px; }
.strip > b { color: #5d6d7e; font-size: 14px; } .strip > .row { font-size: 17px; color: #14324a; }
.box { border: 1px solid #dde3e9; border-radius: 8px; padding: 12px 14px; background: #fafbfc; }
.box { height: 348px; overflow: hidden; box-sizing: border-box; }
.box.film { padding: 0; background: #000; }
.box.film img { width: 100%; height: 348px; object-fit: contain; display: block; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 5px 14px; margin: 0; font-size: 14px; }
dt { color: #5d6d7e; } dd { margin: 0; overflow-wrap: anywhere; }
dd, pre { font: 13.5px/1.5 "DejaVu Sans Mono", monospace; } pre { white-space: pre-wrap; margin: 0; }
mark { border-radius: 2px; padding: 0 2px; }
.before mark { background: #fbdcd8; color: #8e2a20; } .after mark { background: #d8f0df; color: #14613a; }
p { margin: 0 24px 18px; color: #5d6d7e; font-size: 14px; }
"""

_SHOWN = ("Patient's name", "Patient ID", "Birth date", "Study date", "Referring physician", "Institution", "Address")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("demo", type=Path, help="the folder a demonstration was written to")
    parser.add_argument("--chromium", default="chromium")
    args = parser.parse_args()
    PICTURES.mkdir(exist_ok=True)
    shot(args.chromium, args.demo / "report.html", PICTURES / "demo.png", 1200, 1590)
    with tempfile.NamedTemporaryFile("w", suffix=".html", encoding="utf-8") as page:
        page.write(one_identity(args.demo))
        page.flush()
        shot(args.chromium, Path(page.name), PICTURES / "one-identity.png", 1200, 900)


def one_identity(folder: Path) -> str:
    """A page with one patient in three places, before and after."""
    from updp.core.keys import Key
    from updp.release.assemble import finished
    from updp.virtual import demo
    from updp.virtual.ledger import Ledger

    ledger, policy, key = Ledger.load(folder / "ledger.json"), demo.demo_policy(), Key.load(folder / "key")
    outcome = finished(folder / "run")
    if outcome is None:
        raise SystemExit("there is no finished demonstration in this folder")
    found = list(demo.pairs(folder, outcome, ledger, policy, key, count=5))
    pair = max(found, key=telling)
    header = [row for row in demo.marked_headers(pair.before.header, pair.released_header) if row[0] in _SHOWN]
    left, right = demo.marked_reports(pair.before.report, pair.released_report, policy.report.sections)
    left = Markup(re.sub(r'<span class="stays">.*?</span>\s*', "", str(left), flags=re.DOTALL))
    side = max(pair.before.pixels.shape)
    rows = (
        ("In the hospital", "before", [(n, b) for n, b, _ in header], demo.data_uri(pair.before.pixels, side), left),
        ("After cleaning", "after", [(n, a) for n, _, a in header], demo.data_uri(pair.screened, side), right),
    )
    cells = Markup("<b></b><b>header</b><b>film</b><b>report</b>")
    for name, kind, facts, film, text in rows:
        listed = Markup("").join(Markup("<dt>{}</dt><dd>{}</dd>").format(n, value(v)) for n, v in facts)
        cells += Markup(
            '<b class="row">{}</b><div class="box {}"><dl>{}</dl></div><div class="box film"><img src="{}"></div>'
            '<div class="box {}"><pre>{}</pre></div>'
        ).format(name, kind, listed, film, kind, text)
    note = "The film is drawn and everyone named is invented. After this station a method makes a new film."
    return f"<meta charset=utf-8><style>{_STYLE}</style><div class=strip>{cells}</div><p>{note}</p>"


def value(text: str | None) -> Markup:
    return Markup("<mark>{}</mark>").format(text) if text else Markup("<i>gone</i>")


def telling(pair: Any) -> tuple[bool, int]:
    """Whether the report names the patient, and how much stands on the film."""
    family = str(pair.before.header.PatientName.family_name)
    report = pair.before.report.text(("findings", "impression")) if pair.before.report else ""
    return family in report and len(report) < 620, len(pair.note.burned_in)


def shot(chromium: str, page: Path, picture: Path, width: int, height: int) -> None:
    """A picture of the top of a page, white margins cut, few colours so that it stays small."""
    with tempfile.TemporaryDirectory() as profile:
        subprocess.run(
            [
                chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
                f"--user-data-dir={profile}", f"--window-size={width},{height}", f"--screenshot={picture.resolve()}",
                page.resolve().as_uri(),
            ],
            check=True,
            capture_output=True,
        )  # fmt: skip
    with Image.open(picture) as image:
        plain = image.convert("RGB")
    box = ImageChops.difference(plain, Image.new("RGB", plain.size, plain.getpixel((0, plain.height - 1)))).getbbox()
    bottom = min(height, (box or (0, 0, 0, height))[3] + 8)
    plain.crop((0, 0, width, bottom)).quantize(256, kmeans=1).save(picture, optimize=True)


if __name__ == "__main__":
    main()
