"""The doctor: run every check of a start, and more, without starting or changing anything."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pyspark.sql import SparkSession
from rich.table import Table
from rich.text import Text

from ..checkpoint.lineage_files import require_no_rescaling
from ..checkpoint.offset_log import last_planned_ends, parse_offset_log
from ..checkpoint.spark_logs import RESTORE_HINT
from ..commit.delta_commit import read_table_log
from ..commit.driver_lease import require_same_streams
from ..durations import duration_text, microseconds
from ..engine.maintenance import CatalogRegistrar
from ..engine.streams import build_streams
from ..errors import CheckpointError, SourceError, TidegateError
from ..job.job import Job
from ..jvm import KafkaClient, java_version, root_cause_text
from ..offsets import Offsets, iterate_partitions, merge_partitions, select_topics
from ..paths import local_path
from ..sources.topics import open_kafka_client
from ..spark.jars import locked_jar_hashes, project_root, session_jars
from ..spark.job_session import require_job_session
from ..spark.spark_errors import nearest_existing_folder, translate_error
from ..startup.environment import MIN_FREE_BYTES, is_reachable, table_paths, written_paths
from ..startup.preflight import Check, Preflight
from ..startup.start_checks import state_partitions, state_setting_differences
from ..telemetry.lag import measure_lag
from ..versions import spark_version
from .state_stores import STATE_ERRORS, list_state_stores, readable_checkpoint

_PACKAGES = ("tidegate", "pyspark", "delta-spark", "pyarrow", "pandas", "numpy", "pydantic")
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)", re.MULTILINE)
_SPARK_PREFIX = "spark/"
_LOG_FOLDERS = ("offsets", "commits")
_LOG_RETENTION = "delta.logRetentionDuration"
_APPEND_ONLY = "delta.appendOnly"
_DEFAULT_LOG_RETENTION = "30 days"
"""Delta's default."""
_HALVINGS = 10
"""The precision of the age of the oldest unread record: 0.3 %."""
_SECOND = 1_000_000
_WARNING_SHARE = 0.1
"""Warn if less than this share of the retention time remains."""


class CheckWarning(str):
    """A result that does not fail a start, but may stop the job later."""


@dataclass(frozen=True)
class Finding:
    """The result of one check; `error` if it would fail a start.

    >>> Finding("disk", CheckWarning("less than 1 GiB free")).status
    'warning'
    """

    check: str
    result: str
    error: TidegateError | None = None

    @property
    def status(self) -> str:
        """Return "ok", "warning" or "error"."""
        if self.error is not None:
            return "error"
        return "warning" if isinstance(self.result, CheckWarning) else "ok"


def render_findings(findings: Sequence[Finding]) -> Table:
    """Return the findings as a table for a terminal."""
    colours = {"ok": "green", "warning": "yellow", "error": "red"}
    table = Table("check", "", "result")
    for each in findings:
        # rich would parse square brackets in paths and messages as markup.
        table.add_row(Text(each.check), Text(each.status, colours[each.status]), Text(each.result))
    return table


def require_no_errors(findings: Sequence[Finding]) -> None:
    """Raise the first error of the findings."""
    for each in findings:
        if each.error is not None:
            raise each.error


def _run_check(
    name: str, check: Callable[[], str], previous_findings: Sequence[Finding]
) -> Finding:
    try:
        return Finding(name, check())
    except Exception as failure:
        error = failure if isinstance(failure, TidegateError) else translate_error(failure)
        for each in previous_findings:
            if str(each.error) == str(error):
                return Finding(name, f"not checked: same error as {each.check}", error)
        return Finding(name, str(error), error)


def examine_job(
    job: Job, spark: SparkSession, *, resume_from_table: bool = False, recreate: Sequence[str] = ()
) -> list[Finding]:
    """Run every check of a start, and checks of what may stop the job later.

    Nothing is started, written or claimed. A failed check does not stop the others: a finding with
    an `error` would fail a start, a finding with a `CheckWarning` would not.

    The arguments are those of `run`.
    """
    preflight = Preflight(job, spark, resume_from_table=resume_from_table, recreate=recreate)
    checks: list[Check] = [
        ("versions", partial(_check_versions, spark)),
        ("settings", partial(_check_settings, spark)),
        ("jars", partial(_check_jars, spark)),
        ("disk", partial(_check_disk_space, job, spark)),
        *[(f"log {output}", partial(_check_log, preflight, output)) for output in table_paths(job)],
        *preflight.checks(),
        *_outlook_checks(preflight),
    ]
    findings: list[Finding] = []
    for name, check in checks:
        findings.append(_run_check(name, check, findings))
    return findings


