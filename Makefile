# What a person and CI call. PYTHON names the interpreter that .venv is made with. PARTS=2 runs one half of a target's tests:
# the one that is due at the commit.
PYTHON ?= python3
VENV := .venv/bin/python
WORKERS ?= 2
# The variable keeps mkdocs-material from printing its notice about its successor.
DOCS := NO_MKDOCS_2_WARNING=1 $(VENV) -m mkdocs build

.DEFAULT_GOAL := help
.PHONY: help setup demo test jobs crash pages quick chaos check format bench bench-peers notebooks broker docs wheel lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

setup: ## make .venv, install the locked packages, fetch and verify the jars; skips what is done
	@command -v $(PYTHON) >/dev/null || { echo "setup: there is no $(PYTHON); tidegate needs Python 3.11, 3.12 or 3.13." >&2; exit 3; }
	@$(PYTHON) -m bootstrap

demo: setup ## run the main job on a made-up click stream, from an embedded Kafka broker to Delta
	@$(VENV) jobs/demo.py

# What each of the many JVMs of the tests starts from, with less CPU time.
CLASSES = .jars/classes.jsa
$(CLASSES): requirements.lock jars.lock $(addprefix lib/runtime/process/,archiving.py class_path.py) | setup
	$(VENV) -m tidegate classes

PYTEST = $(VENV) -m pytest -n $(WORKERS) --dist worksteal --durations=100 $(if $(PARTS),--parts $(PARTS))

test: setup check $(CLASSES) ## run all checks and all tests but those of the next three, in two processes; WORKERS=0 takes one
	$(PYTEST) -m "not jobs and not crash and not pages"

jobs: setup $(CLASSES) ## run whole jobs, and sinks over many batches; work off, cut and replay such jobs
	$(PYTEST) -m "jobs and not crash"

crash: setup $(CLASSES) ## kill every job, and crash every sink between its tables
	$(PYTEST) -m crash

pages: setup $(CLASSES) ## run what pages show: examples, notebooks, and benchmarks in small
	$(PYTEST) -m pages

quick: setup $(CLASSES) ## run the tests that need neither a broker nor much time
	$(PYTEST) -m "not jobs and not crash and not pages and not broker and not cluster and not slow"

chaos: setup $(CLASSES) ## run the tests that draw, with long draws; or JOB=page_views SEED=1: a storm of kills over one job, or all
	$(if $(JOB),$(VENV) -m tests.chaos $(JOB) $(if $(SEED),--seed $(SEED)),$(PYTEST) -m draws --draws long)

check: setup ## look at style, types and pages: ruff, mypy and mkdocs
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy
	.venv/bin/mypy bootstrap
	$(DOCS) --strict --quiet

format: setup ## put the code into the project's form
	.venv/bin/ruff check --fix-only --quiet .
	.venv/bin/ruff format .

bench: setup ## measure the library beside plain PySpark
	$(VENV) -m benchmarks
	for part in bloom stream_stream stream_table table_table corrections; do $(VENV) -m benchmarks.$$part || exit; done

bench-peers: setup ## measure the library beside Flink and Kafka Streams, which it fetches; ROWS and ROUNDS set how much
	$(VENV) -m benchmarks.peers $(if $(ROWS),--rows $(ROWS)) $(if $(ROUNDS),--rounds $(ROUNDS))

notebooks: setup ## execute the notebooks in place
	$(VENV) notebooks/run.py

broker: setup ## run the embedded Kafka broker until Ctrl-C; PORT=9092 sets its port, TOPICS="clicks:4 views" creates topics
	@$(VENV) -m tidegate.testing $(if $(PORT),--port $(PORT)) $(foreach topic,$(TOPICS),--topic $(topic))

docs: setup ## build the pages into site/
	$(DOCS)

wheel: setup ## build the wheel into dist/, and the same as tidegate.zip for spark-submit --py-files
	rm -rf dist
	$(VENV) -m build --wheel --no-isolation
	cp dist/tidegate-*.whl dist/tidegate.zip

# Needs pip-tools in .venv. Packages of the Mac alone are added by hand of appnope, which ipykernel asks for there.
PINNED = .venv/bin/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-header --no-annotate \
	--no-emit-index-url --no-emit-find-links --no-emit-trusted-host
lock: setup ## choose new versions for requirements.lock and jars.lock
	$(PINNED) --upgrade --all-extras --output-file requirements.lock pyproject.toml
	sed -i.old -e '/^#/d' -e '/^tidegate @/d' requirements.lock && rm requirements.lock.old
	echo appnope | $(PINNED) --output-file - - | sed 's/^appnope==[^ ]*/& ; sys_platform == "darwin"/' >> requirements.lock
	@$(PYTHON) -m bootstrap --lock-jars

clean: ## remove what was built and what runs left behind; .venv and .jars stay
	rm -rf dist build site .run .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse metastore_db derby.log
	find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +
