"""The Sink base class, and the tables of every sink."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.support.sink_batches import batch, rows
from tidegate.aggregates import count
from tidegate.commit.batch import CommitContext
from tidegate.commit.protocol import Outcome
from tidegate.errors import ArgumentError, TableError
from tidegate.input_frames import only_frame
from tidegate.sinks import (
    Append,
    AppendUnique,
    CorrectedWindows,
    FanOut,
    MapRows,
    SendingSink,
    Sink,
    TemporalJoin,
    Upsert,
    VersionedTable,
    WrappingSink,
)
from tidegate.sketches import BloomTable
from tidegate.windows import Tumbling, WindowAggregation

VIEWS = WindowAggregation(Tumbling("1 minute"), aggs={"n": count()})
SINKS: dict[str, tuple[Sink, list[tuple[str, str]]]] = {
    "append": (Append("a"), [("a", "append")]),
    "corrected windows": (
        CorrectedWindows("a", aggregation=VIEWS, log="l"),
        [("l", "windows_log"), ("a", "windows")],
    ),
    "corrected windows without a log": (
        CorrectedWindows("a", aggregation=VIEWS, log=None),
        [("a", "windows")],
    ),
    "append unique": (
        AppendUnique(
            "a",
            duplicates="r",
            filter_path="s",
            keys_table=BloomTable(key="id", expected_items=1_000),
        ),
        [("r", "repeated"), ("a", "append"), ("s", "seen")],
    ),
    "temporal join": (
        TemporalJoin(
            "a",
            pending_table="w",
            unmatched="m",
            versions=VersionedTable("v", key="user", order=["offset"]),
            watermark_delay="1 second",
        ),
        [("v", "versions"), ("m", "misses"), ("a", "append"), ("w", "waiting")],
    ),
    "fan out": (
        FanOut(
            Append("a"), other_sinks=[MapRows(rows=lambda rows: rows, sink=Append("h", output="h"))]
        ),
        [("h", "h"), ("a", "append")],
    ),
}


@pytest.mark.parametrize("name", SINKS)
def test_tables_returns_all_tables_in_the_order_of_writing(name: str) -> None:
    sink, tables = SINKS[name]
    assert sink.tables() == tables
    assert (sink.path, sink.output) in tables


def test_a_sink_of_one_table_refuses_frames_of_several_inputs(spark: SparkSession) -> None:
    frame = spark.range(1)
    assert only_frame({"rows": frame}) is frame
    with pytest.raises(ArgumentError, match=r"the frames .*clicks, users"):
        only_frame({"clicks": frame, "users": frame})
    with pytest.raises(ArgumentError, match=r"the frames \(none\)"):
        only_frame({})


@dataclass(frozen=True)
class ThirdPartySink(Sink):
    """A sink that implements only what the base class requires."""

    path: str
    output: str = "third_party"

    def write(
        self, frames: Mapping[str, DataFrame], batch: CommitContext, *, rows_out: int | None = None
    ) -> Outcome:
        return Append(self.path, output=self.output).write(frames, batch, rows_out=rows_out)


@dataclass(frozen=True)
class ListSink(SendingSink):
    """A sink that sends rows to a list."""

    path: str
    received: list[Any]
    output: str = "list"

    def send(self, rows: DataFrame, batch: CommitContext) -> int:
        self.received.extend(row[0] for row in rows.collect())
        return len(self.received)

    def progress_row(self, batch: CommitContext, sent: int) -> tuple[tuple[object, ...], str]:
        return (batch.plan.number, sent), "batch BIGINT, rows BIGINT"


def test_added_columns_are_compared_with_those_of_the_table_before_a_write(
    spark: SparkSession, tmp_path: Path
) -> None:
    spark.sql(f"CREATE TABLE delta.`{tmp_path}/t` (id BIGINT, double BIGINT) USING DELTA")

    def mapped(type_: str) -> Sink:
        return MapRows(
            rows=lambda rows: rows.selectExpr("*", f"CAST(2 * id AS {type_}) AS double"),
            sink=Append(str(tmp_path / "t")),
            adds_columns=True,
        )

    assert mapped("BIGINT").check_schema(lambda: {"rows": spark.range(1)})
    with pytest.raises(TableError, match="double was bigint and is int"):
        mapped("INT").check_schema(lambda: {"rows": spark.range(1)})


def test_a_third_party_sink_has_defaults_and_can_be_wrapped() -> None:
    sink = ThirdPartySink("t")
    fan_out = FanOut(sink, other_sinks=[Append("a")])
    mapped = MapRows(rows=lambda frame: frame, sink=sink)
    assert (sink.external, sink.compacts_itself, sink.reads_once) == (False, False, False)
    assert (sink.result_keys, sink.rebuildable_outputs) == (None, frozenset())
    assert sink.check_schema(lambda: pytest.fail("the default must not compute frames")) is False
    assert fan_out.tables() == [("a", "append"), ("t", "third_party")]
    assert mapped.tables() == [("t", "third_party")]
    assert (fan_out.path, fan_out.output, mapped.path) == ("t", "third_party", "t")


def test_result_keys_identify_the_rows_of_a_result_table() -> None:
    results = {
        name: (sink.result_keys, sink.adds_results, sink.supports_backfill)
        for name, sink in {
            "append": Append("t"),
            "upsert": Upsert("t", keys=["page"]),
            "partials": Upsert("t", keys=["page"], aggs={"n": count()}),
            "corrected": CorrectedWindows("t", aggregation=VIEWS, log=None),
        }.items()
    }
    assert results == {
        "append": ((), False, True),
        "upsert": (["page"], False, True),
        "partials": (["page"], True, True),
        "corrected": (None, False, False),
    }


def test_a_wrapping_sink_passes_on_the_rebuildable_outputs_of_its_inner_sinks() -> None:
    unique, _ = SINKS["append unique"]
    fan_out = FanOut(Append("t", output="target"), other_sinks=[unique])
    assert isinstance(fan_out, WrappingSink)
    assert fan_out.rebuildable_outputs == unique.rebuildable_outputs == {"seen"}


def test_a_sending_sink_records_a_batch_and_does_not_send_it_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    received: list[Any] = []
    sink = ListSink(str(tmp_path / "sent"), received)
    assert sink.external
    assert [sink.write({"rows": spark.range(2)}, batch(0)) for _ in range(2)] == [
        "written",
        "skipped",
    ]
    assert sorted(received) == [0, 1]
    assert [tuple(row) for row in rows(spark, sink.path)] == [(0, 2)]


def test_the_base_classes_require_their_abstract_methods() -> None:
    incomplete: Sequence[Any] = (Sink, WrappingSink, SendingSink)
    for sink_class in incomplete:
        with pytest.raises(TypeError, match="abstract"):
            sink_class()
