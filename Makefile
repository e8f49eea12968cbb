# Two commands for a fresh machine with Python 3.11 and pip: `make demo` and `make test`.
PYTHON ?= python3.11
PIP = .venv/bin/pip install --quiet --disable-pip-version-check -c constraints.txt
export PIP_CONSTRAINT =

demo: .venv/.demo
	.venv/bin/updp demo --out demo-out

test: .venv/.dev
	.venv/bin/ruff check .
	.venv/bin/mypy
	.venv/bin/python -m pytest -n 2 --dist loadfile

docs: .venv/.dev
	.venv/bin/python docs/generate.py

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/.demo: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) -e '.[ocr]'
	touch $@

.venv/.dev: .venv/.demo
	$(PIP) -e '.[ocr,dev]'
	touch $@

clean:
	rm -rf .venv demo-out

.PHONY: demo test docs clean
