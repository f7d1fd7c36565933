# Two commands matter: `make test` sets up and proves; `make bench` prints the table of docs/performance.md.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready

.PHONY: setup test lint torture bench serve clean

setup: $(STAMP)

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $(STAMP)

test: $(STAMP) lint
	$(BIN)/pytest -n 2 --dist worksteal -m "not torture" --conformance-subjects 19

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/basedpyright
	$(BIN)/lint-imports

torture: $(STAMP)
	$(BIN)/pytest -m torture -s --timeout 3600

serve: $(STAMP)
	$(BIN)/keelfs serve --data data

bench: $(VENV)/.bench
	$(BIN)/python -m bench

$(VENV)/.bench: $(STAMP)
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev,bench]'
	touch $@

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
