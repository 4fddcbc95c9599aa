"""The state stores of a checkpoint, and their newest rows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from ..jvm import enable_state_reading, list_names
from ..paths import local_path

STATE_ERRORS: tuple[type[Exception], ...] = (PySparkException, Py4JError)
"""What Spark raises for state that it cannot decode, and for damaged files."""
_DEFAULT_STORE = "default"
_ESCAPED = re.compile(r"[^\w\-!.~'()*,;:$&+=@/]")
"""The characters that Java escapes in the path of a URI."""


@dataclass(frozen=True, order=True)
class StateStore:
    """A state store of a stateful operator; a join has several."""

    operator: int
    operator_name: str
    name: str
    partitions: int

    def __str__(self) -> str:
        store = "" if self.name == _DEFAULT_STORE else f", {self.name}"
        return f"state of {self.operator_name} {self.operator}{store}"

    def read_rows(self, spark: SparkSession, checkpoint: str) -> DataFrame:
        """Return the rows after the last committed batch, with the columns `key` and `value`.

        Raises one of STATE_ERRORS; an action does so for damaged files.
        """
        reader = spark.read.format("statestore").option("operatorId", self.operator)
        return reader.option("storeName", self.name).load(checkpoint)

    def missing_partitions(self, spark: SparkSession, checkpoint: str) -> list[int]:
        """Return the partitions without a folder, which `read_rows` would omit."""
        names = list_names(spark, f"{checkpoint}/state/{self.operator}")
        return [number for number in range(self.partitions) if str(number) not in names]


def is_escaped_twice(checkpoint: str) -> bool:
    """Return whether Spark does not find the state of a checkpoint by its path.

    Spark escapes the path of the state once too often, so that it finds none below a folder with a
    space in its name, for example.
    """
    return _ESCAPED.search(checkpoint) is not None


@contextmanager
def readable_checkpoint(checkpoint: str) -> Iterator[str]:
    """Yield a path of a checkpoint by which Spark finds its state, unless it is remote.

    A local folder whose path is escaped twice gets a symbolic link meanwhile.
    """
    folder = local_path(checkpoint)
    if folder is None or not is_escaped_twice(checkpoint):
        yield checkpoint
        return
    with TemporaryDirectory(prefix="tidegate-state-") as temporary:
        link = Path(temporary, "checkpoint")
        link.symlink_to(folder.absolute())
        yield str(link)


def list_state_stores(spark: SparkSession, checkpoint: str) -> list[StateStore]:
    """Return the state stores of a checkpoint that has state.

    Raises one of STATE_ERRORS.
    """
    enable_state_reading(spark)
    stores = spark.read.format("state-metadata").load(checkpoint)
    columns = ("operatorId", "operatorName", "stateStoreName", "numPartitions")
    return sorted(StateStore(*row) for row in stores.select(*columns).distinct().collect())
