"""`tidegate status`: the progress and output of each job below a folder, without Spark."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import pyarrow.parquet as pq
import typer
from pyarrow import ArrowInvalid
from pyarrow.fs import FileInfo, FileSelector, FileSystem, FileType
from rich.table import Column, Table

from ..checkpoint.lineage import CheckpointLineage, Rescaling
from ..checkpoint.lineage_files import LINEAGE_FILE_PATTERN, LINEAGE_FOLDER, parse_lineage_files
from ..checkpoint.spark_logs import read_consistently, require_recorded_logs
from ..commit.batch import Stamp, sum_counts
from ..errors import ArgumentError, TableMismatchError, TidegateError
from ..kafka.admin import Cluster
from ..paths import arrow_file_system, normalize_path
from ..replication import read_control_rows
from ..replication.replicated_tables import REPLICATION
from ..startup.swap_journal import JOURNAL_SUFFIX, SWAP_JOURNAL_FILE, SwapJournal
from ..telemetry.console import plain_console
from .kafka_options import Options

MAX_FOLDER_DEPTH = 4
"""How deep below the folder the command searches for tables."""

_LOG = "_delta_log"
_COMMIT = re.compile(r"(\d{20})\.json")
_TABLE_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\b.*\.parquet")
_CHECKPOINT_NAMES = {"commits", "metadata"}
_NUMBER = re.compile(r"\d+")
_REPLICATED_COLUMNS = (
    *("topic", "table", "state", "reason", "positions", "lag"),
    *("changes", "dead_letters", "skipped", "batch"),
)
_ROW_METRICS = ("numOutputRows", "numTargetRowsInserted")


@dataclass(frozen=True)
class StampedCommit:
    """A commit of a table that has a stamp: its time and number of rows."""

    version: int
    timestamp_ms: int
    stamp: Stamp
    rows: int


@dataclass(frozen=True)
class StampedTable:
    """The stamped commits of a table, in ascending order.

    log_complete: whether the log still contains version 0.
    newest_end: the latest window end in the table's statistics; None without windows.
    """

    path: str
    commits: Sequence[StampedCommit]
    log_complete: bool
    newest_end: str | None


@dataclass(frozen=True)
class CheckpointProgress:
    """The progress of a query.

    query: the id of the query.
    last_planned, last_committed: the latest planned and committed batch; -1 for none.
    start_offsets, end_offsets: the offsets at which the first batch starts and the last committed
        batch ends.
    watermark: in milliseconds since 1970; None without a watermark.
    has_lineage: whether a job of tidegate has started on the checkpoint.
    rescaling: an unfinished change of the number of state partitions.
    """

    path: str
    query: str
    last_planned: int
    last_committed: int
    start_offsets: Mapping[tuple[str, int], int]
    end_offsets: Mapping[tuple[str, int], int]
    watermark: int | None
    has_lineage: bool
    rescaling: Rescaling | None

    @property
    def offsets_read(self) -> int:
        """The number of offsets in the committed batches."""
        start = self.start_offsets
        return sum(end - start.get(partition, 0) for partition, end in self.end_offsets.items())

    @property
    def unfinished_batch(self) -> int | None:
        """The planned batch that is not committed."""
        return self.last_planned if self.last_planned > self.last_committed else None


@dataclass(frozen=True)
class DamagedFolder:
    """A table, a checkpoint or a journal that cannot be read, and why."""

    path: str
    fault: str


@dataclass(frozen=True)
class ArrowCheckpoint:
    """A checkpoint on a file system of Arrow."""

    files: FileSystem
    path: str

    def list_names(self, folder: str) -> list[str]:
        """Return the names in a folder; an empty list for a missing folder."""
        selector = FileSelector(f"{self.path}/{folder}", allow_not_found=True)
        return [entry.base_name for entry in self.files.get_file_info(selector)]

    def read_bytes(self, name: str) -> bytes | None:
        """Return the content of a file; None without such a file."""
        try:
            with self.files.open_input_stream(f"{self.path}/{name}") as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None

    def read_lineage(self) -> CheckpointLineage | None:
        """Return the lineage of the last complete batch; None for a checkpoint without one."""
        names = [n for n in self.list_names(LINEAGE_FOLDER) if LINEAGE_FILE_PATTERN.fullmatch(n)]
        paths = [f"{LINEAGE_FOLDER}/{name}" for name in sorted(names, reverse=True)]
        return parse_lineage_files({f"{self.path}/{p}": self.read_bytes(p) for p in paths})


class OutputFolder:
    """A folder of tables and checkpoints, in the local file system or an object store.

    damaged_folders: the tables, checkpoints and journals that the last scan could not read.
    swaps: the swaps that are in progress or were interrupted, by the path of their journal.

    Raises ArgumentError at construction if the folder does not exist.
    """

    def __init__(self, root: str) -> None:
        self.root = normalize_path(root)
        self.damaged_folders: list[DamagedFolder] = []
        self.swaps: dict[str, SwapJournal] = {}
        try:
            self._files, self._path = arrow_file_system(self.root)
            exists = self._files.get_file_info(self._path).type == FileType.Directory
        except (ArrowInvalid, OSError) as error:
            raise ArgumentError(f"cannot read {root}: {error}") from None
        if not exists:
            raise ArgumentError(
                f"missing folder: {self.root}",
                "the folder output.root of a job",
                "tidegate status DIR",
            )

    def scan(self) -> tuple[list[StampedTable], list[CheckpointProgress]]:
        """Return the tables with stamped commits, and the checkpoints.

        A damaged one does not prevent the others from being read.
        """
        self.damaged_folders = []
        self.swaps = {}
        tables: list[StampedTable] = []
        checkpoints: list[CheckpointProgress] = []
        for path, names in self._walk(self._path, MAX_FOLDER_DEPTH):
            for journal in sorted(name for name in names if name.endswith(JOURNAL_SUFFIX)):
                with self.collect_damage(f"{path}/{journal}"):
                    content = self._read_text(f"{path}/{journal}").encode()
                    swap = SWAP_JOURNAL_FILE.from_json(content, journal)
                    self.swaps[f"{path}/{journal}"] = swap
            with self.collect_damage(path):
                if _LOG in names:
                    tables.append(self._read_table(path))
                elif "offsets" in names or names >= _CHECKPOINT_NAMES:
                    checkpoints.append(self._read_checkpoint(path, names))
        job_queries = {commit.stamp.query for table in tables for commit in table.commits}
        for checkpoint in checkpoints:
            if checkpoint.query in job_queries and not checkpoint.has_lineage:
                with self.collect_damage(checkpoint.path):
                    raise ValueError(f"no lineage file is in {LINEAGE_FOLDER}")
        return [table for table in tables if table.commits], checkpoints

    @contextmanager
    def collect_damage(self, path: str) -> Iterator[None]:
        """Record a failure to read a folder."""
        try:
            yield
        except TidegateError as error:
            fault = ": ".join(filter(None, (error.problem, error.detail.rstrip("."))))
            self.damaged_folders.append(DamagedFolder(path, fault))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            self.damaged_folders.append(DamagedFolder(path, str(error)))

    def require_undamaged(self) -> None:
        """Raise TableMismatchError if the last scan has found damaged tables or checkpoints."""
        if self.damaged_folders:
            raise TableMismatchError(
                f"damaged below {self.root}: "
                f"{', '.join(each.path for each in self.damaged_folders)}",
                "; ".join(f"{each.path}: {each.fault}" for each in self.damaged_folders),
                "restore each from a copy; tidegate doctor JOB names the ways that are left "
                "without one",
            )

    def _walk(self, path: str, depth: int) -> Iterator[tuple[str, set[str]]]:
        entries: list[FileInfo] = []
        with self.collect_damage(path):
            entries = self._list_entries(path)
        names = {entry.base_name for entry in entries}
        yield path, names
        if depth == 0 or "offsets" in names:
            return
        for entry in entries:
            # A table's own folders can contain a checkpoint only if their name starts with "_".
            is_visited = _LOG not in names or entry.base_name.startswith("_")
            if entry.type == FileType.Directory and entry.base_name != _LOG and is_visited:
                yield from self._walk(entry.path, depth - 1)

    def _list_entries(self, path: str) -> list[FileInfo]:
        entries: list[FileInfo] = self._files.get_file_info(
            FileSelector(path, allow_not_found=True, recursive=False)
        )
        return sorted(entries, key=lambda entry: str(entry.path))

    def _read_text(self, path: str) -> str:
        with self._files.open_input_stream(path) as stream:
            return bytes(stream.read()).decode("utf-8", "replace")

    def _read_table(self, path: str) -> StampedTable:
        # deltalake would add 130 MB to every installation for this method, and it refuses tables
        # with features that it does not know.
        logs = [e for e in self._list_entries(f"{path}/{_LOG}") if _COMMIT.fullmatch(e.base_name)]
        commits: list[StampedCommit] = []
        window_ends: list[str] = []
        _require_complete_log([int(entry.base_name[:20]) for entry in logs])
        self._require_table_checkpoint(f"{path}/{_LOG}", int(logs[0].base_name[:20]))
        for entry in logs:
            actions = self._read_actions(entry)
            window_ends += [end for action in actions if (end := _window_end(action))]
            commit = _parse_commit(int(entry.base_name[:20]), actions)
            commits += [] if commit is None else [commit]
        log_complete = bool(logs) and int(logs[0].base_name[:20]) == 0
        return StampedTable(path, commits, log_complete, max(window_ends, default=None))

    def _require_table_checkpoint(self, log: str, oldest_commit: int) -> None:
        """Raise ValueError for a damaged newest checkpoint of a table, and for a missing one.

        A log without its first commits cannot be read without a checkpoint.
        """
        entries = [e for e in self._list_entries(log) if _TABLE_CHECKPOINT.fullmatch(e.base_name)]
        newest = max((int(entry.base_name[:20]) for entry in entries), default=-1)
        if newest < oldest_commit - 1:
            raise ValueError(
                f"{_LOG}/{oldest_commit - 1:020d}.json is missing, and no checkpoint has it"
            )
        for entry in entries:
            if int(entry.base_name[:20]) == newest:
                try:
                    with self._files.open_input_file(entry.path) as file:
                        pq.read_metadata(file)
                except (ArrowInvalid, OSError) as error:
                    raise ValueError(f"{_LOG}/{entry.base_name} is damaged: {error}") from error

    def _read_actions(self, entry: FileInfo) -> list[dict[str, Any]]:
        """Return the actions of a commit; raise ValueError for a damaged file."""
        try:
            lines = self._read_text(entry.path).splitlines()
            actions = [json.loads(line) for line in lines if line]
        except ValueError as error:
            raise ValueError(f"{_LOG}/{entry.base_name} is damaged: {error}") from error
        if not actions or not all(isinstance(action, dict) for action in actions):
            raise ValueError(f"{_LOG}/{entry.base_name} is damaged: it has no actions")
        return actions

    def _read_checkpoint(self, path: str, names: Collection[str]) -> CheckpointProgress:
        missing_names = sorted({"offsets", "metadata"} - set(names))
        if missing_names:
            raise ValueError(f"{', '.join(missing_names)} is missing")
        last_planned = self._newest_number(f"{path}/offsets")
        last_committed = self._newest_number(f"{path}/commits")
        if last_committed > last_planned:
            raise ValueError(
                f"commits/{last_committed} exists, offsets/{last_committed} is missing"
            )
        for log, number in (("offsets", last_planned), ("commits", last_committed)):
            if number >= 0 and not self._read_json_lines(f"{path}/{log}/{number}"):
                raise ValueError(f"{log}/{number} is damaged")
        query = self._read_query_id(f"{path}/metadata")
        lineage = self._require_recorded_files(path)
        commit_lines = self._read_json_lines(f"{path}/commits/{last_committed}")
        watermark = commit_lines[0].get("nextBatchWatermarkMs") if commit_lines else None
        initial_lines = [
            line
            for source in self._list_entries(f"{path}/sources")
            for line in self._read_json_lines(f"{source.path}/0")
        ]
        return CheckpointProgress(
            path=path,
            query=query,
            last_planned=last_planned,
            last_committed=last_committed,
            start_offsets=_kafka_offsets(initial_lines),
            end_offsets=_kafka_offsets(
                self._read_json_lines(f"{path}/offsets/{last_committed}")[1:]
            ),
            watermark=watermark or None,
            has_lineage=lineage is not None,
            rescaling=None if lineage is None else lineage.rescaling,
        )

    def _require_recorded_files(self, path: str) -> CheckpointLineage | None:
        """Return the lineage of a checkpoint; raise CheckpointError for changed or missing files.

        During a rescale, Spark writes files that are not recorded yet.
        """
        checkpoint = ArrowCheckpoint(self._files, path)
        logs, lineage = read_consistently(checkpoint, checkpoint.read_lineage)
        if lineage is not None and lineage.rescaling is None:
            require_recorded_logs(lineage, logs)
        return lineage

    def _read_query_id(self, path: str) -> str:
        try:
            return str(json.loads(self._read_text(path))["id"])
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"metadata is damaged: {error}") from error

    def _newest_number(self, path: str) -> int:
        names = [entry.base_name for entry in self._list_entries(path)]
        return max((int(name) for name in names if _NUMBER.fullmatch(name)), default=-1)

    def _read_json_lines(self, path: str) -> list[dict[str, Any]]:
        """Return the JSON objects of a Spark log file, whose first line is its version.

        A missing file has none.
        """
        if self._files.get_file_info(path).type != FileType.File:
            return []
        values = []
        for line in self._read_text(path).replace("\0", "").splitlines():
            try:
                value = json.loads(line.removeprefix("v1"))
            except ValueError:
                continue
            values += [value] if isinstance(value, dict) else []
        return values


def _require_complete_log(versions: Sequence[int]) -> None:
    """Raise ValueError for a log without commits, or with a gap between them."""
    if not versions:
        raise ValueError(f"{_LOG} has no commits")
    missing = sorted(set(range(versions[0], versions[-1])) - set(versions))
    if missing:
        raise ValueError(f"{_LOG}/{missing[0]:020d}.json is missing")


def _parse_commit(version: int, actions: Sequence[Mapping[str, Any]]) -> StampedCommit | None:
    infos = [action["commitInfo"] for action in actions if "commitInfo" in action]
    info: Mapping[str, Any] = infos[0] if infos else {}
    stamp = Stamp.from_json(info.get("userMetadata"))
    if stamp is None:
        return None
    metrics = info.get("operationMetrics") or {}
    rows = next((int(metrics[name]) for name in _ROW_METRICS if name in metrics), 0)
    return StampedCommit(version, int(info.get("timestamp") or 0), stamp, rows)


def _window_end(action: Mapping[str, Any]) -> str | None:
    """Return the latest window end in the statistics of an added file."""
    try:
        return str(json.loads(action["add"]["stats"])["maxValues"]["window"]["end"])
    except (KeyError, TypeError, ValueError):
        return None


def _kafka_offsets(sources: Sequence[Mapping[str, Any]]) -> dict[tuple[str, int], int]:
    """Return the offsets of Kafka partitions; ignore other sources."""
    return {
        (topic, int(part)): int(offset)
        for source in sources
        for topic, parts in source.items()
        if isinstance(parts, dict)
        for part, offset in parts.items()
        if _NUMBER.fullmatch(str(part)) and isinstance(offset, int)
    }


def relative_name(path: str, root: str) -> str:
    """Return a table's path below the root, or its name if it is the root.

    >>> relative_name("/data/jobs/views", "/data/jobs")
    'views'
    """
    return path.removeprefix(root.rstrip("/")).lstrip("/") or Path(path).name


Root = Annotated[str, typer.Argument(help="The folder of tables and checkpoints: output.root.")]
OptionalServers = Annotated[
    str | None, typer.Option(help="Brokers as host:port, to show the lag of each job.")
]
JsonOutput = Annotated[bool, typer.Option("--json", help="Print one JSON object per job.")]
_SIDE = ("dead_letters", "offset_gaps", "late")


@dataclass(frozen=True)
class JobStatus:
    """A job's tables, and its checkpoint if it is below the folder."""

    job: str
    query: str
    tables: Sequence[StampedTable]
    checkpoint: CheckpointProgress | None

    @property
    def last_commit(self) -> tuple[int, int]:
        """The time and the batch of the latest commit."""
        return max((c.timestamp_ms, c.stamp.batch) for table in self.tables for c in table.commits)

    @property
    def counts(self) -> dict[str, int]:
        """The filtered and discarded rows, the overflows, and the violations of each rule."""
        stamps = [commit.stamp for table in self.tables for commit in table.commits]
        # A batch has the same counts in each table, but overflows can be known only to the target.
        stamps.sort(key=lambda stamp: not stamp.output.startswith(_SIDE))
        by_batch = {stamp.batch: stamp.rare_counts for stamp in stamps}
        return dict(sorted(sum_counts(by_batch.values()).items()))

    def as_dict(self) -> dict[str, Any]:
        """Return the status for JSON."""
        values: dict[str, Any] = {
            "job": self.job,
            "query": self.query,
            "last_commit": _format_time(self.last_commit[0]),
            "tables": [row.__dict__ for row in table_rows(self)],
            "counts": self.counts,
        }
        checkpoint = self.checkpoint
        if checkpoint is None:
            names = ("checkpoint", "read", "batch", "unfinished_batch", "watermark")
            return values | dict.fromkeys(names)
        return values | {
            "checkpoint": checkpoint.path,
            "read": checkpoint.offsets_read,
            "batch": checkpoint.last_committed,
            "unfinished_batch": checkpoint.unfinished_batch,
            "watermark": checkpoint.watermark and _format_time(checkpoint.watermark),
        }