def _outlook_checks(preflight: Preflight) -> Iterator[Check]:
    """Return the checks of what may stop the job later."""
    job, spark = preflight.job, preflight.spark
    yield "catalog", CatalogRegistrar(job, spark).require_free_names
    for output, path in table_paths(job).items():
        yield f"properties {output}", partial(_check_table_properties, spark, path)
    for name, job_input in job.inputs.items():
        if is_reachable(job_input.source.bootstrap_servers):
            yield f"retention {name}", partial(_check_headroom, preflight, name)
    yield "streams", partial(_check_streams, preflight)
    yield "state", partial(_check_state, preflight)
    yield "last start", partial(_check_last_start, preflight)
    folder = local_path(job.locations.checkpoint)
    if folder is not None:
        yield "checksums", partial(_check_checksum_files, folder, preflight)


def _check_versions(spark: SparkSession) -> str:
    installed = {}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            installed[package] = version(package)
    versions = [f"{name} {number}" for name, number in installed.items()]
    text = ", ".join([*versions, f"Java {java_version(spark)}"])
    lock = project_root() / "requirements.lock"
    if not lock.is_file():
        return f"{text}; installed as a package, without requirements.lock"
    locks = (lock, lock.with_name(f"requirements-{spark_version()}.lock"))
    locked = dict(pin for file in locks for pin in _PIN.findall(file.read_text(encoding="utf-8")))
    mismatches = [
        f"{name} {number} instead of {locked[name]}"
        for name, number in installed.items()
        if locked.get(name, number) != number
    ]
    if mismatches:
        return CheckWarning(
            f"{text}; requirements.lock differs: {', '.join(mismatches)}; run make setup"
        )
    return f"{text}; as in requirements.lock"


def _check_settings(spark: SparkSession) -> str:
    require_job_session(spark)
    return "none that a job refuses"


def _check_jars(spark: SparkSession) -> str:
    jars = {jar.name: jar for jar in session_jars(spark)}
    locked = {
        name.removeprefix(_SPARK_PREFIX): digest
        for name, digest in locked_jar_hashes().items()
        if name.startswith(_SPARK_PREFIX)
    }
    locked_jars = {name: jar for name, jar in jars.items() if name in locked}
    if not locked_jars:
        return "provided by the session; not compared with jars.lock"
    problems = [
        *(
            f"{jar} has changed"
            for name, jar in locked_jars.items()
            if _sha256(jar) != locked[name]
        ),
        *(f"{name} is missing" for name in sorted(locked.keys() - locked_jars.keys())),
    ]
    if problems:
        return CheckWarning(f"jars.lock differs: {', '.join(problems)}; run make setup")
    others = len(jars) - len(locked_jars)
    others_text = f", and {others} others" if others else ""
    return f"{len(locked_jars)} as in jars.lock, by SHA-256{others_text}"


def _sha256(jar: Path) -> str | None:
    path = Path(str(jar).removeprefix("file:"))
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


def _check_log(preflight: Preflight, output: str) -> str:
    """Return the version of a table, whose log is read by itself: others can be damaged.

    A job that appends rows does not read the complete log, but readers of its table do.
    """
    log = preflight.read_table_log(output)
    if log.id is None:
        return "no table yet"
    with preflight.explain_damaged_log(output):
        return f"version {log.version}, {log.count_files():,} data files"


