"""The fence: each start of a job claims the next epoch; one of an older epoch writes no more."""

from __future__ import annotations

from typing import Protocol

from ..errors import CheckpointError, FencedError


class Epochs(Protocol):
    """Where a checkpoint's epochs are kept, or a model of it."""

    def newest(self) -> int:
        """Return the newest epoch that was claimed; 0 before the first."""

    def create(self, epoch: int) -> bool:
        """Claim an epoch; False where another start has it already."""


def claimed(epochs: Epochs) -> int:
    """Claim the next epoch, and return it."""
    while True:
        epoch = epochs.newest() + 1
        if epochs.create(epoch):
            return epoch


def require_newest(epochs: Epochs, epoch: int) -> None:
    """Refuse to go on where a later start has claimed the checkpoint.

    Asked within each commit's transaction. A start that claims it after this look makes a commit of
    its own in each table, which the transaction then meets.

    Raises:
        FencedError: which names both epochs.
        CheckpointError: where the claim of this start is gone, and the checkpoint with it.
    """
    newest = epochs.newest()
    if newest < epoch:
        raise CheckpointError(
            f"{getattr(epochs, 'path', 'the checkpoint')} is in epoch {newest}, and this driver "
            f"has claimed epoch {epoch}: it was deleted or replaced under a job that runs.",
            "a checkpoint that stays while its job runs.",
            "put it back as it was; or start the job again with --resume-from-table. Nothing more "
            "was written.",
        )
    if newest > epoch:
        raise FencedError(
            f"{getattr(epochs, 'path', 'the checkpoint')} is in epoch {newest}: another driver was "
            f"started on it after this one, which has epoch {epoch}.",
            "one driver at a time on a checkpoint, the one that was started last.",
            "leave the checkpoint to the other driver; nothing more was written by this one.",
        )
