"""The same job over its log again, or a part of it, into tables beside its own."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from uuid import uuid4

from pyspark.sql import SparkSession

from ...commit import EPOCH, Batch
from ...commit.epochs import EpochFiles
from ...commit.identity import NEVER, Identity
from ...commit.origins import Resumed
from ...errors import CheckpointError
from ...sources.topics import client, require_same_topics, states_of
from ..job import Job
from ..query.gaps import require_there
from ..query.plan import changes, plan_of, told
from ..query.resume import starting_at
from ..query.run import run
from ..summary import Summary
from .beside import beside
from .end import End, cut_back
from .found import Held
from .held import held
from .middle import Middle
from .noted import Noted, noted
from .places import NEW
from .start import Start

_LOG = logging.getLogger(__name__)


def replay(
    job: Job, spark: SparkSession, *, ignore: Sequence[str] = (), start: Start | None = None
) -> Held | None:
    """Run a job that was changed over its log again, and compare what comes out.

    The job is the changed one, under the name, the checkpoint and the tables of the one that ran.
    It writes tables and a checkpoint beside these, under the same paths with ".replay" behind, and
    reads what the other had read when the replay began: from its first record, or from `start`, to
    the end of its last whole batch. The other is not touched, and may run on meanwhile. A replay
    that was killed, or stopped by SIGTERM, goes on when it is called again; one that is done
    compares again.

    A replay that begins in the middle has none of the state of before. So of a job that keeps state
    it has the results alone of which no row can be before the start: those after the newest event
    time there, by more than the transform's reach. These are compared, and a switch takes all
    others from the job. A job without state begins where the last of its batches before the start
    has ended, and all of its rows are compared.

    ignore: columns that are not compared, such as estimates.
    start: an aware datetime, which means the first record of each partition at that time or after
        it, by the records' timestamps; or {topic: {partition: offset}}, where a partition that is
        not named begins where the job began. None for where the job began.

    Returns what was compared, or None where it was stopped before its end.

    Raises:
        ArgumentError: for a job whose paths cannot be put elsewhere, or with an idle time-out; for
            a start that the job has not read, that leaves nothing to compare, or in the middle
            where it is not known which results are whole.
        CheckpointError: for a job that has not run, and for a replay that was begun with another
            plan or at another start.
        SourceError: where the topics no longer have all that the job had read.
        ColumnTypeError: for tables that cannot be compared.
        And what a run raises.
    """
    new = beside(job)
    at = noted(job, new.places.checkpoint, spark, start)
    last = EpochFiles(spark, new.places.checkpoint).read()
    if last is not None:
        _require_same_plan(new, last.plan)
    if last is None or last.batch == NEVER:
        _require_there(job, spark, at)
    if last is None and at.middle is not None:
        _begin(new, spark, at, at.middle)
    if _run(starting_at(new, spark, at.start), spark, at).stopped:
        return None
    return held(job, new, at, spark, ignore=ignore)


def _begin(new: Job, spark: SparkSession, at: Noted, before: Middle) -> None:
    """Let the replay's checkpoint begin as one that goes on where there was none of its state."""
    origin = Resumed(
        query=str(uuid4()), base=0, start=at.start, whole=before.whole, newest=before.newest
    )
    begun = Identity(
        job=new.name, epoch=1, plan=plan_of(new), topics=at.topics, resumed=origin, ended=True
    )
    EpochFiles(spark, new.places.checkpoint).succeed(begun)


def _run(job: Job, spark: SparkSession, at: Noted) -> Summary:
    """Run a job up to the noted end, or until it is asked to stop."""
    checkpoint = job.places.checkpoint
    while True:
        end = End(spark, checkpoint, at.end)
        done = run(job, spark, stop=end)
        if end.beyond is None:
            return done
        if not cut_back(spark, checkpoint, end.beyond, at.end):
            done.stopped = False
            return done
        _LOG.info("%s: batch %s ends where the job was: %s", job.name, end.beyond, at.end)


def _require_same_plan(new: Job, begun: Mapping[str, str]) -> None:
    """Refuse to go on with, or compare, what another configuration has given."""
    now = plan_of(new)
    changed = changes(begun, now)
    if changed:
        parts = "; ".join(told(part, begun.get(part), now.get(part)) for part in changed)
        raise CheckpointError(
            f"{new.places.checkpoint} was begun with another plan: {parts}.",
            "one plan for a replay, from its beginning to its end.",
            "the job as it was; or for a new replay, delete the folders that end in "
            f"{NEW!r} first.",
        )


def _require_there(job: Job, spark: SparkSession, at: Noted) -> None:
    """Refuse topics that were made again, or have lost some of what the job had read."""
    for given in job.inputs.values():
        source = given.reading.source
        named = set(at.end) if source.pattern else set(source.named)
        whole = Batch(
            job=job.name,
            query_id="",
            run_id="",
            number=0,
            offsets_hash="",
            start=at.start,
            end=at.end,
            watermark=EPOCH,
        )
        with client(spark, source) as asked:
            found = states_of(asked, source)
        known = {topic: at.topics[topic] for topic in named if topic in at.topics}
        require_same_topics(known, found)
        require_there(spark, source, whole.of(named))
