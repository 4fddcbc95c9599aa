"""The stamp of a batch as options of a Delta commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

from delta.tables import DeltaMergeBuilder
from pyspark.sql import DataFrameWriter, SparkSession

from ..errors import ConflictError
from ..jvm import error_text

ROW_CHANGED = "another writer changed a row between its reading and the merge"
_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"


@dataclass(frozen=True)
class CommitOptions:
    """Options of the next commit: the stamp, and by `set_batch_number` the batch's number.

    Only the commit that directly follows a call carries them, so that a commit that creates an
    empty table does not count as the batch.

    user_metadata: the stamp; None if it is set on the session at the time of the commit.
    """

    user_metadata: str | None
    set_batch_number: Callable[[], None]

    def apply_to(self, writer: DataFrameWriter) -> DataFrameWriter:
        """Return the writer with these options; its save must follow directly."""
        self.set_batch_number()
        if self.user_metadata is None:
            return writer
        return writer.option("userMetadata", self.user_metadata)

    def merge(self, spark: SparkSession, path: str, merge: DeltaMergeBuilder) -> None:
        """Run a merge with these options, in one commit.

        Sinks guard a merge by assignments that raise ROW_CHANGED if another writer changed a row.

        Raises:
            ConflictError: if an assignment raised ROW_CHANGED; nothing was written.
        """
        with self.apply_to_session(spark):
            try:
                merge.execute()
            except Exception as error:
                if ROW_CHANGED in error_text(error):
                    raise ConflictError(
                        f"{path}: {ROW_CHANGED}.", remedy="use one job per table."
                    ) from error
                raise

    def apply_to_session(self, spark: SparkSession) -> AbstractContextManager[None]:
        """Return a context that sets these options on the session for a MERGE, UPDATE or DELETE.

        These commands read options only from the session. Spark runs each streaming query in its
        own session, so queries do not interfere.
        """
        self.set_batch_number()
        if self.user_metadata is None:
            return nullcontext()
        return self.commit_metadata(spark, self.user_metadata)

    @staticmethod
    @contextmanager
    def commit_metadata(spark: SparkSession, metadata: str) -> Iterator[None]:
        """Set the commit metadata of the session during a DELETE that is not part of a batch."""
        spark.conf.set(_USER_METADATA, metadata)
        try:
            yield
        finally:
            spark.conf.unset(_USER_METADATA)
