"""Build the wheels, install them into a clean environment and run the demonstration there, with no checkout in sight.

    python packaging/check_wheel.py [--python python3.12] [--reuse SITE_PACKAGES] [--no-demo]

Dependencies come from the index by ``constraints.txt``; ``--reuse`` takes those of an existing environment instead (its
updp stays out of reach: only what lies in the folder itself is seen). Ends with 1 and a sentence if anything is wrong.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIMIT = 100_000_000  # bytes of a wheel that package indexes take
LOADS = """
import sys, updp
from updp.models import list_packs, load_pack
assert not updp.__file__.startswith(sys.argv[1]), "the checkout is in use"
names = [pack.name for pack in list_packs()]
for name in names:
    load_pack(name)  # every file against its SHA-256
print(" ".join(names))
"""


def build(place: Path) -> tuple[Path, Path]:
    """The wheels of updp and updp-packs, built from a copy: leftovers of earlier builds would come along."""
    tree, out = place / "tree", place / "wheels"
    run("git", "-C", ROOT, "checkout-index", "--all", f"--prefix={tree}/")
    for project in (tree, tree / "packaging" / "updp-packs"):
        run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", out, project)
    shutil.rmtree(tree)
    return next(out.glob("updp-[0-9]*.whl")), next(out.glob("updp_packs-*.whl"))


def run(*command: object, **more: object) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, **more)  # type: ignore[call-overload]
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command[:4]))} ... failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return str(done.stdout)


def missing(*wheels: Path) -> list[str]:
    """Files of the package, as git has them, that are in neither wheel."""
    held: set[str] = set()
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as file:
            held |= {name.replace("updp_packs/", "updp/packs/", 1) for name in file.namelist()}
    listed = run("git", "-C", ROOT, "ls-files", "src/updp").split("\n")
    return [name for name in (one.removeprefix("src/") for one in listed if one) if name not in held]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="interpreter of the clean environment")
    parser.add_argument("--reuse", type=Path, help="folder of installed dependencies, instead of the index")
    parser.add_argument("--no-demo", action="store_true", help="install and load, and stop there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        wheels = build(place)
        for wheel in wheels:
            print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB")
        if wheels[0].stat().st_size > LIMIT:
            raise SystemExit("the wheel of updp exceeds 100 MB; leave a pack out: pyproject.toml, exclude-package-data")
        if lost := missing(*wheels):
            raise SystemExit(f"{len(lost)} files of the package are in no wheel, among them {lost[0]}")
        run(options.python, "-m", "venv", place / "env")
        python = place / "env" / "bin" / "python"
        if options.reuse:
            site = run(python, "-c", "import site; print(site.getsitepackages()[0])").strip()
            (Path(site) / "reused.pth").write_text(f"{options.reuse.resolve()}\n")
            run(python, "-m", "pip", "install", "--quiet", "--no-deps", *wheels)
        else:
            needs = [f"{wheels[0]}[ocr]", wheels[1]]
            run(python, "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", *needs)
        clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        own = {**clean, "XDG_CONFIG_HOME": str(place / "config"), "XDG_CACHE_HOME": str(place / "cache")}
        print("packs:", run(python, "-c", LOADS, ROOT, cwd=place, env=own).strip())
        if not options.no_demo:
            run(place / "env" / "bin" / "updp", "demo", "--out", place / "demo", cwd=place, env=own)
            if not (place / "demo").is_dir():
                raise SystemExit("the demonstration left nothing behind")
            print("demonstration: done")


if __name__ == "__main__":
    main()
