"""A disk that is full or read-only: a clear error, and a restart that continues."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.delta_tables import rows
from tests.support.kafka_topics import pages_input, send_records
from tests.support.postgres_server import Server
from tests.support.record_rounds import Rounds
from tests.support.small_disks import filled, read_only, small_disk
from tidegate import Job, Summary, run
from tidegate.aggregates import count
from tidegate.errors import SetupError
from tidegate.process.exit_codes import exit_code
from tidegate.sinks import Append, FanOut, Mirror
from tidegate.spark.jars import project_root
from tidegate.spark.spark_errors import explain_disk_errors
from tidegate.telemetry.report.page import RunReport
from tidegate.telemetry.run_metrics import RunMetrics
from tidegate.telemetry.stats import write_summary
from tidegate.testing import Broker
from tidegate.testing.child_process import submit_environment
from tidegate.windows import Tumbling, WindowAggregation

pytestmark = [pytest.mark.broker, pytest.mark.crash]

SECONDS = range(40)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of two megabytes."""
    with small_disk(tmp_path / "small", 2) as disk:
        yield disk


def job(broker: Broker, topic: str, tables: Path, checkpoint: Path) -> Job:
    """Return a job that counts the pages of each four seconds, ten records a batch."""
    return Job(
        name="counts",
        inputs={"clicks": pages_input(broker.bootstrap_servers, topic, max_records=10)},
        transform=WindowAggregation(Tumbling("4 seconds"), by="page", aggs={"n": count()}),
        sink=Append(str(tables / "counts")),
        checkpoint=str(checkpoint / "checkpoint"),
    )


def is_stopped(job: Job, spark: SparkSession, disk: Path) -> bool:
    """Run a job, and return whether a full disk stopped it; the error must name the disk."""
    message = ""
    try:
        run(job, spark)
    except SetupError as error:
        message = f"{exit_code(error)}: {error}"
    assert not message or (
        message.startswith("7: a disk is full") and f"free under {disk}" in message
    )
    return bool(message)


