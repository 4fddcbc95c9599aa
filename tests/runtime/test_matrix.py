"""Checkpoint, tables and topic of different moments: each record once, or a refusal by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidegate.errors import CheckpointError, ReplayMismatchError, SourceError, TidegateError
from tidegate.runtime.process.exit_codes import code_of
from tidegate.runtime.query.run import run
from tidegate.testing import Broker

from .left import FIRST, SECOND, Left
from .moments import MOMENTS, RECORDS, Moments, Record, contents, require_each_once
from .topics import sent

pytestmark = [pytest.mark.broker, pytest.mark.crash]
TORN = (CheckpointError, ReplayMismatchError)
READ = {"none": 0, "first": len(FIRST), "second": len(FIRST) + len(SECOND)}
"""How many records have been read and written at a moment; the third run was to read all of them,
also where it was killed."""
ALL = dict(enumerate(RECORDS))


@pytest.fixture(scope="session")
def moments(
    spark: SparkSession, broker: Broker, tmp_path_factory: pytest.TempPathFactory
) -> Moments:
    return Moments.made(spark, broker, "moments", tmp_path_factory.mktemp("moments"))


def outcome(left: Left, spark: SparkSession, *, resume: bool = False) -> TidegateError | None:
    """Run the job; return the refusal where there is one, before which nothing was written."""
    before = contents(left.root)
    try:
        run(left.job(), spark, resume_from_table=resume)
    except TidegateError as error:
        refusal = error
    else:
        return None
    assert contents(left.root) == before, f"written before it was refused: {refusal}"
    return refusal


def together(checkpoint: str, target: str, aside: str) -> bool:
    """Return whether a run has left checkpoint and tables so, or a kill of it between its commits.

    The run after "begun" makes another batch after the one that it finishes, so that the tables of
    "third" are ahead of it by two.
    """
    if checkpoint == "begun":
        return target in ("second", "begun") and aside in ("second", "begun")
    return checkpoint == target == aside


def require_all_or_torn(left: Left, spark: SparkSession, *, whole: bool) -> None:
    """Check that the job gives each record once, or is refused where its parts are not whole."""
    refusal = outcome(left, spark)
    if whole:
        assert refusal is None, refusal
    if refusal is None:
        require_each_once(left, ALL)
    else:
        assert isinstance(refusal, TORN), refusal
        assert code_of(refusal) == 5


@pytest.mark.parametrize("tables", MOMENTS)
@pytest.mark.parametrize("checkpoint", MOMENTS)
def test_a_checkpoint_of_one_moment_with_tables_of_another_gives_each_record_once_or_a_refusal(
    moments: Moments, spark: SparkSession, tmp_path: Path, checkpoint: str, tables: str
) -> None:
    left = moments.put_together(tmp_path / "cell", checkpoint, tables, tables)
    require_all_or_torn(left, spark, whole=together(checkpoint, tables, tables))


@pytest.mark.parametrize(
    ("checkpoint", "target", "aside"),
    [
        (checkpoint, *tables)
        for checkpoint in ("none", "second", "begun", "third")
        for other in MOMENTS
        if other != checkpoint
        for tables in ((other, checkpoint), (checkpoint, other))
    ],
)
def test_a_target_of_one_moment_with_side_tables_of_another_gives_each_record_once_or_a_refusal(
    moments: Moments,
    spark: SparkSession,
    tmp_path: Path,
    checkpoint: str,
    target: str,
    aside: str,
) -> None:
    left = moments.put_together(tmp_path / "cell", checkpoint, target, aside)
    require_all_or_torn(left, spark, whole=together(checkpoint, target, aside))


@pytest.mark.parametrize(("tables", "lost"), [("first", [30]), ("second", [70]), ("third", [])])
def test_a_lost_checkpoint_is_gone_on_from_tables_of_any_moment(
    moments: Moments, spark: SparkSession, tmp_path: Path, tables: str, lost: list[int]
) -> None:
    left = moments.put_together(tmp_path / "cell", "none", tables, tables)
    assert outcome(left, spark, resume=True) is None
    # What comes late for a window that is left out is in no table.
    require_each_once(left, ALL, without=[*lost, 0])


Change = Callable[[Broker, str], None]


def cut_to(first: int) -> Change:
    """Let a topic lose its records before an offset."""
    return lambda broker, topic: broker.delete_records(topic, {0: first})


def made_again(records: Iterable[Record]) -> Change:
    """Put another topic of the same name in a topic's place."""

    def change(broker: Broker, topic: str) -> None:
        if topic in broker.topics():
            broker.delete_topic(topic)
        broker.create_topic(topic, partitions=1, retention_ms=-1)
        sent(broker.servers, topic, records)

    return change


def deleted(broker: Broker, topic: str) -> None:
    broker.delete_topic(topic)


FEW: list[Record] = [3, 17, 45]
MANY: list[Record] = [float(second) for second in range(0, 60, 2)]
TOPICS: list[tuple[str, Change, dict[int, Record] | None, set[str]]] = [
    ("cut where all is read", cut_to(5), {at: ALL[at] for at in ALL if at >= 5}, set(MOMENTS[1:])),
    ("cut past what is unread", cut_to(16), {at: ALL[at] for at in ALL if at >= 16}, {"third"}),
    ("made again with few", made_again(FEW), dict(enumerate(FEW)), set()),
    ("made again with the same", made_again(RECORDS), ALL, set()),
    ("made again with more", made_again(MANY), dict(enumerate(MANY)), set()),
    ("deleted", deleted, None, set()),
]
"""How the topic is changed, what it holds then, and from which moments the job goes on."""


@pytest.mark.timeout(900)
def test_a_topic_that_lost_records_or_was_made_again_is_read_from_its_start_or_refused(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    """One test, since what happens to a topic cannot be undone."""
    moments = Moments.made(spark, broker, "moments-of-a-topic", tmp_path / "moments")
    for number, (name, change, holds, go_on) in enumerate(TOPICS):
        change(broker, moments.left.topic)
        for moment in MOMENTS:
            for resume in (False, True):
                if resume and moment in ("none", "begun"):
                    continue
                cell = f"{name}, {moment}{', resumed' if resume else ''}"
                checkpoint = "none" if resume else moment
                left = moments.put_together(
                    tmp_path / f"{number}-{moment}-{resume}", checkpoint, moment, moment
                )
                refusal = outcome(left, spark, resume=resume)
                print(f"{cell}: {type(refusal).__name__}: {str(refusal)[:150]}")
                if refusal is not None:
                    assert isinstance(refusal, SourceError), f"{cell}: {refusal}"
                    assert code_of(refusal) == 3
                    assert moment not in go_on, cell
                    assert moment != "none" or holds is None, cell
                elif moment == "none":
                    assert holds is not None, f"{cell}: not refused"
                    require_each_once(left, holds)
                else:
                    assert moment in go_on, f"{cell}: not refused"
                    lost = {"first": [30], "second": [70]}.get(moment, [])
                    require_each_once(left, ALL, without=[*lost, 0] if resume else ())
