"""Whether a checkpoint is of this job: its name, and the steps that it has written."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ...commit.identity import Identity
from ...errors import ArgumentError, CheckpointError

ALL = "all"
"""Says in `recreate` that every step whose table is gone may begin anew."""


def require_none_added(noted: Identity, steps: Mapping[str, str], recreate: Sequence[str]) -> None:
    """Refuse a step of the sink that would lack the batches so far, unless that is asked for.

    steps: the paths of the sink's tables by step, but of those that it makes out of the others.
    recreate: the steps that may begin with the next batch.

    Raises:
        CheckpointError: which names the first such step.
    """
    silent = [step for step in sorted(added(noted, steps)) if step not in recreate]
    if not silent:
        return
    step = silent[0]
    has = ", ".join(map(repr, noted.steps or ()))
    raise CheckpointError(
        f"step {step!r} ({steps[step]}) has none of the batches so far, which end with batch "
        f"{noted.finished.stop - 1}: it would lack their rows.",
        f"the steps that have them: {has}.",
        "a new checkpoint and new tables, which get all that the topic still has; or --recreate "
        f"{step}, which begins it with the next batch. Nothing was written.",
    )


def added(noted: Identity, steps: Collection[str]) -> set[str]:
    """Return the sink's steps that have none of the batches so far."""
    if noted.steps is None or not noted.written:
        return set()
    return set(steps) - set(noted.steps)


def require_same_job(noted: Identity, name: str, checkpoint: str, steps: Collection[str]) -> None:
    """Refuse a checkpoint of another name, or one that has written a step which is not there.

    Raises CheckpointError.
    """
    if noted.job != name:
        raise renamed(noted.job, name, checkpoint)
    known = {step: mark.path for step, mark in noted.tables.items() if step not in steps}
    if known:
        lost = ", ".join(f"{step!r} ({path})" for step, path in known.items())
        raise CheckpointError(
            f"this checkpoint has written the steps {lost}, which the job no longer has; it "
            f"writes {', '.join(map(repr, steps))}.",
            "the steps that the checkpoint has written.",
            "the sink as it was; for another one a new checkpoint and new tables. Nothing was "
            "written.",
        )


def renamed(old: str, new: str, checkpoint: str) -> CheckpointError:
    """Return the error for a checkpoint of a job that had another name."""
    return CheckpointError(
        f"{checkpoint} is of the job {old!r}, and this one is called {new!r}.",
        "one name for as long as a checkpoint is used: commits are told apart by it.",
        f"name={old!r}; for another name a new checkpoint and new tables. Nothing was written.",
    )


def begun_anew(
    noted: Identity, there: Mapping[str, bool], recreate: Sequence[str], new: Collection[str]
) -> set[str]:
    """Return the steps whose table may be made anew.

    there: whether each of the job's steps has its table. new: those that were `added`.

    Raises:
        ArgumentError: for a step whose table is not gone, and which is not new either.
    """
    gone = {step for step in noted.tables if not there.get(step, True)}
    if ALL in recreate:
        return gone
    for step in recreate:
        if step not in gone and step not in new:
            why = "is there" if step in noted.tables else "was never written"
            raise ArgumentError(
                f"recreate names {step!r}, whose table {why}.",
                f"steps whose table is gone: {', '.join(sorted(gone)) or 'none is'}.",
                "move the table's folder away, where it is to begin anew.",
            )
    return set(recreate)
