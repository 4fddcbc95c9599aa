"""TemporalJoin: events wait for the version of their time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.hypothesis_profiles import few
from tests.support.query_plans import (
    Change,
    Event,
    LookupResult,
    events_frame,
    expected_lookup,
    lookup_cases,
    lookup_results,
    versions_frame,
)
from tests.support.sink_batches import batch
from tidegate.commit.protocol import Outcome
from tidegate.errors import ArgumentError, TableMismatchError
from tidegate.joins import stream_table
from tidegate.sinks import TemporalJoin, VersionedTable
from tidegate.sinks.changelog import versioned_table as versions_module
from tidegate.testing import CrashError, crash_after

pytestmark = [pytest.mark.slow, pytest.mark.jobs]

DELAY_SECONDS = 5
TABLES = ("versions", "unmatched", "path", "pending_table")
Cut = tuple[list[Event], list[Change]]


def joined(events: DataFrame, plans: DataFrame) -> DataFrame:
    return stream_table(events, plans, "user", how="left", as_of="event_time", order="place")


def frames(spark: SparkSession, cut: Cut) -> dict[str, DataFrame]:
    """Return a batch's events, and its changes as rows of a changelog."""
    events, changes = cut
    log = (
        versions_frame(spark, changes)
        .drop("valid_to")
        .withColumnRenamed("valid_from", "event_time")
    )
    deleted = log.withColumn("deleted", F.col("plan").isNull())
    return {"events": events_frame(spark, events), "changes": deleted}


@dataclass(frozen=True)
class Tables:
    """The tables of the sink in a directory."""

    root: Path
    options: dict[str, Any] = field(default_factory=dict)
    retention: str | None = None

    @property
    def sink(self) -> TemporalJoin:
        copy = VersionedTable(
            str(self.root / "versions"),
            key="user",
            order=["place"],
            deleted="deleted",
            retention=self.retention,
        )
        paths: dict[str, Any] = {name: str(self.root / name) for name in ("path", "pending_table")}
        return TemporalJoin(
            **paths, versions=copy, watermark_delay=f"{DELAY_SECONDS} seconds", **self.options
        )

    def write(self, spark: SparkSession, number: int, cut: Cut, plan: str = "plan") -> Outcome:
        return self.sink.write(frames(spark, cut), batch(number, plan))

    def read(self, spark: SparkSession, name: str) -> DataFrame:
        return spark.read.format("delta").load(str(self.root / name))

    def ids(self, spark: SparkSession, name: str) -> list[int]:
        stored = self.read(spark, name).collect() if (self.root / name).exists() else []
        return sorted(row.id for row in stored)

    def results(self, spark: SparkSession) -> Counter[LookupResult]:
        return (
            lookup_results(self.read(spark, "path")) if (self.root / "path").exists() else Counter()
        )


@st.composite
def arrivals(draw: st.DrawFn) -> tuple[list[Cut], dict[int, str]]:
    """Draw events in any order, changes within the delay, batch boundaries, and crashes."""
    events, changes = draw(lookup_cases(spare=False))
    arrived = draw(st.permutations(events))
    delays = draw(
        st.lists(st.integers(0, DELAY_SECONDS), min_size=len(changes), max_size=len(changes))
    )
    logged = [
        c
        for _, c in sorted(
            zip(delays, changes, strict=True), key=lambda pair: pair[0] + (pair[1].at or 0)
        )
    ]
    parts = draw(st.integers(2, 5))
    cuts = [
        sorted(draw(st.lists(st.integers(0, 60), min_size=parts - 1, max_size=parts - 1)))
        for _ in range(2)
    ]
    edges = [list(pairwise([0, *cut, 60])) for cut in cuts]
    batches = [(arrived[a:b], logged[c:d]) for (a, b), (c, d) in zip(*edges, strict=True)]
    crashes = draw(
        st.dictionaries(st.integers(0, parts - 1), st.sampled_from(TABLES), max_size=parts)
    )
    return batches, crashes


def progress(changes: Sequence[Change]) -> float:
    return max((change.at or 0 for change in changes), default=float("-inf")) - DELAY_SECONDS


