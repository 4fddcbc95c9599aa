"""The state of a checkpoint, written anew by Spark in other partitions, under the fence."""

from __future__ import annotations

from dataclasses import replace

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ...commit.epochs import EpochFiles
from ...commit.fence import require_newest
from ...commit.identity import Identity, Rescaling
from ...commit.logs import Logs, digest, read_logs
from ...commit.noted_logs import next_watermark
from ...commit.plan_file import parsed
from ...errors import CheckpointError, FencedError
from ...jvm import delete_folder, innermost, names_in, repartition_state
from ..process.local_files import bare_checkpoint
from ..query.partitions import partitions
from .state import Plan


def rescale(spark: SparkSession, plan: Plan) -> None:
    """Put the state of a checkpoint into other partitions, exactly as it is.

    Spark 4.2 writes it anew as one more batch, which has the offsets and the watermark of the last
    one. What is under way is noted in the identity file before; until it is done no job starts on
    the checkpoint. Killed, it is finished by calling it again.

    Raises:
        FencedError: where a driver was started meanwhile.
        CheckpointError: where Spark cannot write the state anew, or has written something else.
    """
    if not plan.needed:
        return
    files = EpochFiles(spark, plan.checkpoint)
    mine = _claimed(files, plan)
    if plan.batch not in read_logs(spark, plan.checkpoint).committed:
        try:
            with bare_checkpoint(spark, plan.checkpoint):
                repartition_state(spark, plan.checkpoint, plan.after)
        except (PySparkException, Py4JError) as error:
            raise CheckpointError(
                f"Spark could not write the state of {plan.checkpoint} anew: {innermost(error)}",
                "state that can be read, and room for a second copy of it.",
                f"tidegate rescale {plan.checkpoint} --to {plan.after} again, once the cause is "
                "mended; or restore the checkpoint as a whole from a copy.",
            ) from error
    logs = read_logs(spark, plan.checkpoint)
    _require_written(plan, logs)
    _tidy(spark, plan)
    require_newest(files, mine.epoch)
    files.write(_noted(mine, plan, logs))
    files.tidy(mine.epoch)


def _claimed(files: EpochFiles, plan: Plan) -> Identity:
    """Claim the next epoch, by an identity that says what is under way."""
    assert plan.before is not None
    noted = plan.identity
    # Of a rescale that was killed, starts that were refused may have claimed epochs since.
    epoch = (files.newest() if plan.resumes else noted.epoch) + 1
    begun = Rescaling(batch=plan.batch, before=plan.before, after=plan.after)
    mine = replace(noted, epoch=epoch, ended=False, rescaling=begun)
    # Whole at once: a start after this one reads it, and one before it has the epoch already.
    if not files.succeed(mine):
        raise FencedError(
            f"{files.path}: a driver was started on it meanwhile.",
            "a job that has ended.",
            "stop that driver.",
        )
    return mine


def _require_written(plan: Plan, logs: Logs) -> None:
    """Refuse a batch of Spark's that is anything but the last one in other partitions."""
    last = plan.batch - 1
    new = plan.batch
    whole = logs.newest == logs.last == new and partitions(logs) == plan.after
    if whole:
        before, after = (
            parsed(f"{logs.path}/offsets/{at}", logs.offsets[at])[1] for at in (last, new)
        )
        marks = [next_watermark(f"{logs.path}/commits/{at}", logs.commits[at])
                 for at in (last, new)]  # fmt: skip
        whole = before == after and marks[0] == marks[1]
    if not whole:
        raise CheckpointError(
            f"{logs.path}: batch {new} is not batch {last} in {plan.after} partitions.",
            "the batch as Spark 4.2 writes it.",
            "restore the checkpoint as a whole from a copy.",
        )


def _tidy(spark: SparkSession, plan: Plan) -> None:
    """Delete the folders of partitions that are no more, which nothing would ever clean up."""
    for operator in plan.operators:
        folder = f"{plan.checkpoint}/state/{operator}"
        left = [int(name) for name in names_in(spark, folder) if name.isdecimal()]
        for number in sorted(left, reverse=True):
            if number >= plan.after:
                delete_folder(spark, f"{folder}/{number}")


def _noted(mine: Identity, plan: Plan, logs: Logs) -> Identity:
    new = plan.batch
    after = mine.after(
        new, digest(logs.offsets[new]), {}, query=mine.query or logs.query or "", latest=None
    )
    after = after.committed(new, digest(logs.commits[new]))
    return replace(after, rescaling=None, ended=True)
