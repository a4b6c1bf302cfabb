# make setup   install what the application runs on, into .venv
# make run     everything on this machine: http://127.0.0.1:8000   (ARGS="--port 8001 --workers 4")
# make test    install the tools too, check the code, run the tests
# make check   the code checks alone
# make screenshots   take the pictures in docs/screenshots anew (needs Chromium)
# make lock    write the lock files anew (needs uv); they record hashes and no index address

VENV := .venv
BIN := $(VENV)/bin
# The first Python that is new enough; choose another one with: make run PYTHON=/path/to/python
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON := $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python -c '$(NEW_ENOUGH)' 2>/dev/null && echo $$python && break; done)
INSTALL := $(BIN)/python -m pip install --disable-pip-version-check --no-build-isolation
LOCKED := $(INSTALL) --require-hashes
LOCK := uv pip compile --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --no-header --quiet

.PHONY: setup setup-dev run test check lock screenshots

setup: $(VENV)/.installed $(VENV)/.project
setup-dev: $(VENV)/.installed-dev $(VENV)/.project

run: setup
	@exec $(BIN)/wireroom up $(ARGS)

test: check
	$(BIN)/pytest -n 2 --dist loadfile -m "not browser and not bench and not faults" $(ARGS)

check: setup-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/djlint --lint --quiet templates

screenshots: setup-dev
	$(BIN)/python docs/take_screenshots.py

lock:
	$(LOCK) requirements-build.in -o requirements-build.txt
	$(LOCK) requirements.in -o requirements.txt
	$(LOCK) requirements-dev.in -o requirements-dev.txt

# Each stamp says which lock file is installed, so that a later start installs nothing.
$(VENV)/.build: requirements-build.txt
	@test -n "$(PYTHON)" || { echo "Wireroom needs Python 3.11 or newer; none was found."; exit 1; }
	@test -x $(BIN)/python || { echo "Making $(VENV) with $(PYTHON) …"; $(PYTHON) -m venv $(VENV); }
	@echo "Installing the build tools …"
	@$(LOCKED) --quiet -r requirements-build.txt
	@touch $@

$(VENV)/.installed: requirements.txt | $(VENV)/.build
	@echo "Installing what Wireroom runs on (about 100 packages, half a minute) …"
	@$(LOCKED) -r requirements.txt
	@touch $@

$(VENV)/.installed-dev: requirements-dev.txt | $(VENV)/.build
	@echo "Installing Wireroom's packages and the development tools (about a minute) …"
	@$(LOCKED) -r requirements-dev.txt
	@touch $@ $(VENV)/.installed

$(VENV)/.project: pyproject.toml | $(VENV)/.build
	@$(INSTALL) --quiet --no-deps -e .
	@touch $@
