"""A checkpoint's identity files: one for each start, which that start alone writes."""

from __future__ import annotations

import re

from pyspark.sql import SparkSession

from ..errors import CheckpointError
from ..jvm import delete_file, names_in, read_bytes, write_whole
from .identity import Identity

FOLDER = "tidegate"
_NAME = re.compile(r"identity-(\d{6,})\.json")
_KEPT = 10


class EpochFiles:
    """The files `tidegate/identity-<epoch>.json` of a checkpoint.

    A start claims its epoch by making the next file, and writes no other: what a driver of an
    older epoch still writes changes nothing for those after it."""

    def __init__(self, spark: SparkSession, checkpoint: str) -> None:
        self.spark = spark
        self.path = checkpoint

    def file(self, epoch: int) -> str:
        """Return the path of an epoch's file."""
        return f"{self.path}/{FOLDER}/identity-{epoch:06d}.json"

    def newest(self) -> int:
        """Return the newest epoch that was claimed; 0 before the first."""
        return max(self._all(), default=0)

    def create(self, epoch: int) -> bool:
        """Claim an epoch, by a file that says no more; False where another start has it already."""
        return write_whole(self.spark, self.file(epoch), b"", replace=False)

    def write(self, identity: Identity) -> None:
        """Write the file of the identity's epoch, in place of the one that is there."""
        path = self.file(identity.epoch)
        write_whole(self.spark, path, identity.text().encode(), replace=True)

    def read(self) -> Identity | None:
        """Return the newest identity; None in a checkpoint that has none.

        A start that ended right after its claim has left an empty file, which is passed over.

        Raises:
            CheckpointError: for a file that is not whole.
        """
        for epoch in sorted(self._all(), reverse=True):
            content = read_bytes(self.spark, self.file(epoch))
            if content:
                return Identity.parse(content, self.file(epoch))
        return None

    def tidy(self, epoch: int) -> None:
        """Delete the files of starts long ago."""
        for old in self._all():
            if old <= epoch - _KEPT:
                delete_file(self.spark, self.file(old))

    def _all(self) -> list[int]:
        try:
            names = names_in(self.spark, f"{self.path}/{FOLDER}")
        except OSError as error:
            raise CheckpointError(f"{error}.", "a checkpoint that can be read.") from error
        return [int(found[1]) for found in map(_NAME.fullmatch, names) if found]
