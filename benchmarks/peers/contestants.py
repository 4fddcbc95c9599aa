"""The contestants: the process that runs a query, and its guarantees."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from benchmarks.peers.answers import QUERIES
from benchmarks.peers.installing import CLASSES, FLINK, HERE, HOME, JARS, PROGRAM
from benchmarks.support.warm_up import TOLERANCE
from tidegate.spark.jars import java_path, project_root
from tidegate.versions import is_spark_at_least

# As large as the driver memory of `bench_session`.
HEAP = "-Xmx4g"
_SEQUENCE = frozenset({"sequence"})
_CHANGELOG = frozenset({"changelog"})
AUTO_CDC = "Spark AUTO CDC"
MERGED = "merged in the order of the log, and a repeated batch has no effect"


@dataclass(frozen=True)
class Contestant:
    """A contestant: a process that takes QUERY SERVERS LABEL RUNS TOLERANCE FOLDER, then `more`."""

    program: tuple[str, ...]
    more: tuple[str, ...]
    guarantee: str
    variables: Mapping[str, str] = field(default_factory=dict)
    topic: bool = False
    """Whether the output is a topic LABEL-NUMBER; otherwise a Delta table."""
    updates: bool = False
    """Whether results are updated, so that the last record of a key counts."""
    sketches: bool = False
    """Whether distinct users are a sketch estimate."""
    without: frozenset[str] = frozenset()
    """Unsupported queries."""

    def command(self, query: str, servers: str, label: str, runs: int, folder: str) -> list[str]:
        """Return the command line that runs a query until it is warm, at most `runs` times."""
        return [*self.program, query, servers, label, str(runs), str(TOLERANCE), folder, *self.more]

    @property
    def env(self) -> dict[str, str]:
        """The environment of the process."""
        return {**os.environ, **self.variables}


def _spark(way: str, guarantee: str, without: frozenset[str] = frozenset()) -> Contestant:
    program = (sys.executable, "-m", "benchmarks.peers.spark_queries")
    return Contestant(program, (way,), guarantee, sketches=True, without=without)


def flink(script: str) -> tuple[tuple[str, ...], tuple[str, ...], Mapping[str, str]]:
    """Return the program of a script in Flink, its last arguments, and its environment."""
    connector = next((JARS / "flink").glob("*.jar"), JARS / "flink")
    # SQL queries call no Python function, so no worker needs to start.
    variables = {
        "JVM_ARGS": HEAP,
        "FLINK_LOG_DIR": str(HOME / "log"),
        "_python_worker_execution_mode": "process",
        "PYTHONPATH": str(project_root()),
    }
    program = (str(FLINK / ".venv" / "bin" / "python"), str(HERE / script))
    return program, (str(connector),), variables


def streams(program: str) -> tuple[str, ...]:
    """Return the command of a Kafka Streams program."""
    return (java_path(), HEAP, "-cp", f"{CLASSES}:{JARS}/streams/*", program)


def _flink() -> Contestant:
    program, connector, variables = flink("flink_sql.py")
    guarantee = (
        "exactly once into Kafka; final results, of a changelog upserts in the order of the topic; "
        "state on the heap"
    )
    return Contestant(program, connector, guarantee, variables, topic=True)


def _streams() -> Contestant:
    return Contestant(
        streams(PROGRAM),
        (),
        "exactly once into Kafka; updates; RocksDB",
        topic=True,
        updates=True,
        without=_SEQUENCE | _CHANGELOG,
    )


def _auto_cdc() -> Contestant:
    return Contestant(
        (sys.executable, "-m", "benchmarks.peers.auto_cdc"),
        (),
        f"a changelog into Iceberg: {MERGED}",
        without=frozenset(QUERIES) - _CHANGELOG,
    )


def contestants() -> dict[str, Contestant]:
    """Return the contestants by name, without those that the version of Spark does not have."""
    answers = "final results; state on the heap"
    tidegate = f"exactly once into Delta, dead letters stored; {answers}"
    everyone = {
        "tidegate, stream": _spark("stream", tidegate),
        "tidegate, backfill": _spark("backfill", tidegate, _SEQUENCE | _CHANGELOG),
        "plain PySpark": _spark(
            "pyspark",
            f"exactly once into Delta, as in Spark; a changelog is {MERGED}; {answers}",
            _SEQUENCE,
        ),
        "Flink": _flink(),
        "Kafka Streams": _streams(),
    }
    if is_spark_at_least("4.2"):
        everyone[AUTO_CDC] = _auto_cdc()
    return everyone
