# Tasks of development; `make` without a target lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SEEDS ?= 5000
BOUNDED ?= 3000
CASES ?= 20000
START ?= 100000
JOBS ?= 2
NEWEST ?= tests/cli/test_stdout.py tests/solver tests/replay
DESTDIR ?=
HTOOLS_CASES ?= 500
NEXT ?= trixie
NEXT_SEEDS ?= 300
PLUGINDIR ?= /usr/lib/ganeti/iallocators
LIBDIR ?= /usr/lib/iallocator
BINDIR ?= /usr/local/bin
HTOOLS := hail harep hbal hcheck hinfo hroller hscan hspace hsqueeze
DIR ?=
SUITE ?= $(shell . /etc/os-release && echo $$VERSION_CODENAME)
OLD ?=

.DEFAULT_GOAL := help
.PHONY: help demo test check lint types matrix conformance conformance-htools conformance-next fuzz bench gap growth limits install-plugin install-htools manuals deb try-deb dist docs reference screenshots test-pythons test-newest requirements e2e clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "%-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(STAMP) ## run a real captured request: the answer, and why
	@tools/demo

test: $(STAMP) ## run the tests (with the oracles, where they are installed)
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

test-pythons: ## the tests of documents and answers under each installed Python from 3.11 to 3.13
	tools/test-pythons

test-newest: ## the tests of stdout, exact search and answers with the newest version of every library
	tools/environment $(PYTHON) $(VENV)-newest newest
	$(VENV)-newest/bin/python -m pytest -n $(JOBS) --dist worksteal -p no:cacheprovider $(NEWEST)

requirements: ## renew the locked requirements: the newest versions within the bounds of pyproject.toml
	tools/lock "$(PYTHON)" build/lock

check: lint types test ## lint, types and tests

lint: $(STAMP) ## ruff, and the language of pages, docstrings and comments
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tools/prose

types: $(STAMP) ## mypy --strict
	$(BIN)/mypy --strict

matrix: $(STAMP) ## which features are tested on which paths, and why the others cannot be
	@$(BIN)/python -m tests.matrix

conformance: $(STAMP) ## every test with all its cases; hail's answers to SEEDS documents of each kind; bounds of BOUNDED small clusters
	IALLOCATOR_THOROUGH=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "slow or not slow"
	$(BIN)/python -m tests.conformance --seeds $(SEEDS) -j $(JOBS)
	$(BIN)/python -m tests.conformance.bounds --clusters $(BOUNDED) -j $(JOBS)

conformance-htools: $(STAMP) ## the output of htools' programs by name on HTOOLS_CASES command lines
	$(BIN)/python -m tests.conformance.htools --cases $(HTOOLS_CASES) -j $(JOBS)

conformance-next: $(STAMP) ## the comparisons with hail and htools of the next Debian release: NEXT_SEEDS documents of each kind, HTOOLS_CASES command lines (root)
	programs=$$(tools/htools-programs $(NEXT)) && \
	$(BIN)/python -m tests.conformance --seeds $(NEXT_SEEDS) -j $(JOBS) --programs "$$programs" && \
	$(BIN)/python -m tests.conformance.htools --cases $(HTOOLS_CASES) -j $(JOBS) --programs "$$programs"

fuzz: $(STAMP) ## damaged input of every kind: CASES cases from number START on
	$(BIN)/python -m tests.fuzz --damager values --cases $(CASES) --start $(START) -j $(JOBS)
	$(BIN)/python -m tests.fuzz --damager grammar --cases $(CASES) --start $(START) -j $(JOBS)

e2e: ## a virtual Ganeti cluster that uses the plugin (root; Debian packages)
	tests/e2e/make-e2e

bench: $(STAMP) ## measure side by side with hail; writes benchmarks/RESULTS.md
	rm -rf build/bench
	tools/install-plugin "$(BIN)/python" "$(CURDIR)/build/bench" "$(LIBDIR)" "$(PLUGINDIR)" "$(BINDIR)"
	$(BIN)/python -m benchmarks --plugin "$(CURDIR)/build/bench$(PLUGINDIR)/iallocator"

gap: $(STAMP) ## measure how far plans are from the best possible; writes benchmarks/GAP.md and PLANNERS.md
	$(BIN)/python -m benchmarks.gap --write
	$(BIN)/python -m benchmarks.planners_gap --write

growth: $(STAMP) ## measure how time and memory grow with the input; writes benchmarks/GROWTH.md
	$(BIN)/python -m benchmarks.growth

limits: $(STAMP) ## measure how soon after a time limit each path ends; writes benchmarks/LIMITS.md
	$(BIN)/python -m benchmarks.limits

install-plugin: $(STAMP) ## install where Ganeti looks, and on PATH (DESTDIR, PLUGINDIR, LIBDIR, BINDIR)
	tools/install-plugin "$(BIN)/python" "$(DESTDIR)" "$(LIBDIR)" "$(PLUGINDIR)" "$(BINDIR)"

install-htools: ## links with the names of htools' programs (DIR, and BINDIR where iallocator is)
	@test -n "$(DIR)" || { echo "usage: make install-htools DIR=FOLDER [BINDIR=$(BINDIR)]" >&2; exit 2; }
	mkdir -p "$(DESTDIR)$(DIR)"
	for name in $(HTOOLS); do ln -sfn "$(BINDIR)/iallocator" "$(DESTDIR)$(DIR)/$$name"; done

docs: $(STAMP) ## the manual as pages for a browser, with all links checked, in build/docs
	$(BIN)/python tools/reference --check
	$(BIN)/python -m sphinx -q -W -b html -d build/docs-cache -c docs . build/docs

reference: $(STAMP) ## renew the pages of the manual that follow from the program
	$(BIN)/python tools/reference

screenshots: $(STAMP) ## renew the pictures of pages in the manual (needs chromium)
	$(BIN)/python tools/screenshots

manuals: $(STAMP) ## man pages and completions for bash and zsh, into build/manuals
	rm -rf build/manuals
	$(BIN)/python -m sphinx -q -W -b man -d build/manuals/.cache -c docs . build/manuals/man
	$(BIN)/python tools/completions build/manuals/completion

deb: manuals ## a package for Debian, into dist/
	tools/make-deb "$(BIN)/python" build/manuals dist

try-deb: ## install, upgrade (OLD=PACKAGE.deb) and remove the packages of dist/ in a new Debian SUITE (root)
	tools/try-deb dist/iallocator_*.deb $(SUITE) $(OLD)

dist: $(STAMP) ## wheel and sdist, into dist/
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	$(BIN)/python -m build --sdist --no-isolation --outdir dist

clean: ## remove what the targets above made
	rm -rf $(VENV) $(VENV)-3.* $(VENV)-newest build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMP): setup.cfg pyproject.toml requirements/development.txt
	tools/environment $(PYTHON) $(VENV)
