"""Claims on the checkpoints of jobs that have ended, for operations that change their files."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..checkpoint.lineage import CheckpointLineage
from ..checkpoint.lineage_files import LineageFiles, require_no_rescaling
from ..errors import CheckpointError, FencedError


@dataclass(frozen=True)
class OfflineLease:
    """A claim on the checkpoint of an ended job; earlier drivers are fenced off.

    files: the lineage files of the checkpoint. lineage: the lineage that the claim has written.
    """

    files: LineageFiles
    lineage: CheckpointLineage

    @classmethod
    def acquire(cls, files: LineageFiles, lineage: CheckpointLineage) -> OfflineLease:
        """Claim the epoch of a lineage by writing its complete file in one step.

        If this process is killed, the checkpoint has the lineage as claimed.

        Raises:
            FencedError: if a driver has claimed the epoch.
        """
        if not files.write(lineage, replace=False):
            raise _fenced_error(files)
        return cls(files, lineage)

    @classmethod
    def claim_ended(cls, files: LineageFiles) -> OfflineLease:
        """Claim the checkpoint of a job that has ended.

        Raises:
            CheckpointError: if a driver may still write.
            FencedError: if a driver was started meanwhile.
        """
        lineage = require_ended(files, files.read())
        return cls.acquire(files, replace(lineage, epoch=lineage.epoch + 1))

    def require_not_fenced(self) -> None:
        """Raise FencedError if a driver has claimed the checkpoint since."""
        if self.files.newest_epoch() != self.lineage.epoch:
            raise _fenced_error(self.files)


def require_ended(files: LineageFiles, lineage: CheckpointLineage | None) -> CheckpointLineage:
    """Return the lineage of a checkpoint whose job has ended.

    Raises:
        CheckpointError: if a driver may still write, or a rescale is unfinished.
    """
    require_no_rescaling(lineage, files.path)
    if lineage is None or not lineage.released or files.newest_epoch() != lineage.epoch:
        raise CheckpointError(
            f"the job of {files.path} has not ended",
            "its driver runs, or was killed",
            "stop the job; if it was killed, start it once more and let it end",
        )
    return lineage


def _fenced_error(files: LineageFiles) -> FencedError:
    return FencedError(
        f"the claim on {files.path} was lost",
        "a driver of its job was started meanwhile",
        "stop that driver, then run the command again",
    )
