"""The fence: each start of a job claims the next epoch; one of an older epoch writes no more."""

from __future__ import annotations

from typing import Protocol

from ..errors import FencedError


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

    Asked right before each commit. What another start can do between this look and the commit is
    left to the table: both commit under one number, and the second of them meets the first.

    Raises:
        FencedError: which names both epochs.
    """
    newest = epochs.newest()
    if newest > epoch:
        raise FencedError(
            f"{getattr(epochs, 'path', 'the checkpoint')} is in epoch {newest}: another driver was "
            f"started on it after this one, which has epoch {epoch}.",
            "one driver at a time on a checkpoint, the one that was started last.",
            "leave the checkpoint to the other driver; nothing more was written by this one.",
        )
