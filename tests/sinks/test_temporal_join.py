"""Events that wait for the versions of their time in a changelog."""

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

from tidegate.errors import ArgumentError, ReplayMismatchError
from tidegate.joins import stream_table
from tidegate.sinks import Outcome, TemporalJoin, VersionTable
from tidegate.sinks import version_table as versions_module
from tidegate.testing import CrashError, crash_after

from ..drawing import few
from ..joins.plans import Change, Event, Met, answers, events_frame, history, met, worlds
from .batches import batch

pytestmark = [pytest.mark.slow, pytest.mark.jobs]

LATENESS = 5
TABLES = ("versions", "misses", "path", "waiting")
Cut = tuple[list[Event], list[Change]]


def joined(events: DataFrame, plans: DataFrame) -> DataFrame:
    return stream_table(events, plans, "user", how="left", as_of="event_time", order="place")


def frames(spark: SparkSession, cut: Cut) -> dict[str, DataFrame]:
    """Return a batch's events, and its changes as a changelog has them."""
    events, changes = cut
    log = history(spark, changes).drop("valid_to").withColumnRenamed("valid_from", "event_time")
    deleted = log.withColumn("deleted", F.col("plan").isNull())
    return {"events": events_frame(spark, events), "changes": deleted}


@dataclass(frozen=True)
class Tables:
    """The sink's tables below a folder."""

    root: Path
    more: dict[str, Any] = field(default_factory=dict)
    keep: str | None = None

    @property
    def sink(self) -> TemporalJoin:
        copy = VersionTable(
            str(self.root / "versions"),
            on="user",
            order=["place"],
            deleted="deleted",
            keep=self.keep,
        )
        places: dict[str, Any] = {name: str(self.root / name) for name in ("path", "waiting")}
        return TemporalJoin(**places, versions=copy, lateness=f"{LATENESS} seconds", **self.more)

    def write(self, spark: SparkSession, number: int, cut: Cut, plan: str = "plan") -> Outcome:
        return self.sink.write(frames(spark, cut), batch(number, plan))

    def read(self, spark: SparkSession, name: str) -> DataFrame:
        return spark.read.format("delta").load(str(self.root / name))

    def ids(self, spark: SparkSession, name: str) -> list[int]:
        found = self.read(spark, name).collect() if (self.root / name).exists() else []
        return sorted(row.id for row in found)

    def answers(self, spark: SparkSession) -> Counter[Met]:
        return answers(self.read(spark, "path")) if (self.root / "path").exists() else Counter()


@st.composite
def arrivals(draw: st.DrawFn) -> tuple[list[Cut], dict[int, str]]:
    """Draw events in any order and changes within the lateness, cut into batches anywhere, and
    crashes."""
    events, changes = draw(worlds(spare=False))
    arrived = draw(st.permutations(events))
    delays = draw(st.lists(st.integers(0, LATENESS), min_size=len(changes), max_size=len(changes)))
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
    deaths = draw(
        st.dictionaries(st.integers(0, parts - 1), st.sampled_from(TABLES), max_size=parts)
    )
    return batches, deaths


def reached(changes: Sequence[Change]) -> float:
    return max((change.at or 0 for change in changes), default=float("-inf")) - LATENESS


@pytest.mark.crash
@pytest.mark.draws("examples", short=[1], long=[20])
def test_events_meet_what_they_meet_in_the_whole_history_however_the_log_is_cut_and_crashes_fall(
    spark: SparkSession, tmp_path: Path, examples: int
) -> None:
    runs = iter(range(1_000))

    @few(examples)
    @given(arrivals(), st.sampled_from([0, 10]), st.booleans())
    def agree(arrival: tuple[list[Cut], dict[int, str]], patience: int, apart: bool) -> None:
        (batches, deaths), root = arrival, tmp_path / str(next(runs))
        misses = {"misses": str(root / "misses")} if apart else {}
        tables = Tables(root, {"patience": f"{patience} seconds", **misses})
        for number, cut in enumerate(batches):
            # A batch need not write to every table, and then outlives its crash.
            if number in deaths:
                with crash_after(root / deaths[number], batch=number), suppress(CrashError):
                    tables.write(spark, number, cut)
            tables.write(spark, number, cut)
        events = [event for cut in batches for event in cut[0]]
        changes = [change for cut in batches for change in cut[1]]
        until = reached(changes)
        due = [met(event, changes) for event in events if (event.at or 0) < until]
        found = Counter(answer for answer in due if answer[1] is not None)
        times = {event.id: event.at or 0 for event in events}
        missed = [
            answer for answer in due if answer[1] is None and times[answer[0]] + patience < until
        ]
        assert tables.answers(spark) == (found if apart else found + Counter(missed))
        if apart:
            assert tables.ids(spark, "misses") == sorted(answer[0] for answer in missed)
        out = {answer[0] for answer in [*found, *missed]}
        assert tables.ids(spark, "waiting") == sorted(set(times) - out)
        if found:
            again = joined(events_frame(spark, events), tables.read(spark, "versions")).where(
                "plan is not null"
            )
            assert (
                Counter({answer: n for answer, n in answers(again).items() if answer[0] in out})
                == found
            )

    agree()


