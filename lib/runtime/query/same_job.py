"""Whether a checkpoint is of this job: its name, and the steps that it has written."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ...commit.identity import Identity
from ...errors import ArgumentError, CheckpointError

ALL = "all"
"""Says in `recreate` that every step whose table is gone may begin anew."""


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
            "the steps that the checkpoint began with; others may be added.",
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


def begun_anew(noted: Identity, there: Mapping[str, bool], recreate: Sequence[str]) -> set[str]:
    """Return the steps whose table may be made anew.

    there: whether each of the job's steps has its table.

    Raises:
        ArgumentError: for a step whose table is not gone.
    """
    gone = {step for step in noted.tables if not there.get(step, True)}
    if ALL in recreate:
        return gone
    for step in recreate:
        if step not in gone:
            why = "is there" if step in noted.tables else "was never written"
            raise ArgumentError(
                f"recreate names {step!r}, whose table {why}.",
                f"steps whose table is gone: {', '.join(sorted(gone)) or 'none is'}.",
                "move the table's folder away, where it is to begin anew.",
            )
    return set(recreate)
