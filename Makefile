# For a fresh machine with Python 3.11 and pip: `make demo`, `make test`, `make test-numeric`, `make docs`, `make wheel`;
# `make test-ray` starts a Ray cluster.
PYTHON ?= python3.11
PIP = .venv/bin/pip install --quiet --disable-pip-version-check -c constraints.txt
export PIP_CONSTRAINT =
# Else every process that a test starts compiles the package anew.
unexport PYTHONDONTWRITEBYTECODE
# A processor without AVX-512, as far as variables go: what holds here only by how one kind rounds fails there.
OTHER = ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 MKL_ENABLE_INSTRUCTIONS=AVX2 OPENBLAS_CORETYPE=Haswell

demo: .venv/.demo
	.venv/bin/updp demo --out demo-out

# mypy has one thread: it runs beside the tests, and its faults are printed after theirs. Files of tests go to the two
# processes in their order: by number of tests, files of few and long ones would come last and leave a core idle.
test: .venv/.dev .venv/.browser .venv/.dcmtk .venv/.stores
	.venv/bin/ruff check .
	.venv/bin/mypy > .venv/mypy.txt & types=$$!; \
	  .venv/bin/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder; tests=$$?; \
	  wait $$types; types=$$?; cat .venv/mypy.txt; test $$tests = 0 -a $$types = 0

# What computes with networks, once more as another processor does, and on two threads; `make test` takes one.
test-numeric: .venv/.dev
	$(OTHER) OMP_NUM_THREADS=2 OMP_WAIT_POLICY=PASSIVE .venv/bin/python -m pytest -n 2 --dist loadfile \
	  --no-loadscope-reorder -m numeric

# Runs on a Ray cluster of three nodes on this machine, and an object store: minutes, and some thirty processes.
test-ray: .venv/.dev .venv/.stores
	$(PIP) -e '.[ray]'
	UPDP_RAY=1 .venv/bin/python -m pytest -n 0 tests/pipeline/engines/test_cluster.py

# The wheels in a clean environment, with no checkout: they have the weights, and the demonstration runs.
wheel: .venv/bin/python
	.venv/bin/python packaging/check_wheel.py

docs: .venv/.docs
	.venv/bin/python docs/generate.py
	NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict
	@echo "open site/index.html"

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/.demo: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) -e '.[ocr]'
	touch $@

.venv/.dev: .venv/.demo
	$(PIP) -e '.[ocr,review,face,dev]'
	touch $@

# What the browser tests drive: Debian's chromium, and axe-core from npm for accessibility. Outside CI the tests are
# skipped where these cannot be installed.
.venv/.browser: .venv/bin/python
	{ { command -v chromium >/dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; }; } \
	  && npm install --silent --no-audit --no-fund --prefix .venv/axe axe-core@4.14.0 && touch $@; } || test -z "$$UPDP_CI"

# What the tests of the DICOM network talk to: Debian's DCMTK. Outside CI those tests are skipped without it.
.venv/.dcmtk: .venv/bin/python
	{ { command -v storescu >/dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends dcmtk; }; } \
	  && touch $@; } || test -z "$$UPDP_CI"

# What the tests of object stores talk to: an S3-compatible server. Outside CI those tests are skipped without it.
.venv/.stores: .venv/.dev
	{ $(PIP) -e '.[remote]' moto flask flask-cors && touch $@; } || test -z "$$UPDP_CI"

.venv/.docs: .venv/.demo
	$(PIP) -e '.[ocr,docs]'
	touch $@

clean:
	rm -rf .venv demo-out site

.PHONY: demo test test-numeric test-ray wheel docs clean
