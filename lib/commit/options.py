"""What a Delta commit carries so that it happens once: application id, number and stamp."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from delta.tables import DeltaMergeBuilder
from pyspark.sql import DataFrameWriter, SparkSession

from ..errors import ConflictError
from ..jvm import message

CHANGED = "another writer changed a row between its reading and the merge"
_SETTINGS = {
    "app_id": "spark.databricks.delta.write.txnAppId",
    "version": "spark.databricks.delta.write.txnVersion",
    "user_metadata": "spark.databricks.delta.commitInfo.userMetadata",
}


@dataclass(frozen=True)
class CommitOptions:
    """What a commit carries: Delta's application id and version, and the stamp."""

    app_id: str
    version: int
    user_metadata: str

    def on(self, writer: DataFrameWriter) -> DataFrameWriter:
        """Return the writer with these options set."""
        return (
            writer.option("txnAppId", self.app_id)
            .option("txnVersion", str(self.version))
            .option("userMetadata", self.user_metadata)
        )

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

    @staticmethod
    @contextmanager
    def noted(spark: SparkSession, text: str) -> Iterator[None]:
        """Let commits of the session bear a text, while a DELETE runs that is no batch's."""
        spark.conf.set(_SETTINGS["user_metadata"], text)
        try:
            yield
        finally:
            spark.conf.unset(_SETTINGS["user_metadata"])

    @contextmanager
    def session(self, spark: SparkSession) -> Iterator[None]:
        """Set these options on the session, while a MERGE, UPDATE or DELETE runs.

        These three take the options from the session alone. The options are unset whatever happens,
        since Delta would skip each later write of the session in silence. Spark gives every
        streaming query a session of its own, so that two queries do not disturb each other.
        """
        try:
            for name, key in _SETTINGS.items():
                spark.conf.set(key, str(getattr(self, name)))
            yield
        finally:
            for key in _SETTINGS.values():
                spark.conf.unset(key)
