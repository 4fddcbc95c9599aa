"""The jobs of the tables have ended, and stay so until a person is forgotten."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from ...commit.epochs import EpochFiles, require_no_rescaling
from ...commit.identity import Identity
from ...commit.kept import REPLAY, require_kept
from ...commit.once import untouched
from ...errors import CheckpointError, FencedError
from .outside import TOPIC
from .report import Outside


@dataclass(frozen=True)
class Claims:
    """The checkpoints that were claimed, each with its identity."""

    spark: SparkSession
    held: Sequence[tuple[EpochFiles, Identity]]

    @classmethod
    def of(cls, spark: SparkSession, checkpoints: Iterable[str], *, look: bool = False) -> Claims:
        """Claim checkpoints, so that no driver of before writes any more; with `look`, none.

        Raises CheckpointError where a driver may still write, and ReplayMismatchError for a table
        that was put back: its log, which says so, may be removed.
        """
        found = []
        for path in checkpoints:
            files = EpochFiles(spark, path)
            identity = files.read()
            if identity is None and not files.newest():
                continue
            if look and identity is not None:
                found.append((files, identity))
                continue
            require_no_rescaling(identity, path)
            if identity is None or not identity.ended or files.newest() != identity.epoch:
                raise CheckpointError(
                    f"{path} has not ended: its driver runs, or was killed.",
                    "jobs that have ended, while rows are deleted and files removed.",
                    "stop the job; one that was killed is started once more, and ends.",
                )
            found.append((files, identity))
        if look:
            return cls(spark, found)
        for _, identity in found:
            _require_kept(spark, identity)
        return cls(spark, [(files, _claimed(files, identity)) for files, identity in found])

    def require_known(self, paths: Iterable[str]) -> None:
        """Refuse tables that a query wrote whose checkpoint is not held; raises CheckpointError."""
        for path in paths:
            for app_id in untouched(self.spark, path).writers():
                if query_of(app_id) not in self.queries | {REPLAY}:
                    raise CheckpointError(
                        f"{path} was written by {app_id}, and the checkpoint of that query is not "
                        "below the roots: whether its job runs is not known.",
                        "jobs that have ended.",
                        "name its checkpoint's folder as one more root; or say --stopped, where "
                        "you know that it does not run.",
                    )

    @property
    def queries(self) -> set[str]:
        """The queries whose checkpoints are held, by which their commits are told."""
        ids = (identity for _, identity in self.held)
        return {each.written_as(each.query) for each in ids if each.query is not None}

    @property
    def topics(self) -> list[str]:
        """The topics that the checkpoints have read."""
        return sorted({topic for _, identity in self.held for topic in identity.topics})

    def dead_topics(self) -> Iterator[Outside]:
        """Return the topics that the checkpoints' dead letters may be in."""
        for files, identity in self.held:
            for topic in identity.dead_topics:
                yield Outside(kind="topic", name=topic, noted=files.path, way=TOPIC)

    def require(self) -> None:
        """Refuse to go on where a job was started meanwhile; raises FencedError."""
        for files, identity in self.held:
            if files.newest() != identity.epoch:
                raise FencedError(
                    f"{files.path}: a driver was started on it meanwhile.",
                    "jobs that have ended, until the person is forgotten.",
                    "stop that driver, and run tidegate forget again: it goes on where it was.",
                )

    def settle(self) -> None:
        """Note each table as it is now, so that a copy of before is refused when it is put back."""
        self.require()
        for files, identity in self.held:
            tables = dict(identity.tables)
            for step, mark in tables.items():
                log = untouched(self.spark, mark.path)
                commit = log.digest(log.version)
                if log.id == mark.id and commit is not None:
                    tables[step] = replace(mark, version=log.version, commit=commit)
            files.write(replace(identity, tables=tables))


def query_of(app_id: str) -> str:
    """Return the query of an application id: job/query/step."""
    return app_id.rpartition("/")[0].rpartition("/")[2]


def _require_kept(spark: SparkSession, identity: Identity) -> None:
    for step, mark in identity.tables.items():
        log = untouched(spark, mark.path)
        if log.id == mark.id:
            require_kept(step, mark, log)


def _claimed(files: EpochFiles, identity: Identity) -> Identity:
    mine = replace(identity, epoch=files.newest() + 1)
    # Whole at once: where this process is killed, the checkpoint is still one that has ended.
    if not files.succeed(mine):
        raise FencedError(
            f"{files.path}: a driver was started on it meanwhile.", "jobs that have ended."
        )
    files.tidy(mine.epoch)
    return mine
