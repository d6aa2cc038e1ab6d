# Every target sets up what it needs: a fresh machine with Python, pip and make is enough.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: demo test test-all lint bench clean

demo: $(READY)
	$(BIN)/python -m cbq

test: $(READY)
	$(BIN)/python -m pytest -m "not slow"

test-all: $(READY)
	$(BIN)/python -m pytest

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python benchmarks/linalg.py

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache dist

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	@touch $@