@dataclass(frozen=True)
class TableRow:
    """The commits of one output of a job to a table.

    is_partial: whether older commits were cleaned up and are missing from the counts.
    """

    path: str
    output: str
    commits: int
    rows: int
    last_batch: int
    is_partial: bool


def status(
    root: Root, servers: OptionalServers = None, option: Options = None, as_json: JsonOutput = False
) -> None:
    """Show the commits, offsets and watermark of each job below a folder.

    The command reads table logs and checkpoints as files; it does not start Spark. Damaged tables
    and checkpoints are listed last; the exit code is then 5.
    """
    folder = OutputFolder(root)
    job_statuses = group_by_job(*folder.scan())
    cluster = None if servers is None else Cluster(servers, option or ())
    if as_json:
        for job_status in job_statuses:
            tables = replicated_tables(folder, job_status, cluster)
            found = {"replicated_tables": [row for rows in tables for row in rows]}
            typer.echo(json.dumps({**job_status.as_dict(), **(found if tables else {})}))
        folder.require_undamaged()
        return
    console = plain_console(soft_wrap=True)
    for job_status in job_statuses:
        console.print(
            f"job {job_status.job}, last commit {_format_time(job_status.last_commit[0])}",
            style="bold",
        )
        console.print(_build_table(job_status, folder.root))
        counts = ", ".join(f"{name} {rows:,}" for name, rows in job_status.counts.items())
        if counts:
            console.print(f"Counts: {counts}.")
        for line in describe_checkpoint(job_status, cluster):
            console.print(line)
        for replicated in replicated_tables(folder, job_status, cluster):
            console.print(_build_replication(replicated))
            for row in replicated:
                if row["reason"]:
                    console.print(f"{row['topic']} is {row['state']}: {row['reason']}\n")
    for path, swap in folder.swaps.items():
        console.print(f"Tables are being swapped, as {path} records.")
        console.print(
            "If the command was interrupted, "
            f"tidegate replay JOB {swap.command_options} finishes it.\n"
        )
    folder.require_undamaged()
    if not job_statuses:
        console.print(f"No table below {folder.root} has commits of a job.")


