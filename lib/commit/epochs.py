"""A checkpoint's identity files: one for each start, which that start alone writes."""

from __future__ import annotations

import re
from contextlib import suppress

from pyspark.sql import SparkSession

from ..errors import CheckpointError
from ..jvm import WholeFiles
from .identity import Identity

FOLDER = "tidegate"
NAME = re.compile(r"identity-(\d{6,})\.json")
_KEPT = 10


class EpochFiles:
    """The files `tidegate/identity-<epoch>.json` of a checkpoint.

    A start claims its epoch by making the next file, and writes no other: what a driver of an
    older epoch still writes changes nothing for those after it.
    """

    def __init__(self, spark: SparkSession, checkpoint: str) -> None:
        self.spark = spark
        self.path = checkpoint
        self._files = WholeFiles(spark, f"{checkpoint}/{FOLDER}")

    def file(self, epoch: int) -> str:
        """Return the path of an epoch's file."""
        return f"{self.path}/{FOLDER}/{_name(epoch)}"

    def newest(self) -> int:
        """Return the newest epoch that was claimed; 0 before the first."""
        return max(self._all(), default=0)

    def create(self, epoch: int) -> bool:
        """Claim an epoch, by a file that says no more; False where another start has it already."""
        return self._files.write(_name(epoch), b"", replace=False)

    def succeed(self, identity: Identity) -> bool:
        """Claim the identity's epoch by the whole of its file; False where another start has it."""
        text = identity.text().encode()
        return self._files.write(_name(identity.epoch), text, replace=False)

    def write(self, identity: Identity) -> None:
        """Write the file of the identity's epoch, in place of the one that is there."""
        self._files.write(_name(identity.epoch), identity.text().encode(), replace=True)

    def read(self) -> Identity | None:
        """Return the identity of the last whole batch; None in a checkpoint that has none.

        That is the newest start's, unless a driver before it has finished the batch that it was
        in. A start that ended right after its claim has left an empty file, which is passed over.

        Raises:
            CheckpointError: for a newest file that is not whole.
        """
        found: list[Identity] = []
        for epoch in sorted(self._all(), reverse=True):
            content = self._content(epoch)
            if content and not found:
                found.append(Identity.parse(content, self.file(epoch)))
            elif content:
                with suppress(CheckpointError):
                    found.append(Identity.parse(content, self.file(epoch)))
        return max(found, key=lambda each: (each.batch, each.epoch), default=None)

    def tidy(self, epoch: int) -> None:
        """Delete the files of starts long ago."""
        for old in self._all():
            if old <= epoch - _KEPT:
                self._files.delete(_name(old))

    def _content(self, epoch: int) -> bytes | None:
        try:
            return self._files.read(_name(epoch))
        except OSError as error:
            raise CheckpointError(f"{error}.", "a checkpoint that can be read.") from error

    def _all(self) -> list[int]:
        try:
            names = self._files.names()
        except OSError as error:
            raise CheckpointError(f"{error}.", "a checkpoint that can be read.") from error
        return [int(found[1]) for found in map(NAME.fullmatch, names) if found]


def require_no_rescaling(noted: Identity | None, checkpoint: str) -> None:
    """Refuse a checkpoint of which the state is being written anew, in other partitions.

    Raises:
        CheckpointError: which says how to finish it.
    """
    if noted is not None and noted.rescaling is not None:
        begun = noted.rescaling
        raise CheckpointError(
            f"the state of {checkpoint} is being rescaled from {begun.before} to {begun.after} "
            "partitions, or that was killed.",
            "a checkpoint whose state is whole.",
            f"{begun.finish(checkpoint)}, which finishes it. Nothing was written.",
        )


def _name(epoch: int) -> str:
    return f"identity-{epoch:06d}.json"
