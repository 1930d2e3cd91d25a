# Two commands do everything on a machine with Python 3.11+ and make: `make demo`, `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest

.PHONY: setup demo test test-unit test-local test-cluster check lint lint-fix manifests lock bench clean

setup: $(VENV)/.installed

$(VENV)/.installed: $(VENV)/.locked pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.locked: requirements/dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "flower-operator needs Python 3.11 or newer; set PYTHON=")'
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@touch $@

demo: setup
	@$(BIN)/python -m scripts.demo

test: test-unit test-local test-cluster

test-unit: setup
	$(PYTEST) tests/unit

test-local: setup
	$(PYTEST) tests/local

test-cluster: setup
	$(PYTEST) tests/cluster

check: lint
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m scripts.manifests --check

lint: setup
	$(BIN)/ruff check
	$(BIN)/ruff format --check

lint-fix: setup
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

# The CRD and the golden files, from the models and the examples.
manifests: setup
	$(BIN)/python -m scripts.manifests

# Newest versions that pyproject.toml allows, with hashes and without addresses.
lock: setup
	$(BIN)/uv pip compile --quiet --universal --upgrade --generate-hashes --no-header --no-annotate pyproject.toml -o requirements/runtime.txt
	$(BIN)/uv pip compile --quiet --universal --upgrade --generate-hashes --no-header --no-annotate --group dev pyproject.toml -o requirements/dev.txt

bench: setup
	$(BIN)/python -m bench

clean:
	rm -rf $(VENV) build .mypy_cache .pytest_cache .ruff_cache .hypothesis