@pytest.mark.crash
def test_a_crash_between_any_two_tables_loses_and_repeats_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    deaths = dict(enumerate(TABLES, start=1))
    tables = Tables(tmp_path, {"misses": str(tmp_path / "misses")})
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
        if number in deaths:
            table = tmp_path / deaths[number]
            with crash_after(table, batch=number), pytest.raises(CrashError):
                tables.write(spark, number, cut)
        tables.write(spark, number, cut)
    changes = [change for _, some in batches for change in some]
    due = [met(event, changes) for cut in batches for event in cut[0] if (event.at or 0) < 45]
    assert tables.answers(spark) == Counter(answer for answer in due if answer[1])
    assert tables.ids(spark, "misses") == sorted(answer[0] for answer in due if not answer[1])
    assert tables.ids(spark, "waiting") == [12, 15, 17]

    assert tables.write(spark, 5, batches[5]) == "skipped"
    with pytest.raises(ReplayMismatchError, match="planned now are offsets other-5"):
        tables.write(spark, 5, batches[5], "other")
    with pytest.raises(ReplayMismatchError, match="goes on with batch 2"):
        tables.write(spark, 2, batches[2])


def test_a_miss_waits_for_a_late_row_of_the_table_and_then_comes_out_without(
    spark: SparkSession, tmp_path: Path
) -> None:
    tables = Tables(tmp_path, {"patience": "20 seconds"})
    tables.write(spark, 0, ([Event(10, "a", 1), Event(10, "b", 2), Event(10, None, 3)], []))
    assert tables.ids(spark, "waiting") == [1, 2, 3]
    tables.write(spark, 1, ([], [Change(16, "z", "x", 1)]))
    assert (tables.answers(spark), tables.ids(spark, "waiting")) == (Counter(), [1, 2, 3])
    # A row for `a` comes 7 seconds beyond the lateness; and one for `c` that no event waits for any
    # more.
    tables.write(
        spark, 2, ([Event(12, "c", 4)], [Change(4, "a", "late", 2), Change(35, "z", "y", 3)])
    )
    assert tables.answers(spark) == Counter([(1, "late", 2)])
    tables.write(spark, 3, ([Event(3, "a", 5)], [Change(36, "z", "z", 4)]))
    assert tables.answers(spark) == Counter(
        [(1, "late", 2), (2, None, None), (3, None, None), (5, None, None)]
    )
    assert tables.ids(spark, "waiting") == [4]
    tables.write(spark, 4, ([], [Change(38, "z", "z", 4)]))
    assert (4, None, None) in tables.answers(spark)
    assert tables.ids(spark, "waiting") == []


def test_an_event_waits_until_the_changelog_is_past_it(spark: SparkSession, tmp_path: Path) -> None:
    tables = Tables(tmp_path)
    tables.write(
        spark, 0, ([Event(10, "a", 1), Event(9.999999, "a", 2)], [Change(15, "a", "new", 2)])
    )
    # A change of the very instant of event 1 is still within the lateness.
    assert tables.ids(spark, "waiting") == [1]
    tables.write(spark, 1, ([], [Change(10, "a", "just", 1)]))
    assert tables.ids(spark, "waiting") == [1]
    tables.write(spark, 2, ([], [Change(15.000001, "b", "on", 3)]))
    assert tables.answers(spark) == Counter([(2, None, None), (1, "just", 1)])


