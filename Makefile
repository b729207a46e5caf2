# Two commands do all set-up: `make quickstart` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
# Of every Python that is supported; the tested one is 3.11.
CONSTRAINTS = constraints/all.txt

.PHONY: install install-dev quickstart test check-slow bench docs clean

$(BIN)/python:
	$(PYTHON) -m venv .venv

# What users have: no torch.
.venv/.installed: pyproject.toml $(wildcard constraints/*.txt) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --no-compile -c $(CONSTRAINTS) -e .
	@touch $@

.venv/.installed-dev: .venv/.installed
	$(BIN)/python -m pip install --quiet --no-compile -c $(CONSTRAINTS) -e '.[dev]'
	@npm install --silent --no-audit --no-fund --prefix .venv typescript@5.9.3 \
		|| echo "without npm the pages' JavaScript is not type-checked"
	@touch $@

# Spark is 450 MB and needs Java: only the slow checks have it.
.venv/.installed-slow: .venv/.installed-dev
	$(BIN)/python -m pip install --quiet --no-compile -c $(CONSTRAINTS) -e '.[spark]'
	@touch $@

install: .venv/.installed

install-dev: .venv/.installed-dev

quickstart: install
	$(BIN)/alphita quickstart

# A worker a core, and a file's tests on one of them, for what they share is made once; long files come first
# (tests/conftest.py).
test: install-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder

check-slow: .venv/.installed-slow
	ALPHITA_RANDOM_TESTS=1 $(BIN)/python -m pytest -m 'slow or gpu or hypothesis'

bench: install-dev
	$(BIN)/python bench/encode.py
	$(BIN)/python bench/train_step.py

# The site, in site/: it is read from disk too, and fetches nothing from elsewhere.
docs: export NO_MKDOCS_2_WARNING = 1
docs: install
	$(BIN)/python -m pip install --quiet --no-compile -c $(CONSTRAINTS) -e '.[docs]'
	$(BIN)/python -m mkdocs build --strict --quiet

clean:
	rm -rf quickstart build site