def _check_disk_space(job: Job, spark: SparkSession) -> str:
    """Return the free space on each disk that the job writes to, and the unwritable folders."""
    paths = written_paths(job, spark)
    folders = [folder for path in paths if (folder := nearest_existing_folder(path))]
    free_space: dict[int, str] = {}
    is_low = False
    for folder in folders:
        free_bytes = shutil.disk_usage(folder).free
        is_low = is_low or free_bytes < MIN_FREE_BYTES
        text = f"{free_bytes / 1024**2:,.0f} MiB free under {folder}"
        free_space.setdefault(folder.stat().st_dev, text)
    text = "; ".join(free_space.values()) or "no local folder"
    unwritable = dict.fromkeys(str(each) for each in folders if not os.access(each, os.W_OK))
    if unwritable:
        return CheckWarning(f"{text}; not writable: {', '.join(unwritable)}")
    return CheckWarning(f"{text}; less than {MIN_FREE_BYTES / 1024**3:.0f} GiB") if is_low else text


def _check_table_properties(spark: SparkSession, path: str) -> str:
    """Return the properties of a table that can disturb a job.

    Raises TableError for a table that does not retain its transaction ids.
    """
    log = read_table_log(spark, path)
    if log.id is None:
        return "no table yet"
    state = log.require_txn_retention()
    warnings = []
    retention = state.property(_LOG_RETENTION)
    if retention is not None and _is_shorter_than_default(retention):
        warnings.append(
            f"{_LOG_RETENTION} = {retention}: a job cannot repeat a batch that started earlier, "
            "since the table's log no longer has its stamp"
        )
    if (state.property(_APPEND_ONLY) or "").lower() == "true":
        warnings.append(f"{_APPEND_ONLY} = true: sinks that merge, and --resume-from-table, fail")
    return CheckWarning("; ".join(warnings)) if warnings else "compatible"


def _check_last_start(preflight: Preflight) -> str:
    lineage = preflight.inspection.lineage
    if lineage is None:
        return "none"
    if lineage.released:
        return f"epoch {lineage.epoch}, ended"
    return CheckWarning(
        f"epoch {lineage.epoch}, not ended: its driver runs, or was killed; a new start fences it"
    )


def _check_streams(preflight: Preflight) -> str:
    """Return the number of streams of each input, which must be those of the checkpoint.

    Raises CheckpointError for another number, or if `idle_timeout` was added or removed.
    """
    job, spark, inspection = preflight.job, preflight.spark, preflight.inspection
    streams = build_streams(job, spark)
    counts = {name: len(of_input) for name, of_input in streams.items()}
    checkpoint = job.locations.checkpoint
    if inspection.lineage is not None:
        require_same_streams(inspection.lineage, counts, checkpoint)
    planned = last_planned_ends(spark, checkpoint)
    heartbeats = sum(
        each.heartbeats is not None for of_input in streams.values() for each in of_input
    )
    topic_streams = sum(bool(ends) for ends in planned)
    # A query that reads an input twice plans each of its sources twice.
    is_read_once = topic_streams == sum(counts.values())
    if is_read_once and len(planned) != topic_streams + heartbeats:
        change = "added" if heartbeats > len(planned) - topic_streams else "removed"
        raise CheckpointError(
            f"idle_timeout was {change} since the first start of {checkpoint}",
            "it adds a stream to the query, and the number of streams is fixed.",
            "restore the previous idle_timeout of each input; or use a new checkpoint and new "
            "tables.",
        )
    return ", ".join(f"{name}: {number}" for name, number in counts.items())


def _check_state(preflight: Preflight) -> str:
    """Return the size of the state, which is read completely, and differences of its settings.

    Raises CheckpointError for state that cannot be read, and during a rescale.
    """
    logs, spark = preflight.inspection.logs, preflight.spark
    require_no_rescaling(preflight.inspection.lineage, logs.path)
    # Before the first complete batch there is none: a start computes that of the batch again.
    partitions = state_partitions(logs)
    if partitions is None:
        return "no state"
    text = f"{_count_state_rows(spark, logs.path):,} rows in {partitions} partitions"
    differences = state_setting_differences(spark, logs)
    return CheckWarning("; ".join([text, *differences])) if differences else text


def _count_state_rows(spark: SparkSession, checkpoint: str) -> int:
    folder = f"{checkpoint}/state"
    rows = 0
    try:
        with readable_checkpoint(checkpoint) as location:
            for store in list_state_stores(spark, location):
                folder = f"{checkpoint}/state/{store.operator}"
                for number in store.missing_partitions(spark, location):
                    raise CheckpointError(
                        f"the state in {folder} is incomplete",
                        f"{folder}/{number} is missing, one of {store.partitions} partitions.",
                        RESTORE_HINT,
                    )
                rows += store.read_rows(spark, location).count()
    except STATE_ERRORS as error:
        raise CheckpointError(
            f"the state in {folder} cannot be read", root_cause_text(error), RESTORE_HINT
        ) from error
    return rows


