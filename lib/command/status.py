"""`tidegate status`: where the records of each job below a folder went, by what its commits say."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Column, Table

from ..runtime.process.exit_codes import guarded
from .kafka import Cluster, Options
from .logs import Checkpoint, Folder, TableLog, name_of

Root = Annotated[str, typer.Argument(help="The folder below which the tables are: output.root.")]
Asked = Annotated[
    str | None, typer.Option(help="Brokers as host:port, to tell how much waits in the topics.")
]
Machine = Annotated[bool, typer.Option("--json", help="Print one JSON object a job.")]
_SIDE = ("dead", "gaps", "late")


@dataclass(frozen=True)
class JobStatus:
    """One job's tables, and its checkpoint where that is below the folder too."""

    job: str
    query: str
    tables: Sequence[TableLog]
    checkpoint: Checkpoint | None

    @property
    def last(self) -> tuple[int, int]:
        """When the newest of its commits was made, and of which batch that is."""
        return max((c.at, c.stamp.batch) for table in self.tables for c in table.commits)

    def as_dict(self) -> dict[str, Any]:
        """Return what is known, for JSON."""
        at = self.checkpoint
        return {
            "job": self.job,
            "query": self.query,
            "last_commit": _moment(self.last[0]),
            "tables": [row.__dict__ for row in rows(self)],
            "checkpoint": None if at is None else at.path,
            "read": None if at is None else at.read,
            "batch": None if at is None else at.done,
            "unfinished_batch": at.begun if at is not None and at.begun > at.done else None,
            "watermark": None if at is None or at.watermark is None else _moment(at.watermark),
        }


@dataclass(frozen=True)
class TableRow:
    """What a step of a job wrote to a table: commits, rows, and the batch of the last one.

    some: whether older commits have been cleaned up, so that there were more.
    """

    path: str
    step: str
    commits: int
    rows: int
    last_batch: int
    some: bool


def status(
    root: Root, servers: Asked = None, option: Options = None, as_json: Machine = False
) -> None:
    """Tell where the records of each job below a folder went, from what its commits say.

    Nothing is started: the tables' logs and the checkpoints are read as files.
    """

    def work() -> None:
        folder = Folder(root)
        found = jobs(*folder.found())
        if as_json:
            for one in found:
                typer.echo(json.dumps(one.as_dict()))
            return
        console = Console(highlight=False, soft_wrap=True)
        cluster = None if servers is None else Cluster(servers, option or ())
        for one in found:
            console.print(f"job {one.job}, last commit {_moment(one.last[0])}", style="bold")
            console.print(_table(one, folder.root))
            for line in told(one, cluster):
                console.print(line)
        if not found:
            console.print(f"No table below {folder.root} has a commit of a job.")

    raise typer.Exit(guarded(work))


def jobs(tables: Iterable[TableLog], checkpoints: Iterable[Checkpoint]) -> list[JobStatus]:
    """Return the jobs that wrote the tables, each with the tables that it wrote."""
    by_query = {one.query: one for one in checkpoints}
    written: dict[tuple[str, str], list[TableLog]] = {}
    for table in tables:
        for key in dict.fromkeys((c.stamp.job, c.stamp.query) for c in table.commits):
            written.setdefault(key, []).append(_of(table, *key))
    found = [
        JobStatus(job, query, logs, by_query.get(query)) for (job, query), logs in written.items()
    ]
    return sorted(found, key=lambda one: (one.job, one.last))


def rows(status: JobStatus) -> list[TableRow]:
    """Return what each step wrote, the side tables last."""
    found = []
    for table in status.tables:
        for step in dict.fromkeys(commit.stamp.step for commit in table.commits):
            own = [commit for commit in table.commits if commit.stamp.step == step]
            number = sum(commit.stamp.rows.get(step, commit.rows) for commit in own)
            last = max(commit.stamp.batch for commit in own)
            found.append(TableRow(table.path, step, len(own), number, last, not table.whole))
    return sorted(found, key=lambda row: (row.step.startswith(_SIDE), row.step))


def told(status: JobStatus, cluster: Cluster | None = None) -> list[str]:
    """Return what the checkpoint says: what was read, what is open, what is not finished."""
    at = status.checkpoint
    if at is None:
        return ["Its checkpoint is not below this folder, so that what was read is not known.", ""]
    topics = ", ".join(dict.fromkeys(topic for topic, _ in at.offsets))
    lines = [f"Read: {at.read:,} offsets of {topics or 'no topic'}, in batches 0 to {at.done}."]
    if cluster is not None:
        lines.append(f"Waiting in the topics: {waiting(at, cluster):,} offsets.")
    if at.watermark is not None:
        lines.append(
            f"Open: the watermark is {_moment(at.watermark)}. Results that end later wait until "
            "newer events move it past their end."
        )
        ends = [table.newest_end for table in status.tables if table.newest_end]
        lines += [f"The newest window that is out ends {max(ends)}."] if ends else []
    if at.rescaling is not None:
        lines.append(
            f"Its state is being spread over {at.rescaling.after} partitions, or that was killed: "
            f"{at.rescaling.finish(at.path)} finishes it."
        )
    elif at.begun > at.done:
        lines.append(f"Batch {at.begun} is begun and not finished; the next start goes on with it.")
    return [*lines, ""]


def waiting(at: Checkpoint, cluster: Cluster) -> int:
    """Return how many offsets of the topics are not read yet."""
    there = cluster.topics()
    partitions = {name: range(there.get(name, 0)) for name in {topic for topic, _ in at.offsets}}
    ends = cluster.ends(partitions)
    begins = cluster.begins(partitions)
    return sum(
        max(0, end - max(at.offsets.get(place, 0), begins[place])) for place, end in ends.items()
    )


def _of(table: TableLog, job: str, query: str) -> TableLog:
    own = [c for c in table.commits if (c.stamp.job, c.stamp.query) == (job, query)]
    return TableLog(table.path, own, table.whole, table.newest_end)


def _table(status: JobStatus, root: str) -> Table:
    right = [Column(title, justify="right") for title in ("commits", "rows written", "last batch")]
    shown = Table("table", "step", *right, box=None, pad_edge=False)
    for row in rows(status):
        more = " or more" if row.some else ""
        shown.add_row(
            name_of(row.path, root),
            row.step,
            f"{row.commits:,}{more}",
            f"{row.rows:,}{more}",
            str(row.last_batch),
        )
    return shown


def _moment(milliseconds: int) -> str:
    at = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")
