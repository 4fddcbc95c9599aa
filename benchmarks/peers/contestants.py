"""Who competes: by which process a contestant runs a query, and what it promises."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.runtime.process.installation import environment, java, project_root

from ..steady import WITHIN
from .installing import CLASSES, FLINK, HERE, HOME, JARS, PROGRAM

# As much as the session of the library's own benchmarks has.
HEAP = "-Xmx4g"
_SEQUENCE = frozenset({"sequence"})


@dataclass(frozen=True)
class Contestant:
    """A contestant: a process that takes QUERY SERVERS LABEL RUNS WITHIN FOLDER, and more words."""

    program: tuple[str, ...]
    more: tuple[str, ...]
    guarantee: str
    variables: Mapping[str, str] = field(default_factory=dict)
    topic: bool = False
    """Whether the results go to a topic LABEL-NUMBER; otherwise to a Delta table."""
    updates: bool = False
    """Whether a result comes out anew when it changes, so that the last of a key counts."""
    sketches: bool = False
    """Whether different users are counted by a sketch."""
    without: frozenset[str] = frozenset()
    """Queries that it has no words for."""

    def command(self, query: str, servers: str, label: str, runs: int, folder: str) -> list[str]:
        """Return the command line that runs a query until it is warm, and so often at the most."""
        return [*self.program, query, servers, label, str(runs), str(WITHIN), folder, *self.more]

    @property
    def env(self) -> dict[str, str]:
        """The process's environment."""
        return environment(**self.variables)


def _spark(way: str, guarantee: str, without: frozenset[str] = frozenset()) -> Contestant:
    program = (sys.executable, "-m", "benchmarks.peers.spark_queries")
    return Contestant(program, (way,), guarantee, sketches=True, without=without)


def flink(script: str) -> tuple[tuple[str, ...], tuple[str, ...], Mapping[str, str]]:
    """Return how a script runs in Flink: the program, the words at its end, and its variables."""
    connector = next((JARS / "flink").glob("*.jar"), JARS / "flink")
    # SQL calls no function of Python, so no worker is made ready for one.
    variables = {
        "JVM_ARGS": HEAP,
        "FLINK_LOG_DIR": str(HOME / "log"),
        "_python_worker_execution_mode": "process",
        "PYTHONPATH": str(project_root()),
    }
    program = (str(FLINK / ".venv" / "bin" / "python"), str(HERE / script))
    return program, (str(connector),), variables


def streams(program: str) -> tuple[str, ...]:
    """Return how a program of Kafka Streams is run."""
    return (java(), HEAP, "-cp", f"{CLASSES}:{JARS}/streams/*", program)


def _flink() -> Contestant:
    program, connector, variables = flink("flink_sql.py")
    promised = "exactly once into Kafka; final results; state on the heap"
    return Contestant(program, connector, promised, variables, topic=True)


def _streams() -> Contestant:
    return Contestant(
        streams(PROGRAM),
        (),
        "exactly once into Kafka; updates; RocksDB",
        topic=True,
        updates=True,
        without=_SEQUENCE,
    )


def contestants() -> dict[str, Contestant]:
    """Return the contestants by name, as they are installed."""
    answers = "final results; state on the heap"
    ours = f"exactly once into Delta, dead letters kept; {answers}"
    return {
        "tidegate, stream": _spark("stream", ours),
        "tidegate, backlog": _spark("backlog", ours, _SEQUENCE),
        "by hand": _spark(
            "hand", f"exactly once into Delta, as Spark has it; {answers}", _SEQUENCE
        ),
        "Flink": _flink(),
        "Kafka Streams": _streams(),
    }