@pytest.mark.crash
@pytest.mark.draws("examples", short=[1], long=[20])
def test_rows_equal_a_join_with_the_complete_history_for_any_batches_and_crashes(
    spark: SparkSession, tmp_path: Path, examples: int
) -> None:
    runs = iter(range(1_000))

    @few(examples)
    @given(arrivals(), st.sampled_from([0, 10]), st.booleans())
    def agree(
        arrival: tuple[list[Cut], dict[int, str]], retry_seconds: int, has_unmatched_table: bool
    ) -> None:
        (batches, crashes), root = arrival, tmp_path / str(next(runs))
        unmatched = {"unmatched": str(root / "unmatched")} if has_unmatched_table else {}
        tables = Tables(root, {"retry_for": f"{retry_seconds} seconds", **unmatched})
        for number, cut in enumerate(batches):
            # A batch may not write to this table, and then does not crash.
            if number in crashes:
                with crash_after(root / crashes[number], batch=number), suppress(CrashError):
                    tables.write(spark, number, cut)
            tables.write(spark, number, cut)
        events = [event for cut in batches for event in cut[0]]
        changes = [change for cut in batches for change in cut[1]]
        until = progress(changes)
        due = [expected_lookup(event, changes) for event in events if (event.at or 0) < until]
        matched = Counter(answer for answer in due if answer[1] is not None)
        times = {event.id: event.at or 0 for event in events}
        missed = [
            answer
            for answer in due
            if answer[1] is None and times[answer[0]] + retry_seconds < until
        ]
        assert tables.results(spark) == (
            matched if has_unmatched_table else matched + Counter(missed)
        )
        if has_unmatched_table:
            assert tables.ids(spark, "unmatched") == sorted(answer[0] for answer in missed)
        written = {answer[0] for answer in [*matched, *missed]}
        assert tables.ids(spark, "pending_table") == sorted(set(times) - written)
        if matched:
            rejoined = joined(events_frame(spark, events), tables.read(spark, "versions")).where(
                "plan is not null"
            )
            assert (
                Counter(
                    {
                        answer: n
                        for answer, n in lookup_results(rejoined).items()
                        if answer[0] in written
                    }
                )
                == matched
            )

    agree()


@pytest.mark.crash
def test_a_crash_between_any_two_tables_loses_and_repeats_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    crashes = dict(enumerate(TABLES, start=1))
    tables = Tables(tmp_path, {"unmatched": str(tmp_path / "unmatched")})
    batches: list[Cut] = [
        (
            [
                Event(10.0 * n + 9, "a", 3 * n),
                Event(10.0 * n - 8, "b", 3 * n + 1),
                Event(10.0 * n + 1, "a", 3 * n + 2),
            ],
            [Change(10.0 * n, "a", f"plan {n}", n), Change(10.0 * n - 1, "a", None, 100 + n)],
        )
        for n in range(6)
    ]
    for number, cut in enumerate(batches):
        if number in crashes:
            table = tmp_path / crashes[number]
            with crash_after(table, batch=number), pytest.raises(CrashError):
                tables.write(spark, number, cut)
        tables.write(spark, number, cut)
    changes = [change for _, part in batches for change in part]
    due = [
        expected_lookup(event, changes)
        for cut in batches
        for event in cut[0]
        if (event.at or 0) < 45
    ]
    assert tables.results(spark) == Counter(answer for answer in due if answer[1])
    assert tables.ids(spark, "unmatched") == sorted(answer[0] for answer in due if not answer[1])
    assert tables.ids(spark, "pending_table") == [12, 15, 17]

    assert tables.write(spark, 5, batches[5]) == "skipped"
    with pytest.raises(TableMismatchError, match="the checkpoint plans offsets other-5"):
        tables.write(spark, 5, batches[5], "other")
    with pytest.raises(TableMismatchError, match="continues with batch 2"):
        tables.write(spark, 2, batches[2])


def test_an_event_without_a_match_is_retried_and_then_written_unmatched(
    spark: SparkSession, tmp_path: Path
) -> None:
    tables = Tables(tmp_path, {"retry_for": "20 seconds"})
    tables.write(spark, 0, ([Event(10, "a", 1), Event(10, "b", 2), Event(10, None, 3)], []))
    assert tables.ids(spark, "pending_table") == [1, 2, 3]
    tables.write(spark, 1, ([], [Change(16, "z", "x", 1)]))
    assert (tables.results(spark), tables.ids(spark, "pending_table")) == (Counter(), [1, 2, 3])
    # A change for `a` is 7 seconds later than the delay allows; event 4 for `c` is still pending.
    tables.write(
        spark, 2, ([Event(12, "c", 4)], [Change(4, "a", "late", 2), Change(35, "z", "y", 3)])
    )
    assert tables.results(spark) == Counter([(1, "late", 2)])
    tables.write(spark, 3, ([Event(3, "a", 5)], [Change(36, "z", "z", 4)]))
    assert tables.results(spark) == Counter(
        [(1, "late", 2), (2, None, None), (3, None, None), (5, None, None)]
    )
    assert tables.ids(spark, "pending_table") == [4]
    tables.write(spark, 4, ([], [Change(38, "z", "z", 4)]))
    assert (4, None, None) in tables.results(spark)
    assert tables.ids(spark, "pending_table") == []


def test_an_event_waits_until_the_changelog_has_passed_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    tables = Tables(tmp_path)
    tables.write(
        spark, 0, ([Event(10, "a", 1), Event(9.999999, "a", 2)], [Change(15, "a", "new", 2)])
    )
    # A change at the exact time of event 1 is still within the delay.
    assert tables.ids(spark, "pending_table") == [1]
    tables.write(spark, 1, ([], [Change(10, "a", "just", 1)]))
    assert tables.ids(spark, "pending_table") == [1]
    tables.write(spark, 2, ([], [Change(15.000001, "b", "on", 3)]))
    assert tables.results(spark) == Counter([(2, None, None), (1, "just", 1)])


