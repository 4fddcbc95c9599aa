"""An operation on a full or read-only disk: a clear error, and a second call that finishes it."""

from __future__ import annotations

import io
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.cli.test_cli import invoke
from tests.crash.test_delta_change_feed_kill import VERSIONS, ChangedTable
from tests.crash.test_erase_kill import ANNA, WHERE, left, sent
from tests.crash.test_erase_kill import views as users_job
from tests.crash.test_redrive_kill import Redrive
from tests.engine.test_offset_gaps import copied_offsets, copy_job, lost_offsets, offset_counts
from tests.support.checkpoint_files import THIRD, WINDOWS, JobFiles
from tests.support.delta_tables import rows
from tests.support.erasure_scenario import paths_with_subject
from tests.support.kafka_topics import START, pages_input, send_records
from tests.support.raw_records import produce
from tests.support.small_disks import filled, read_only, small_disk
from tidegate import Job, merge_late_rows, replay, run
from tidegate.aggregates import count
from tidegate.jobs.job_command import run_replay, run_swap
from tidegate.jvm import clear_table_cache
from tidegate.operations.rescale import plan_rescale
from tidegate.operations.rescale import rescale as rescale_state
from tidegate.process.exit_codes import run_with_exit_code
from tidegate.sinks import CorrectedWindows
from tidegate.testing import Broker
from tidegate.windows import Tumbling, WindowAggregation

