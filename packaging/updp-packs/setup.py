"""The packs of the checkout that the wheel of updp leaves out, as the package ``updp_packs``."""

import tomllib
from pathlib import Path

from setuptools import setup

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PACKS = ROOT / "src" / "updp" / "packs"
with (ROOT / "pyproject.toml").open("rb") as file:
    left_out = tomllib.load(file)["tool"]["setuptools"]["exclude-package-data"]["updp"]
version = (ROOT / "src" / "updp" / "core" / "version.py").read_text("utf-8").split('__version__ = "')[1].split('"')[0]

setup(
    version=version,
    packages=["updp_packs"],
    package_dir={"updp_packs": "../../src/updp/packs"},
    package_data={"updp_packs": [f"{Path(pattern).relative_to('packs').parent}/**" for pattern in left_out]},
)