def group_by_job(
    tables: Iterable[StampedTable], checkpoints: Iterable[CheckpointProgress]
) -> list[JobStatus]:
    """Return the jobs, each with its tables and checkpoint."""
    by_query = {one.query: one for one in checkpoints}
    tables_by_job: dict[tuple[str, str], list[StampedTable]] = {}
    for table in tables:
        for key in dict.fromkeys((c.stamp.job, c.stamp.query) for c in table.commits):
            commits = [c for c in table.commits if (c.stamp.job, c.stamp.query) == key]
            tables_by_job.setdefault(key, []).append(replace(table, commits=commits))
    job_statuses = (
        JobStatus(*key, logs, by_query.get(key[1])) for key, logs in tables_by_job.items()
    )
    return sorted(job_statuses, key=lambda one: (one.job, one.last_commit))


def table_rows(status: JobStatus) -> list[TableRow]:
    """Return one row per table and output; side outputs last."""
    rows = []
    for table in status.tables:
        for output in dict.fromkeys(commit.stamp.output for commit in table.commits):
            commits = [commit for commit in table.commits if commit.stamp.output == output]
            number = sum(commit.stamp.row_counts.get(output, commit.rows) for commit in commits)
            last = max(commit.stamp.batch for commit in commits)
            is_partial = not table.log_complete
            rows.append(TableRow(table.path, output, len(commits), number, last, is_partial))
    return sorted(rows, key=lambda row: (row.output.startswith(_SIDE), row.output))