def test_an_inner_join_drops_unmatched_events(spark: SparkSession, tmp_path: Path) -> None:
    tables = Tables(tmp_path, {"how": "inner"})
    events = [Event(1, "a", 1), Event(3, "a", 2), Event(3, "b", 3)]
    tables.write(spark, 0, (events, [Change(2, "a", "x", 1), Change(20, "z", "z", 2)]))
    assert tables.results(spark) == Counter([(2, "x", 1)])
    assert tables.ids(spark, "pending_table") == []


def test_the_slowest_partition_determines_the_progress_of_the_changelog(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = Tables(tmp_path).sink
    sink = replace(sink, versions=replace(sink.versions, partition=["user"]))
    log = [
        [Change(0, "a", "x", 1), Change(0, "b", "y", 2)],
        [Change(50, "a", "ahead", 3)],
        [Change(9, "b", "z", 4)],
    ]
    for number, changes in enumerate(log):
        events = [Event(3, "b", 1), Event(10, "b", 2)] if number == 0 else []
        sink.write(frames(spark, (events, changes)), batch(number))
        assert Tables(tmp_path).ids(spark, "pending_table") == ([2] if number == 2 else [1, 2])
    assert Tables(tmp_path).results(spark) == Counter([(1, "y", 2)])


def test_an_idle_changelog_delays_events_unless_its_lag_is_limited(
    spark: SparkSession, tmp_path: Path
) -> None:
    batches: list[Cut] = [
        ([Event(0, "a", 1)], [Change(0, "a", "x", 1)]),
        *[([Event(50 + n, "a", n)], []) for n in (2, 40)],
    ]
    for number, cut in enumerate(batches):
        Tables(tmp_path / "strict").write(spark, number, cut)
        Tables(tmp_path / "lagging", {"max_changelog_lag": "30 seconds"}).write(spark, number, cut)
    assert Tables(tmp_path / "strict").ids(spark, "pending_table") == [1, 2, 40]
    assert Tables(tmp_path / "lagging").ids(spark, "pending_table") == [40]
    assert Tables(tmp_path / "lagging").results(spark) == Counter([(1, "x", 1), (2, "x", 1)])


def test_expired_versions_are_deleted_except_the_last_of_each_key(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions_module, "REWRITE_EVERY", 2)
    tables = Tables(tmp_path, retention="20 seconds")
    log: list[list[Change]] = [
        [Change(0, "a", "a0", 0), Change(0, "b", "b0", 1), Change(0, "c", "c0", 2)],
        [Change(10, "a", "a1", 3), Change(12, "c", None, 4)],
        [Change(60, "z", "z", 5)],
        [],
        [Change(61, "z", "z", 6)],
    ]
    # Event 0 waits until the third batch, which rewrites the table; event 4 is older than the
    # retained versions.
    events_by_batch = [
        [Event(7, "a", 0)],
        [],
        [],
        [],
        [Event(8, "a", 4), Event(50, "c", 5), Event(50, "b", 6)],
    ]
    for number, cut in enumerate(zip(events_by_batch, log, strict=True)):
        tables.write(spark, number, cut)
    assert sorted(row.place for row in tables.read(spark, "versions").collect()) == [1, 3, 4, 5, 6]
    expected = Counter([(0, "a0", 0), (4, None, None), (5, None, None), (6, "b0", 1)])
    assert tables.results(spark) == expected


def test_tables_of_another_query_and_shared_paths_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    tables = Tables(tmp_path)
    versions_frame(spark, [Change(0, "a", "x", 1)]).write.format("delta").save(
        str(tmp_path / "versions")
    )
    with pytest.raises(TableMismatchError, match="belongs to another query"):
        tables.write(spark, 0, ([Event(1, "a", 1)], []))
    with pytest.raises(ArgumentError, match="a different path for each"):
        Tables(tmp_path, {"unmatched": str(tmp_path / "pending_table")}).sink  # noqa: B018
    with pytest.raises(ArgumentError, match="at least watermark_delay"):
        Tables(tmp_path, retention="4 seconds").sink  # noqa: B018
    with pytest.raises(ArgumentError, match="an inner join drops unmatched events"):
        Tables(tmp_path, {"unmatched": str(tmp_path / "unmatched"), "how": "inner"}).sink  # noqa: B018
    with pytest.raises(ArgumentError, match="'inner', 'left'"):
        Tables(tmp_path, {"how": "full"}).sink  # noqa: B018
    with pytest.raises(ArgumentError, match="invalid changes: 'changes'; the batch has the frames"):
        tables.sink.write({"events": spark.range(1)}, batch(0))
    with pytest.raises(ArgumentError, match="retry_for"):
        Tables(tmp_path, {"retry_for": "-1 seconds"}).sink  # noqa: B018
