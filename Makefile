# The targets for users and CI. PYTHON is the interpreter of .venv. PARTS=2 runs one half of a target's tests, which the
# commit's id selects. SPARK=4.1 sets up and tests that version of Spark, in .venv-4.1 with .jars-4.1.
PYTHON ?= python3
SPARK ?= 4.2
VERSION := $(if $(filter-out 4.2,$(SPARK)),-$(SPARK))
BIN := .venv$(VERSION)/bin
VENV := $(BIN)/python
WORKERS ?= 2
# The variable keeps mkdocs-material from printing its notice about its successor.
DOCS := NO_MKDOCS_2_WARNING=1 $(VENV) -m mkdocs build

.DEFAULT_GOAL := help
.PHONY: help setup demo test jobs crash pages installed quick chaos check format bench bench-peers notebooks broker docs wheel release lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

setup: ## create .venv, install the locked packages, fetch and verify the jars; SPARK=4.1 for that version; skips finished steps
	@command -v $(PYTHON) >/dev/null || { echo "setup: $(PYTHON) not found; tidegate requires Python 3.11, 3.12 or 3.13." >&2; exit 3; }
	@$(PYTHON) -m bootstrap --spark $(SPARK)

demo: setup ## run the main job on a sample click stream, from an embedded Kafka broker to Delta
	@$(VENV) jobs/demo.py

# The class archive with which each JVM of the tests starts, in less CPU time.
CLASSES = .jars$(VERSION)/classes.jsa
$(CLASSES): requirements.lock requirements-$(SPARK).lock jars.lock lib/spark/class_archive.py lib/spark/jars.py | setup
	$(VENV) -m tidegate class-archive

PYTEST = $(VENV) -m pytest -n $(WORKERS) --dist worksteal --durations=100 $(if $(PARTS),--parts $(PARTS))

test: setup check $(CLASSES) ## run all checks and all tests except those of the next three, in two processes; WORKERS=0 uses one
	$(PYTEST) -m "not jobs and not crash and not pages"

jobs: setup $(CLASSES) ## run complete jobs, sinks over many batches, and other programs in their own processes
	$(PYTEST) -m "jobs and not crash"

crash: setup $(CLASSES) ## kill every job, and crash every sink between its tables
	$(PYTEST) -m crash

pages: setup $(CLASSES) ## run the examples of the pages, the notebooks, and small benchmarks
	$(PYTEST) -m pages

installed: setup ## build the package, install it in an empty environment, and run the first jobs there
	$(VENV) -m pytest -m pages tests/setup/test_installed_package.py

quick: setup $(CLASSES) ## run the fast tests that need no broker
	$(PYTEST) -m "not jobs and not crash and not pages and not broker and not cluster and not slow"

chaos: setup $(CLASSES) ## run randomized tests with long draws; or with JOB=page_views SEED=1 kill one job repeatedly (JOB=all: each)
	$(if $(JOB),$(VENV) -m tests.chaos $(JOB) $(if $(SEED),--seed $(SEED)),$(PYTEST) -m draws --draws long)

check: setup ## check style, types and pages: ruff, mypy and mkdocs
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy bootstrap
	$(DOCS) --strict --quiet

format: setup ## format the code
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

bench: setup ## compare the library with plain PySpark
	$(VENV) -m benchmarks
	for part in bloom stream_stream stream_table table_table allowed_lateness; do $(VENV) -m benchmarks.cases.$$part || exit; done

bench-peers: setup ## compare the library with Spark, Flink and Kafka Streams, which are downloaded; ROWS and ROUNDS set the size
	$(VENV) -m benchmarks.peers $(if $(ROWS),--rows $(ROWS)) $(if $(ROUNDS),--rounds $(ROUNDS))

notebooks: setup ## execute the notebooks in place
	$(VENV) notebooks/run.py

broker: setup ## run the embedded Kafka broker until Ctrl-C; PORT=9092 sets its port, TOPICS="clicks:4 views" creates topics
	@$(VENV) -m tidegate.testing $(if $(PORT),--port $(PORT)) $(foreach topic,$(TOPICS),--topic $(topic))

docs: setup ## build the pages into site/
	$(DOCS)

wheel: setup ## build the wheel into dist/, and a copy as tidegate.zip for spark-submit --py-files
	rm -rf dist
	$(VENV) -m build --wheel --no-isolation
	cp dist/tidegate-*.whl dist/tidegate.zip

release: check ## build and check the wheel and the sdist, then tag the version; the changelog must have a section for it
	@test -z "$$(git status --porcelain)" || { echo "release: commit or remove the changes first." >&2; exit 2; }
	@grep -qE "^## $(RELEASE) \([0-9]{4}-[0-9]{2}-[0-9]{2}\)" CHANGELOG.md || \
		{ echo "release: CHANGELOG.md has no section '## $(RELEASE) (YYYY-MM-DD)'." >&2; exit 2; }
	@$(VENV) -c "import twine" 2>/dev/null || { echo "release: twine is not installed: $(BIN)/pip install twine" >&2; exit 2; }
	rm -rf dist
	$(VENV) -m build --no-isolation
	$(VENV) -m twine check --strict dist/*
	git tag -a "v$(RELEASE)" -m "tidegate $(RELEASE)"
	@echo "built: dist/; next: git push origin v$(RELEASE)"
RELEASE = $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' lib/__init__.py)

# Requires pip-tools in .venv. The pin of appnope, which ipykernel requires on macOS only, is added separately. The lock files
# of the versions of Spark have PySpark and py4j, requirements.lock all other packages; the locked Delta limits PySpark.
PINNED = .venv/bin/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-header --no-annotate \
	--no-emit-index-url --no-emit-find-links --no-emit-trusted-host
VERSIONS = 4.0 4.1 4.2
lock: setup ## choose new versions for requirements.lock, requirements-*.lock and jars.lock
	$(PINNED) --upgrade --all-extras --output-file requirements.lock pyproject.toml
	sed -i.old -E -e '/^#/d' -e '/^tidegate @/d' -e '/^(pyspark|py4j)==/,/[^\\]$$/d' requirements.lock && rm requirements.lock.old
	echo appnope | $(PINNED) --output-file - - | sed 's/^appnope==[^ ]*/& ; sys_platform == "darwin"/' >> requirements.lock
	for version in $(VERSIONS); do \
		{ echo "pyspark==$$version.*"; sed -n 's/^\(delta-spark==[^ ]*\).*/\1/p' requirements.lock; } | \
			$(PINNED) --output-file requirements.all - && \
		awk '/^[a-z]/ { kept = /^(pyspark|py4j)==/ } kept' requirements.all > requirements-$$version.lock && rm requirements.all && \
		$(PYTHON) -m bootstrap --spark $$version --lock-jars || exit; done

clean: ## remove build results and files of runs; .venv and .jars remain
	rm -rf dist build site .run .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse metastore_db derby.log
	find . -name __pycache__ -type d -not -path './.venv*' -prune -exec rm -rf {} +
