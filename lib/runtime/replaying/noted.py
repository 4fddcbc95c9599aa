"""What a replay is held against: noted once, when it begins, in its checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from ...commit.batch import Batch, planned
from ...commit.epochs import FOLDER, EpochFiles
from ...commit.hashed import fields_of, text_of
from ...commit.identity import NEVER, TableMark
from ...commit.plan_file import by_partition, first_offsets
from ...errors import CheckpointError
from ...jvm import WholeFiles
from ...offsets import Offsets
from ..job import Job
from .middle import Middle, Read, middle
from .places import NEW
from .start import Start
from .start import told as start_told

_FILE = "replay.json"
_KIND = "tidegate replay/1"


@dataclass(frozen=True, kw_only=True)
class Noted:
    """Where a job was, when a replay of it began: that is where the replay begins and ends.

    start, end: the offsets that the replay reads: what the job had read by its last whole batch,
        the end exclusive; or from the middle of that on.
    batch: the number of that batch in the job's checkpoint.
    watermark: the instant up to which it had closed windows, in milliseconds since 1970.
    tables: by step, every table as that batch left it.
    topics: by name, Kafka's id of each topic that it had read.
    asked: where the replay was asked to begin, as text; None for the job's own start.
    middle: what is known of the records before a start in the middle; None where there are none.
    """

    start: Offsets
    end: Offsets
    batch: int
    watermark: int
    tables: Mapping[str, TableMark]
    topics: Mapping[str, str]
    asked: str | None = None
    middle: Middle | None = None

    @property
    def closed(self) -> datetime:
        """The watermark as an instant."""
        return datetime.fromtimestamp(self.watermark / 1000, UTC)

    def text(self) -> str:
        """Return the file's content: JSON that bears a hash of itself."""
        return text_of(_KIND, asdict(self))

    @classmethod
    def parse(cls, content: bytes, path: str) -> Noted:
        """Return what a file holds.

        Raises:
            CheckpointError: for a file that is not whole.
        """
        found = fields_of(_KIND, content)
        if found is None:
            raise CheckpointError(
                f"{path} is damaged: its content does not have the hash that it bears.",
                "the file as the replay's first start wrote it.",
                "delete the replay's tables and its checkpoint, and replay again.",
            )
        tables = {step: TableMark(**mark) for step, mark in found["tables"].items()}
        places = {name: by_partition(found[name]) for name in ("start", "end")}
        begun = Middle.parse(found.get("middle"))
        return cls(**{**found, **places, "tables": tables, "middle": begun})


def noted(job: Job, checkpoint: str, spark: SparkSession, start: Start | None = None) -> Noted:
    """Return what a replay with this checkpoint began with; the first start writes it down.

    start: where it is to begin; None for where it began, or where the job did.

    Raises:
        CheckpointError: for a job without a whole batch, for a checkpoint of no replay, and for a
            replay that began somewhere else.
        And what `middle` raises.
    """
    files = WholeFiles(spark, f"{checkpoint}/{FOLDER}")
    path = f"{checkpoint}/{FOLDER}/{_FILE}"
    content = files.read(_FILE)
    begun = EpochFiles(spark, checkpoint).newest() > 0
    if content is None and begun:
        raise CheckpointError(
            f"{checkpoint} is there, and is no replay's: {path} is missing.",
            "no checkpoint there, or one that a replay has made.",
            "move it away, with its tables.",
        )
    before = None if content is None else Noted.parse(content, path)
    if before is not None and (start is None or before.asked == start_told(start)):
        return before
    if before is not None and begun:
        raise _begun_elsewhere(checkpoint, before, start)
    # What was noted and could not begin, as its records are gone, may begin somewhere else.
    found = _found(job, spark, start)
    files.write(_FILE, found.text().encode(), replace=before is not None)
    return found


def _begun_elsewhere(checkpoint: str, before: Noted, start: Start | None) -> CheckpointError:
    now = None if start is None else start_told(start)
    return CheckpointError(
        f"{checkpoint} is a replay from {before.asked or 'the start of the job'}, and is to be one "
        f"from {now}.",
        "one start for a replay, from its beginning to its end.",
        "leave --from out, and it goes on; or for a new replay, delete the folders that end in "
        f"{NEW!r} first.",
    )


def at_the_end(job: Job, at: Noted, spark: SparkSession) -> Batch:
    """Return the last whole batch of a replay.

    Raises:
        CheckpointError: for a replay that is not at its end, or has gone on past it.
    """
    checkpoint = job.places.checkpoint
    identity = EpochFiles(spark, checkpoint).read()
    number = NEVER if identity is None else identity.batch
    last = None if number == NEVER else batch_of(job, spark, number)
    where = {} if last is None else last.end
    for topic, parts in at.end.items():
        for part, end in parts.items():
            found = where.get(topic, {}).get(part)
            if found != end:
                raise CheckpointError(
                    f"{checkpoint} is at {found} of {topic}-{part}, and the replay ends at {end}.",
                    "a replay that is at its end.",
                    "tidegate replay JOB, which lets it go on; one that was switched, and has gone "
                    "on as the job, is no replay any more.",
                )
    assert last is not None  # A job that has read no topic is refused when a replay begins.
    return last


def batch_of(job: Job, spark: SparkSession, number: int) -> Batch:
    """Return what a job's checkpoint has planned for a batch, to be looked at."""
    checkpoint = job.places.checkpoint
    return planned(spark, checkpoint, job=job.name, query_id="", run_id="", number=number)


def _found(job: Job, spark: SparkSession, start: Start | None) -> Noted:
    """Return where a job is now; it may run meanwhile."""
    checkpoint = job.places.checkpoint
    identity = EpochFiles(spark, checkpoint).read()
    if identity is None or identity.batch == NEVER:
        raise CheckpointError(
            f"{checkpoint} has no whole batch of {job.name!r}.",
            "the checkpoint of a job that has written its tables: a replay is held against them.",
            "run the job first; or name its tables as they are.",
        )
    if identity.job != job.name:
        raise CheckpointError(
            f"{checkpoint} is of the job {identity.job!r}, and this one is called {job.name!r}.",
            "one name for a job and its replay.",
            f"name={identity.job!r}",
        )
    if identity.resumed is not None:
        raise CheckpointError(
            f"{checkpoint} goes on where a lost one ended, or is a replay that began in the "
            "middle: its tables hold more than it has read.",
            "a checkpoint that has read all that its tables hold.",
        )
    last = batch_of(job, spark, identity.batch)
    backlog = identity.backlog
    first = first_offsets(spark, checkpoint) if backlog is None else backlog.start
    watermark = round(last.watermark.timestamp() * 1000)
    found = Noted(
        start=first,
        end=last.end,
        batch=identity.batch,
        watermark=watermark,
        tables=identity.tables,
        topics=identity.topics,
    )
    if start is None:
        return found
    begins, before = middle(Read(job, identity, first, last.end, watermark), spark, start)
    return replace(found, start=begins, asked=start_told(start), middle=before)