def describe_checkpoint(status: JobStatus, cluster: Cluster | None = None) -> list[str]:
    """Return lines on the offsets, the watermark and unfinished work of a checkpoint."""
    checkpoint = status.checkpoint
    if checkpoint is None:
        return ["Its checkpoint is not below this folder: the offsets are unknown.", ""]
    topics = ", ".join(dict.fromkeys(topic for topic, _ in checkpoint.end_offsets))
    lines = [
        f"Read: {checkpoint.offsets_read:,} offsets of {topics or 'no topic'}, in batches 0 to "
        f"{checkpoint.last_committed}."
    ]
    if cluster is not None:
        lines.append(f"Waiting in the topics: {count_unread(checkpoint, cluster):,} offsets.")
    if checkpoint.watermark is not None:
        lines.append(
            f"Open: the watermark is {_format_time(checkpoint.watermark)}. Windows that end later "
            "stay open until newer events advance it."
        )
        ends = [table.newest_end for table in status.tables if table.newest_end]
        lines += [f"The latest emitted window ends {max(ends)}."] if ends else []
    if checkpoint.rescaling is not None:
        lines.append(
            "The state is being rescaled to "
            f"{checkpoint.rescaling.partitions_after} partitions. If the command was interrupted, "
            f"{checkpoint.rescaling.finish_command(checkpoint.path)} resumes it."
        )
    elif checkpoint.unfinished_batch is not None:
        lines.append(
            f"Batch {checkpoint.unfinished_batch} is not committed; the next start retries it."
        )
    return [*lines, ""]