@pytest.mark.draws("pages", short=[(0, 4)], long=[tuple(range(16)), tuple(range(8, 40, 2))])
@pytest.mark.parametrize("under", ["tables", "checkpoint"])
def test_a_full_disk_is_an_error_and_the_job_resumes_when_there_is_space(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    small: Path,
    under: str,
    pages: tuple[int, ...],
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    places = {"tables": tmp_path, "checkpoint": tmp_path, under: small}
    counting = job(broker, topic, **places)
    send_records(broker.bootstrap_servers, topic, SECONDS[:20])
    run(counting, spark)
    send_records(broker.bootstrap_servers, topic, SECONDS[20:])
    stopped = 0
    for left in pages:
        filler = filled(small, left)
        stopped += is_stopped(counting, spark, small)
        filler.unlink()
    assert stopped > 0
    run(counting, spark)
    wanted = Counter(second // 4 * 4 for second in SECONDS if second < 36)
    found = {row["window"]["start"].second: row["n"] for row in rows(places["tables"] / "counts")}
    assert found == wanted


@pytest.mark.parametrize("output", ["dead_letters", "late_rows"])
def test_a_full_disk_under_a_side_output_loses_no_row_and_doubles_none(
    output: str, spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, small: Path
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    paths = {output: str(small / output)}
    counting = replace(job(broker, topic, tmp_path, tmp_path), **paths)  # type: ignore[arg-type]
    servers = broker.bootstrap_servers
    send_records(servers, topic, [*SECONDS[:20], 1, "no record"])
    run(counting, spark)
    send_records(servers, topic, [2, "nor this", *SECONDS[20:]])
    filler = filled(small, 0)
    assert is_stopped(counting, spark, small)
    filler.unlink()
    run(counting, spark)
    offsets = [row["offset"] for row in rows(small / output)]
    assert sorted(offsets) == ([21, 23] if output == "dead_letters" else [20, 22])
    found = {row["window"]["start"].second: row["n"] for row in rows(tmp_path / "counts")}
    assert found == dict.fromkeys(range(0, 36, 4), 4)


def test_a_full_or_read_only_disk_under_the_batches_of_a_mirror_loses_no_row_and_doubles_none(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    small: Path,
    postgres: Server,
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    counting = job(broker, topic, tmp_path, tmp_path)
    columns = {"begin": "window.start", "page": "page", "n": "n"}
    path, store = small / "mirrored", postgres.store("full_disk")
    mirror = Mirror(str(path), store=store, key=["begin", "page"], columns=columns)
    counting = replace(counting, sink=FanOut(counting.sink, other_sinks=[mirror]))
    send_records(broker.bootstrap_servers, topic, SECONDS[:10])
    run(counting, spark)
    send_records(broker.bootstrap_servers, topic, SECONDS[10:20])
    filler = filled(small, 0)
    assert is_stopped(counting, spark, small)
    filler.unlink()
    run(counting, spark)
    send_records(broker.bootstrap_servers, topic, SECONDS[20:])
    with read_only(path), pytest.raises(SetupError, match="a folder is not writable") as refused:
        run(counting, spark)
    assert exit_code(refused.value) == 7
    assert str(path) in str(refused.value)
    run(counting, spark)
    expected = dict.fromkeys(range(0, 36, 4), 4)
    found = {row["window"]["start"].second: row["n"] for row in rows(tmp_path / "counts")}
    assert found == expected
    query = "SELECT extract(second FROM begin)::int, n FROM full_disk"
    assert sorted(postgres.run(query)) == sorted(map(list, expected.items()))


def test_a_report_on_a_full_disk_is_a_warning_and_a_summary_an_error_that_names_the_disk(
    small: Path, caplog: pytest.LogCaptureFixture
) -> None:
    page, summary = small / "run.html", small / "summary.json"
    with RunReport(RunMetrics(Summary(job="counts")), str(page), lambda: False):
        before = page.read_text()
        filler = filled(small, 0)
    assert f"cannot write the report {page}: OSError: " in caplog.text
    assert page.read_text() == before
    with pytest.raises(SetupError) as refused, explain_disk_errors([str(summary)]):
        write_summary(Summary(job="counts"), summary)
    assert f"0 bytes are free under {small}" in str(refused.value)
    assert sorted(small.iterdir()) == [filler, page]


FOLDERS = ("views", "views.dead_letters", "views.late", "views.checkpoint",
           "views.checkpoint/offsets", "views.checkpoint/commits", "views.checkpoint/state",
           "views.checkpoint/tidegate", "views/_delta_log", "views.late/_delta_log")  # fmt: skip


@pytest.mark.timeout(600)
@pytest.mark.draws("folders", short=[FOLDERS[1:4]], long=[FOLDERS], ids=lambda all: f"{len(all)}")
def test_a_read_only_folder_is_an_error_and_the_job_resumes_when_it_is_writable(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, folders: tuple[str, ...]
) -> None:
    rounds = Rounds(spark, broker, topic, tmp_path)
    rounds.add()
    run(rounds.job, spark)
    for name in folders:
        rounds.add()
        folder = tmp_path / name
        with read_only(folder), pytest.raises(SetupError) as refused:
            run(rounds.job, spark)
        assert exit_code(refused.value) == 7
        assert refused.value.problem.startswith("a folder is not writable"), name
        assert str(folder) in str(refused.value), name
        run(rounds.job, spark)
        rounds.require_each_once()


PROGRAM = """
import sys
from pathlib import Path

from tests.support.record_rounds import windows_job
from tests.support.small_disks import filled
from tidegate import run, spark_session
from tidegate.process.exit_codes import run_with_exit_code

servers, topic, root, disk, *pages = sys.argv[1:]
spark = spark_session("counts", master="local[2]", conf={"spark.local.dir": disk})
job = windows_job(servers, topic, Path(root))
for left in map(int, pages):
    filler = filled(Path(disk), left)
    print("exit code", run_with_exit_code(lambda: run(job, spark)))
    filler.unlink()
sys.exit(run_with_exit_code(lambda: run(job, spark)))
"""


@pytest.mark.timeout(600)
@pytest.mark.draws("pages", short=[(0, 2)], long=[tuple(range(0, 40, 3))])
def test_a_full_disk_under_the_local_folder_of_spark_is_named_and_the_job_resumes(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, pages: tuple[int, ...]
) -> None:
    rounds = Rounds(spark, broker, topic, tmp_path)
    rounds.add()
    arguments = (broker.bootstrap_servers, topic, str(tmp_path))
    with small_disk(tmp_path / "local", 512) as disk:
        process = subprocess.run(
            [sys.executable, "-c", PROGRAM, *arguments, str(disk), *map(str, pages)],
            capture_output=True,
            text=True,
            env=submit_environment({"PYTHONPATH": str(project_root())}),
        )
    codes = re.findall(r"exit code (\d+)", process.stdout)
    assert process.returncode == 0, process.stderr[-2_000:]
    assert (codes[0], set(codes) <= {"0", "7"}) == ("7", True), process.stderr[-2_000:]
    named = re.findall(rf"SetupError: a disk is full.*bytes are free under {disk}", process.stderr)
    assert len(named) == codes.count("7"), process.stderr[-2_000:]
    rounds.require_each_once()
