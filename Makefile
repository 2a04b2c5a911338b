# Everything below works on a fresh machine with Python >= 3.10 and make; PYTHON= chooses another interpreter.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test fuzz lint bench docs clean

demo: $(VENV)/.installed
	$(BIN)/python -m treeproof demo

test: $(VENV)/.test
	$(BIN)/python -m pytest -n auto -q

# The exact engine against brute force: a million random cases on all cores; CASES= and SEED= choose others.
CASES ?= 1000000
SEED ?= 0
fuzz: $(VENV)/.test
	$(BIN)/python -m tests.fuzz_local --cases $(CASES) --seed $(SEED)

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.test
	$(BIN)/python -m benchmarks.predict

# The documentation as a site in site/; a broken link or a missing page fails the build.
docs: $(VENV)/.docs
	$(BIN)/mkdocs build --strict

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml
	$(INSTALL) -e .
	touch $@

$(VENV)/.test: $(VENV)/.installed
	$(INSTALL) -e '.[test]'
	touch $@

$(VENV)/.lint: $(VENV)/.installed
	$(INSTALL) -e '.[lint]'
	touch $@

$(VENV)/.docs: $(VENV)/.installed
	$(INSTALL) -e '.[docs]'
	touch $@

clean:
	rm -rf $(VENV) site