pytestmark = [pytest.mark.broker, pytest.mark.crash, pytest.mark.timeout(600)]


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of eight megabytes."""
    with small_disk(tmp_path / "small", 8) as disk:
        yield disk


@dataclass(frozen=True)
class Operation:
    """An operation below a folder.

    call: does it; returns its exit code and output. folder: one of those that it writes to.
    require_exact: requires the rows of an undisturbed operation.
    """

    call: Callable[[], tuple[int, str]]
    folder: Path
    require_exact: Callable[[], None]


@dataclass(frozen=True)
class Place:
    """Where an operation is prepared.

    disk: a folder for the files whose disk becomes full. root: a folder for the others.
    """

    spark: SparkSession
    broker: Broker
    topic: str
    root: Path
    disk: Path


def in_process(work: Callable[[], object]) -> Callable[[], tuple[int, str]]:
    """Return a call of a function as of a command, with its exit code and the error it prints."""

    def call() -> tuple[int, str]:
        with redirect_stderr(io.StringIO()) as errors:
            code = run_with_exit_code(work)
        return code, errors.getvalue()

    return call


def redriving(place: Place) -> Operation:
    redrive = Redrive(place.broker, place.topic, place.disk, place.spark)
    log = Path(f"{redrive.path}.dead_letters.redriven")
    return Operation(partial(invoke, *redrive.command), log, redrive.require_each_once)


def erasing(place: Place) -> Operation:
    spark, broker, topic = place.spark, place.broker, place.topic
    broker.create_topic(topic, retention_ms=-1)
    root = place.disk / "lake"
    job = users_job(broker, topic, root)
    sent(broker, topic, ANNA, "ben")
    produce(broker.bootstrap_servers, topic, [f"#{ANNA}".encode(), b"#carl"])
    run(job, spark)

    def require_exact() -> None:
        assert paths_with_subject(root) == []
        clear_table_cache(spark)
        sent(broker, topic, "dora")
        run(job, spark)
        assert left(root) == ["ben", "dora"]
        assert [row["value"] for row in rows(root / "views.dead_letters")] == [b"#carl"]

    return Operation(
        partial(invoke, "erase", str(root), "--where", WHERE[0]), root / "views", require_exact
    )


def rescaling(place: Place) -> Operation:
    files = JobFiles.create(place.spark, place.broker, place.topic, place.disk)
    checkpoint = str(files.checkpoint)
    rescale_state(place.spark, plan_rescale(place.spark, checkpoint, 5))

    def require_exact() -> None:
        send_records(place.broker.bootstrap_servers, place.topic, THIRD)
        run(files.job(), place.spark)
        assert files.window_counts() == WINDOWS

    command = partial(invoke, "rescale", checkpoint, "--to", "3")
    return Operation(command, files.checkpoint, require_exact)


def replaying(place: Place) -> Operation:
    files = JobFiles.create(place.spark, place.broker, place.topic, place.disk)
    job = files.job()
    replay_command = in_process(partial(run_replay, job, place.spark, (), as_json=True))

    def require_exact() -> None:
        # To the replay, which is one batch, no record of the second run is late.
        comparison = replay(job, place.spark)
        assert comparison is not None
        different = comparison.differences
        assert (different.expected_rows, different.different, different.missing) == (6, 1, 0)
        run_swap(job, place.spark, back=False)
        send_records(place.broker.bootstrap_servers, place.topic, THIRD)
        run(job, place.spark)
        assert files.window_counts() == {**WINDOWS, 0: 3}

    def call() -> tuple[int, str]:
        code, output = replay_command()
        # The comparison finds the row that differs.
        return (0, output) if code == 10 else (code, output)

    return Operation(call, files.root / "views.replay", require_exact)


def swapping(place: Place) -> Operation:
    files = JobFiles.create(place.spark, place.broker, place.topic, place.disk)
    job = files.job()
    replay(job, place.spark)
    is_swapped = False

    def swap() -> None:
        nonlocal is_swapped
        if not is_swapped:
            run_swap(job, place.spark, back=False)
        is_swapped = True

    def require_exact() -> None:
        send_records(place.broker.bootstrap_servers, place.topic, THIRD)
        run(job, place.spark)
        assert files.window_counts() == {**WINDOWS, 0: 3}

    return Operation(in_process(swap), files.root, require_exact)


def publishing(place: Place) -> Operation:
    changed = ChangedTable(place.spark, place.broker, place.topic, place.disk)

    def require_exact() -> None:
        # Each failed call may have sent a version that it could not record.
        changed.require_each_version_once(resent=VERSIONS)

    return Operation(partial(invoke, *changed.command), place.disk / "changelog", require_exact)


def recording_gaps(place: Place) -> Operation:
    spark, broker, topic = place.spark, place.broker, place.topic
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    send_records(broker.bootstrap_servers, topic, range(15))
    gaps = place.disk / "t.offset_gaps"
    job = copy_job(broker, topic, place.root, "record", offset_gaps=str(gaps))
    run(job, spark)
    send_records(broker.bootstrap_servers, topic, range(20))
    broker.delete_records(topic, {0: 18})

    def require_exact() -> None:
        assert copied_offsets(place.root) == offset_counts((0, 0, 15), (0, 18, 35))
        assert lost_offsets(place.disk) == offset_counts((0, 15, 18))

    return Operation(in_process(partial(run, job, spark)), gaps, require_exact)


@dataclass(frozen=True)
class Corrections:
    """A job whose windows late records correct, after a run; the log of its results is apart."""

    place: Place
    log: Path
    first: list[int]

    def __post_init__(self) -> None:
        broker, topic = self.place.broker, self.place.topic
        broker.create_topic(topic, partitions=1, retention_ms=-1)
        self.send(self.first)
        run(self.job, self.place.spark)

    def send(self, seconds: list[int]) -> None:
        send_records(self.place.broker.bootstrap_servers, self.place.topic, seconds)

    @property
    def job(self) -> Job:
        servers, views = self.place.broker.bootstrap_servers, str(self.place.root / "views")
        windows = WindowAggregation(Tumbling("10 seconds"), by="page", aggs={"n": count()})
        return Job(
            name="corrected",
            inputs={"pages": pages_input(servers, self.place.topic, max_records=4)},
            transform=windows,
            sink=CorrectedWindows(views, aggregation=windows, log=str(self.log)),
            allowed_lateness="1 minute",
        )

    def require_each_once(self, seconds: list[int]) -> None:
        """Require the closed windows of these records in the table and as the last of the log."""
        expected = Counter(second // 10 * 10 for second in seconds)
        table = [row for row in rows(self.place.root / "views") if row["final"]]
        results = {(row["window"]["start"] - START).seconds: row["n"] for row in table}
        assert results == {start: n for start, n in expected.items() if start + 10 <= max(seconds)}
        assert len(table) == len(results)
        versions: dict[datetime, list[tuple[int, int]]] = defaultdict(list)
        for row in rows(self.log):
            versions[row["window"]["start"]].append((row["version"], row["new"]["n"]))
        for logged in versions.values():
            assert sorted(version for version, _ in logged) == [*range(1, len(logged) + 1)]
        last = {(start - START).seconds: max(logged)[1] for start, logged in versions.items()}
        assert last == results


def correcting(place: Place) -> Operation:
    first, second = [1, 12, 25, 31], [42, 15, 3, 55, 61, 27, 33, 75]
    corrections = Corrections(place, place.disk / "corrections", first)
    corrections.send(second)
    work = partial(run, corrections.job, place.spark)
    check = partial(corrections.require_each_once, first + second)
    return Operation(in_process(work), corrections.log, check)


def merging(place: Place) -> Operation:
    records = [1, 12, 25, 31, *range(300, 308), 5, 14, 308, 309]
    corrections = Corrections(place, place.disk / "corrections", records)
    work = partial(merge_late_rows, corrections.job, place.spark)
    check = partial(corrections.require_each_once, records)
    return Operation(in_process(work), corrections.log, check)


OPERATIONS = (
    *(redriving, erasing, rescaling, replaying, swapping, publishing),
    *(recording_gaps, correcting, merging),
)


@pytest.mark.draws("pages", short=[(0, 5)], long=[tuple(range(12)), tuple(range(12, 60, 4))])
@pytest.mark.parametrize("prepare", OPERATIONS)
def test_a_full_disk_stops_an_operation_which_finishes_when_there_is_space(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    small: Path,
    prepare: Callable[[Place], Operation],
    pages: tuple[int, ...],
) -> None:
    operation = prepare(Place(spark, broker, topic, tmp_path, small))
    stopped = 0
    for left_pages in pages:
        filler = filled(small, left_pages)
        code, output = operation.call()
        filler.unlink()
        assert code in (0, 7), output
        if code == 7:
            stopped += 1
            assert "a disk is full" in output
            assert f"bytes are free under {small}" in output
    assert stopped > 0
    code, output = operation.call()
    assert code == 0, output
    operation.require_exact()


@pytest.mark.draws("prepare", short=[redriving, recording_gaps], long=OPERATIONS)
def test_a_read_only_folder_stops_an_operation_which_finishes_when_it_is_writable(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    prepare: Callable[[Place], Operation],
) -> None:
    operation = prepare(Place(spark, broker, topic, tmp_path, tmp_path))
    operation.folder.mkdir(exist_ok=True)
    with read_only(operation.folder):
        code, output = operation.call()
    assert code == 7, output
    assert "a folder is not writable" in output
    assert str(operation.folder) in output
    code, output = operation.call()
    assert code == 0, output
    operation.require_exact()