def _check_checksum_files(checkpoint: Path, preflight: Preflight) -> str:
    """Return the checksum files that a killed writer has left without their file.

    When Spark writes the file, it mistakes such a checksum for a concurrent query.
    """
    orphan_files = [
        str(file)
        for log in _LOG_FOLDERS
        for file in sorted((checkpoint / log).glob(".*.crc"))
        if not (file.parent / file.name[1:].removesuffix(".crc")).exists()
    ]
    if not orphan_files:
        return "no orphans"
    lineage = preflight.inspection.lineage
    is_running = lineage is not None and not lineage.released
    return CheckWarning(
        f"left by a killed run: {', '.join(orphan_files)}; delete them while the job is "
        f"stopped{', after checking that it does not run' if is_running else ''}"
    )


def _is_shorter_than_default(retention: str) -> bool:
    with suppress(TidegateError):
        duration = microseconds(retention.lower().removeprefix("interval "))
        return duration < microseconds(_DEFAULT_LOG_RETENTION)
    return False


def _check_headroom(preflight: Preflight, name: str) -> str:
    """Return the number of unread records, and when the broker may delete the first of them.

    The time is known for topics with a retention time; a size limit has none. Raises SourceError if
    unread records were deleted.
    """
    source = preflight.job.inputs[name].source
    topics = preflight.inspection.topic_states.get(name, {})
    read_offsets = select_topics(_last_read_offsets(preflight), topics)
    if not read_offsets:
        return "no records read yet"
    try:
        with open_kafka_client(preflight.spark, source) as kafka:
            return describe_headroom(kafka, read_offsets)
    except OSError as error:
        return CheckWarning(f"not checked: {error}")


def describe_headroom(kafka: KafkaClient, read_offsets: Offsets) -> str:
    """Return the unread records and their remaining retention on a broker."""
    lag = measure_lag(kafka, read_offsets, int(time.time() * 1000), halvings=_HALVINGS)
    lost = [
        f"{topic}-{part} from {at} to {at - lag.headroom_rows[topic, part]}"
        for topic, part, at in iterate_partitions(read_offsets)
        if lag.headroom_rows[topic, part] < 0
    ]
    if lost:
        raise SourceError(
            f"unread records were deleted from the topic: {'; '.join(lost)}",
            "they were older than the retention of the topic",
            "continue without them: on_data_loss = 'record'; or read the topic into new tables",
        )
    (topic, part), distance = min(lag.headroom_rows.items(), key=lambda entry: entry[1])
    parts = [
        f"{sum(lag.rows.values()):,} offsets unread, retention deletes {distance:,} read ones "
        f"before them in {topic}-{part}"
    ]
    is_near = False
    for topic, limit in kafka.retention(list(read_offsets)).items():
        if limit.bytes is not None:
            parts.append(f"{topic} retains {limit.bytes:,} bytes per partition")
        if topic not in lag.retention_seconds:
            continue
        retention, remaining = lag.retention_seconds[topic], lag.headroom_seconds[topic]
        text = f"{topic} retains records for {duration_text(int(retention) * _SECOND)}"
        if any(lag.rows[topic, part] for part in read_offsets[topic]):
            is_near = is_near or remaining < retention * _WARNING_SHARE
            left = duration_text(max(0, int(remaining)) * _SECOND)
            parts.append(f"{text}, the oldest unread one for another {left}")
        else:
            parts.append(f"{text}; all are read")
    text = "; ".join(parts)
    return CheckWarning(f"{text}: run the job, or increase the retention") if is_near else text


def _last_read_offsets(preflight: Preflight) -> Offsets:
    logs = preflight.inspection.logs
    if logs.last_committed not in logs.offsets_contents:
        return {}
    path = f"{logs.path}/offsets/{logs.last_committed}"
    _, ends = parse_offset_log(path, logs.offsets_contents[logs.last_committed])
    return merge_partitions(ends, lambda _, later: later)
