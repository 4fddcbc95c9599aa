"""The page about the architecture lists the functions that a micro-batch passes, in their order."""

from __future__ import annotations

import ast
import re
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.support.delta_tables import rows
from tests.support.kafka_topics import pages_input, send_records
from tidegate import Job, run
from tidegate import aggregates as agg
from tidegate.engine.micro_batch import MicroBatchProcessor
from tidegate.sinks import Append
from tidegate.testing import Broker
from tidegate.windows import Tumbling, WindowAggregation

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/project/architecture.md"
MAX_HOPS = 25
_ROW = re.compile(r"\| \d+ \| `(?P<file>[\w/]+\.py)` \| `(?P<function>[\w.]+)` \| .+ \|")


class Hop(NamedTuple):
    file: str
    function: str


def hops() -> list[Hop]:
    """Return the rows of the table."""
    _, _, section = PAGE.read_text().partition("## A micro-batch, function by function\n")
    lines = section.partition("\n## ")[0].splitlines()
    return [Hop(**found.groupdict()) for line in lines if (found := _ROW.fullmatch(line))]


def functions_in(path: Path) -> set[str]:
    """Return the functions and methods of a module, methods with their class."""
    found: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            methods = [each for each in node.body if isinstance(each, ast.FunctionDef)]
            found.update(f"{node.name}.{each.name}" for each in methods)
    return found


def test_the_walk_is_short_and_its_functions_exist() -> None:
    table = hops()
    assert 15 <= len(table) <= MAX_HOPS
    for hop in table:
        assert hop.function in functions_in(ROOT / "lib" / hop.file), hop


@pytest.mark.broker
@pytest.mark.jobs
def test_a_batch_passes_the_functions_in_the_order_of_the_page(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    send_records(broker.bootstrap_servers, topic, [0, 1, 2, 90, 91], 0)
    # The first batch of a checkpoint also records its static files.
    calls: dict[int, dict[Hop, None]] = {}
    call = MicroBatchProcessor.__call__

    def traced(processor: MicroBatchProcessor, frame: DataFrame, number: int) -> None:
        seen = calls.setdefault(number, {})

        def record(called: FrameType, event: str, _: object) -> None:
            if event == "call":
                _, _, file = called.f_code.co_filename.rpartition("tidegate/")
                seen[Hop(file, called.f_code.co_qualname)] = None

        previous = sys.getprofile()
        sys.setprofile(record)
        threading.setprofile(record)
        try:
            call(processor, frame, number)
        finally:
            threading.setprofile(None)
            sys.setprofile(previous)

    monkeypatch.setattr(MicroBatchProcessor, "__call__", traced)
    windows = WindowAggregation(Tumbling("10 seconds"), ["page"], {"views": agg.count()})
    job = Job(
        name="walk",
        inputs={"pages": pages_input(broker.bootstrap_servers, topic, max_records=3)},
        transform=windows,
        sink=Append(str(tmp_path / "rows")),
    )
    run(job, spark)
    assert rows(tmp_path / "rows")
    table = hops()
    commit = next(hop for hop in table if hop.function == "commit_once")
    written = max(number for number, seen in calls.items() if commit in seen)
    assert written > 0
    assert [hop for hop in calls[written] if hop in table] == table