def count_unread(checkpoint: CheckpointProgress, cluster: Cluster) -> int:
    """Return the number of unread offsets in the topics."""
    topics = {topic for topic, _ in checkpoint.end_offsets}
    return sum(_unread_by_topic(topics, checkpoint.end_offsets, cluster).values())


def _unread_by_topic(
    topics: Collection[str], read_until: Mapping[tuple[str, int], int], cluster: Cluster
) -> dict[str, int]:
    """Return the number of offsets of each topic that exist after those that were read."""
    partition_counts = cluster.topics()
    partitions = {name: range(partition_counts.get(name, 0)) for name in topics}
    start_offsets = cluster.start_offsets(partitions)
    unread = dict.fromkeys(topics, 0)
    for partition, end in cluster.end_offsets(partitions).items():
        first = max(read_until.get(partition, 0), start_offsets[partition])
        unread[partition[0]] += max(0, end - first)
    return unread


def replicated_tables(
    folder: OutputFolder, status: JobStatus, cluster: Cluster | None
) -> list[list[dict[str, Any]]]:
    """Return the states of the tables of each undamaged control table of a job.

    With a cluster, each has its lag: the number of offsets that its tables do not have.
    """
    found = []
    for table in status.tables:
        if any(commit.stamp.output == REPLICATION for commit in table.commits):
            rows: list[dict[str, Any]] = []
            with folder.collect_damage(table.path):
                rows = [
                    {**row, "positions": dict(row["positions"])}
                    for row in read_control_rows(table.path)
                ]
            if not rows:
                continue
            lags = {} if cluster is None else _lags(rows, cluster)
            rows = [{**row, "lag": lags.get(row["topic"])} for row in rows]
            found.append([{name: row[name] for name in _REPLICATED_COLUMNS} for row in rows])
    return found


