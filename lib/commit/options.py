"""What a Delta commit carries besides its rows: the stamp of the batch that they are of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

from delta.tables import DeltaMergeBuilder
from pyspark.sql import DataFrameWriter, SparkSession

from ..errors import ConflictError
from ..jvm import message

CHANGED = "another writer changed a row between its reading and the merge"
_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"


@dataclass(frozen=True)
class CommitOptions:
    """What the next commit carries: the stamp, and by `begin` the batch's number.

    Only the commit that they are asked for right before bears them: a table that is laid out by a
    commit of its own is not the batch yet.

    user_metadata: None where the session says it by the time of the commit.
    """

    user_metadata: str | None
    begin: Callable[[], None]

    def on(self, writer: DataFrameWriter) -> DataFrameWriter:
        """Return the writer, whose save is to come next, with these options set."""
        self.begin()
        if self.user_metadata is None:
            return writer
        return writer.option("userMetadata", self.user_metadata)

    def merge(self, spark: SparkSession, path: str, merge: DeltaMergeBuilder) -> None:
        """Run a merge under these options, in one commit.

        A sink guards its merge by values that raise CHANGED where another writer's row stands in
        place of the row that the sink read.

        Raises:
            ConflictError: where a value raised CHANGED; nothing was written then.
        """
        with self.session(spark):
            try:
                merge.execute()
            except Exception as error:
                if CHANGED in message(error):
                    raise ConflictError(
                        f"{path}: {CHANGED}.", hint="let one job alone write a table."
                    ) from error
                raise

    def session(self, spark: SparkSession) -> AbstractContextManager[None]:
        """Set these options on the session, while a MERGE, UPDATE or DELETE runs.

        These three take the options from the session alone. Spark gives every streaming query a
        session of its own, so that two queries do not disturb each other.
        """
        self.begin()
        if self.user_metadata is None:
            return nullcontext()
        return self.noted(spark, self.user_metadata)

    @staticmethod
    @contextmanager
    def noted(spark: SparkSession, text: str) -> Iterator[None]:
        """Let commits of the session bear a text, while a DELETE runs that is no batch's."""
        spark.conf.set(_USER_METADATA, text)
        try:
            yield
        finally:
            spark.conf.unset(_USER_METADATA)