def test_an_inner_join_leaves_misses_out(spark: SparkSession, tmp_path: Path) -> None:
    tables = Tables(tmp_path, {"how": "inner"})
    events = [Event(1, "a", 1), Event(3, "a", 2), Event(3, "b", 3)]
    tables.write(spark, 0, (events, [Change(2, "a", "x", 1), Change(20, "z", "z", 2)]))
    assert tables.answers(spark) == Counter([(2, "x", 1)])
    assert tables.ids(spark, "waiting") == []


def test_the_slowest_partition_of_the_changelog_counts(spark: SparkSession, tmp_path: Path) -> None:
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
        assert Tables(tmp_path).ids(spark, "waiting") == ([2] if number == 2 else [1, 2])
    assert Tables(tmp_path).answers(spark) == Counter([(1, "y", 2)])


def test_a_quiet_changelog_holds_events_back_unless_it_is_said_how_far_it_may_lag(
    spark: SparkSession, tmp_path: Path
) -> None:
    batches: list[Cut] = [
        ([Event(0, "a", 1)], [Change(0, "a", "x", 1)]),
        *[([Event(50 + n, "a", n)], []) for n in (2, 40)],
    ]
    for number, cut in enumerate(batches):
        Tables(tmp_path / "strict").write(spark, number, cut)
        Tables(tmp_path / "lagging", {"lag": "30 seconds"}).write(spark, number, cut)
    assert Tables(tmp_path / "strict").ids(spark, "waiting") == [1, 2, 40]
    assert Tables(tmp_path / "lagging").ids(spark, "waiting") == [40]
    assert Tables(tmp_path / "lagging").answers(spark) == Counter([(1, "x", 1), (2, "x", 1)])


def test_versions_that_no_event_needs_are_left_out_and_the_last_ones_stay(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions_module, "REWRITE_EVERY", 2)
    tables = Tables(tmp_path, keep="20 seconds")
    log: list[list[Change]] = [
        [Change(0, "a", "a0", 0), Change(0, "b", "b0", 1), Change(0, "c", "c0", 2)],
        [Change(10, "a", "a1", 3), Change(12, "c", None, 4)],
        [Change(60, "z", "z", 5)],
        [],
        [Change(61, "z", "z", 6)],
    ]
    # Event 0 waits until the third batch, which rewrites the table; event 4 is later than what is
    # kept by then.
    came = [
        [Event(7, "a", 0)],
        [],
        [],
        [],
        [Event(8, "a", 4), Event(50, "c", 5), Event(50, "b", 6)],
    ]
    for number, cut in enumerate(zip(came, log, strict=True)):
        tables.write(spark, number, cut)
    assert sorted(row.place for row in tables.read(spark, "versions").collect()) == [1, 3, 4, 5, 6]
    met = Counter([(0, "a0", 0), (4, None, None), (5, None, None), (6, "b0", 1)])
    assert tables.answers(spark) == met


def test_tables_of_another_query_and_paths_that_are_one_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    tables = Tables(tmp_path)
    history(spark, [Change(0, "a", "x", 1)]).write.format("delta").save(str(tmp_path / "versions"))
    with pytest.raises(ReplayMismatchError, match="another query's"):
        tables.write(spark, 0, ([Event(1, "a", 1)], []))
    with pytest.raises(ArgumentError, match="a path of its own"):
        Tables(tmp_path, {"misses": str(tmp_path / "waiting")}).sink  # noqa: B018
    with pytest.raises(ArgumentError, match="shorter than lateness"):
        Tables(tmp_path, keep="4 seconds").sink  # noqa: B018
    with pytest.raises(ArgumentError, match="an inner join drops them"):
        Tables(tmp_path, {"misses": str(tmp_path / "misses"), "how": "inner"}).sink  # noqa: B018
    with pytest.raises(ArgumentError, match="'inner' or 'left'"):
        Tables(tmp_path, {"how": "full"}).sink  # noqa: B018
    with pytest.raises(ArgumentError, match="changes is 'changes', and the batch has the frames"):
        tables.sink.write({"events": spark.range(1)}, batch(0))
    with pytest.raises(ArgumentError, match="patience"):
        Tables(tmp_path, {"patience": "-1 seconds"}).sink  # noqa: B018