def _lags(rows: Sequence[Mapping[str, Any]], cluster: Cluster) -> dict[str, int]:
    positions = {
        (row["topic"], partition): offset
        for row in rows
        for partition, offset in row["positions"].items()
    }
    return _unread_by_topic([row["topic"] for row in rows], positions, cluster)


def _build_replication(rows: Sequence[Mapping[str, Any]]) -> Table:
    titles = ("lag", "changes", "dead letters", "skipped", "last batch")
    table = Table(
        *("replicated table", "state"),
        *[Column(title, justify="right") for title in titles],
        box=None,
        pad_edge=False,
    )
    for row in rows:
        lag = "" if row["lag"] is None else f"{row['lag']:,}"
        counts = [f"{row[name]:,}" for name in ("changes", "dead_letters", "skipped")]
        table.add_row(row["table"], row["state"], lag, *counts, str(row["batch"]))
    return table


def _build_table(status: JobStatus, root: str) -> Table:
    right = [Column(title, justify="right") for title in ("commits", "rows written", "last batch")]
    table = Table("table", "output", *right, box=None, pad_edge=False)
    for row in table_rows(status):
        more = " or more" if row.is_partial else ""
        table.add_row(
            relative_name(row.path, root),
            row.output,
            f"{row.commits:,}{more}",
            f"{row.rows:,}{more}",
            str(row.last_batch),
        )
    return table


def _format_time(milliseconds: int) -> str:
    time = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return time.isoformat(timespec="seconds").replace("+00:00", "Z")
