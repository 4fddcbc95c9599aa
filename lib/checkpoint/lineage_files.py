"""The lineage files of a checkpoint, one for each start, and the fencing of earlier drivers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress

from pyspark.sql import SparkSession

from ..errors import CheckpointError, FencedError
from ..jvm import AtomicFiles
from .lineage import CheckpointLineage

LINEAGE_FOLDER = "tidegate"
LINEAGE_FILE_PATTERN = re.compile(r"lineage-(\d{6,})\.json")
_MAX_FILES = 10


class LineageFiles:
    """The files `tidegate/lineage-<epoch>.json` of a checkpoint.

    A start claims its epoch by creating the next file, and writes to that file only. A driver of an
    earlier epoch cannot change the lineage of a later one.
    """

    def __init__(self, spark: SparkSession, checkpoint: str) -> None:
        self.spark = spark
        self.path = checkpoint
        self._files = AtomicFiles(spark, f"{checkpoint}/{LINEAGE_FOLDER}")

    def file_path(self, epoch: int) -> str:
        """Return the path of the file of an epoch."""
        return f"{self.path}/{LINEAGE_FOLDER}/{_file_name(epoch)}"

    def newest_epoch(self) -> int:
        """Return the newest claimed epoch; 0 before the first."""
        return max(self._epochs(), default=0)

    def create(self, epoch: int) -> bool:
        """Claim an epoch with an empty file; return False if another start has it."""
        return self._files.write(_file_name(epoch), b"", replace=False)

    def write(self, lineage: CheckpointLineage, *, replace: bool = True) -> bool:
        """Write the file of the lineage's epoch; return False if it exists and may not be replaced.

        Without `replace`, this claims the epoch.
        """
        content = lineage.to_json().encode()
        return self._files.write(_file_name(lineage.epoch), content, replace=replace)

    def read(self) -> CheckpointLineage | None:
        """Return the lineage of the last complete batch; None for a checkpoint without one.

        It is the lineage of the newest start, unless an earlier driver has finished another batch
        since. The empty file of a start that failed right after its claim is ignored.

        Raises CheckpointError for a damaged newest file.
        """
        with _raising_checkpoint_errors(self.path):
            contents = {
                self.file_path(epoch): self._files.read(_file_name(epoch))
                for epoch in sorted(self._epochs(), reverse=True)
            }
        return parse_lineage_files(contents)

    def delete_unwritten_claims(self) -> None:
        """Delete claims without a lineage, in a checkpoint on which no driver can start."""
        for epoch in self._epochs():
            if not self._files.read(_file_name(epoch)):
                self._files.delete(_file_name(epoch))

    def delete_old_files(self, epoch: int) -> None:
        """Delete the files of old starts."""
        for old_epoch in self._epochs():
            if old_epoch <= epoch - _MAX_FILES:
                self._files.delete(_file_name(old_epoch))

    def _epochs(self) -> list[int]:
        with _raising_checkpoint_errors(self.path):
            names = self._files.list_names()
        return [int(match[1]) for match in map(LINEAGE_FILE_PATTERN.fullmatch, names) if match]


def parse_lineage_files(contents: Mapping[str, bytes | None]) -> CheckpointLineage | None:
    """Return the lineage of the last complete batch from all lineage files, the newest first.

    contents: the content of each file by path; None for a file that was deleted meanwhile.

    Raises CheckpointError for a damaged newest file.
    """
    lineages: list[CheckpointLineage] = []
    for path, content in contents.items():
        if content:
            with suppress(CheckpointError) if lineages else nullcontext():
                lineages.append(CheckpointLineage.from_json(content, path))
    return max(lineages, key=lambda each: (each.last_batch, each.epoch), default=None)


def require_no_rescaling(lineage: CheckpointLineage | None, checkpoint: str) -> None:
    """Refuse a checkpoint with an unfinished change of the number of state partitions.

    Raises CheckpointError, with the command that finishes it.
    """
    if lineage is not None and lineage.rescaling is not None:
        rescaling = lineage.rescaling
        raise CheckpointError(
            f"the state of {checkpoint} is being rescaled from {rescaling.partitions_before} to "
            f"{rescaling.partitions_after} partitions",
            "a rescale is running or was killed.",
            f"{rescaling.finish_command(checkpoint)}, which finishes it. Nothing was written.",
        )


def _file_name(epoch: int) -> str:
    return f"lineage-{epoch:06d}.json"


@contextmanager
def _raising_checkpoint_errors(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CheckpointError(
            f"the checkpoint {path} cannot be read", f"{error}.", "make the file system available."
        ) from error


def claim_next_epoch(files: LineageFiles) -> int:
    """Claim the next epoch, and return it."""
    while True:
        epoch = files.newest_epoch() + 1
        if files.create(epoch):
            return epoch


def require_newest_epoch(files: LineageFiles, epoch: int) -> None:
    """Refuse to continue after a later start has claimed the checkpoint.

    Each commit calls it within its transaction. A start that claims the checkpoint after the call
    also commits to each table, which makes the transaction fail with a conflict.

    Raises:
        FencedError: with both epochs.
        CheckpointError: if the claim of this start, and so the checkpoint, was deleted.
    """
    newest_epoch = files.newest_epoch()
    path = files.path
    if newest_epoch < epoch:
        raise CheckpointError(
            f"{path} is in epoch {newest_epoch}, but this driver has claimed epoch {epoch}",
            "the checkpoint was deleted or replaced while its job was running.",
            "restore it as it was; or start the job again with --resume-from-table. Nothing more "
            "was written.",
        )
    if newest_epoch > epoch:
        raise FencedError(
            f"{path} is in epoch {newest_epoch}: another driver has claimed it after this one, "
            f"which has epoch {epoch}",
            "the job was started a second time on its checkpoint.",
            "nothing, if the other driver is to continue; this one has written nothing more.",
        )
