# Everything below works on a fresh machine with Python >= 3.10 and make; PYTHON= chooses another interpreter.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
MINIMUM := .venv-minimum
INSTALL := -m pip install --quiet --disable-pip-version-check

.PHONY: demo test test-long quick coverage test-minimum fuzz fuzz-relations fuzz-files kill lint hooks bench docs dist checker clean

demo: $(VENV)/.installed
	$(BIN)/python -m treeproof demo

test: $(VENV)/.test
	$(BIN)/python -m pytest -n auto -q -m 'not long'

# The tests that `make test` leaves to this: random questions by the thousand, whole tables, real libraries in every mixture.
test-long: $(VENV)/.test
	$(BIN)/python -m pytest -n auto -q -m long

# All but the tests marked slow or long: a minute and a half on two cores, once the kernels are compiled.
quick: $(VENV)/.test
	$(BIN)/python -m pytest -n auto -q -m 'not slow and not long'

# Every test, and which lines and branches no test reaches; pyproject.toml holds the share that must be reached.
coverage: $(VENV)/.test
	$(BIN)/python -m pytest -n auto -q --cov

# Every test with the oldest versions that pyproject.toml promises; compiled code of two versions of numba needs two places.
test-minimum: $(MINIMUM)/.test
	NUMBA_CACHE_DIR=$(CURDIR)/$(MINIMUM)/numba $(MINIMUM)/bin/python -m pytest -n auto -q

# The exact engine against brute force: a million random cases on all cores; CASES= and SEED= choose others. Then what
# comes in through files, frames, pipelines and saved models: DOORS cases for each format and command, step and library.
fuzz: CASES ?= 1000000
fuzz: DOORS ?= $(shell echo $$(( $(CASES) < 2000 ? $(CASES) : 2000 )))
SEED ?= 0
fuzz: $(VENV)/.test
	$(BIN)/python -m tests.fuzz_local --cases $(CASES) --seed $(SEED)
	$(BIN)/python -m tests.fuzz_doors --cases $(DOORS) --seed $(SEED)

# The same where rows must be valid: relations, and every kind of attacker.
fuzz-relations: CASES ?= 20000
fuzz-relations: $(VENV)/.test
	$(BIN)/python -m tests.fuzz_relations --cases $(CASES) --seed $(SEED)

# Model files with fields changed, read by treeproof and by their library: 20,000 that both accept; CASES= and SEED= as above.
fuzz-files: CASES ?= 20000
fuzz-files: $(VENV)/.test
	$(BIN)/python -m tests.fuzz_files --cases $(CASES) --seed $(SEED)

# Work that is killed at random moments: outputs are old or whole, little is lost, resuming leads to the same result.
MOMENTS ?= 20
kill: $(VENV)/.test
	$(BIN)/python -m tests.kill --moments $(MOMENTS)

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.citation-file-format CITATION.cff

# Lint what is committed, before each commit.
hooks: $(VENV)/.lint
	$(BIN)/pre-commit install

bench: $(VENV)/.test
	$(BIN)/python -m benchmarks.predict

# The documentation as a site in site/; a broken link or a missing page fails the build.
docs: $(VENV)/.docs
	$(BIN)/mkdocs build --strict

# Wheel and sdist in dist/, the wheel tried in an environment of its own.
dist: $(VENV)/.dist
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*
	$(BIN)/python tools/check_dist.py dist

# The checker of proofs as one file that needs nothing but Python: python3 dist/treeproof-check.pyz MODEL RESULT PROOFS.
checker: $(BIN)/python
	$(BIN)/python tools/build_checker.py dist/treeproof-check.pyz

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(BIN)/python pyproject.toml
	$(BIN)/python $(INSTALL) -e .
	touch $@

# .test, .lint, .docs and .dist: the extra of that name.
$(VENV)/.%: $(VENV)/.installed
	$(BIN)/python $(INSTALL) -e '.[$*]'
	touch $@

$(MINIMUM)/.test: pyproject.toml tools/minimum.py
	$(PYTHON) -m venv --clear $(MINIMUM)
	$(MINIMUM)/bin/python $(INSTALL) --no-deps -e .
	$(MINIMUM)/bin/python tools/minimum.py > $(MINIMUM)/requirements.txt
	$(MINIMUM)/bin/python $(INSTALL) -r $(MINIMUM)/requirements.txt
	touch $@

clean:
	rm -rf $(VENV) $(MINIMUM) site dist htmlcov .coverage
