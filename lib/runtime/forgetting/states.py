"""The state of streaming queries, read from their checkpoints as Spark tells it."""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from ...jvm import reads_state
from .person import Person
from .places import Found, Root
from .report import Left
from .rows import count_told

_WAY = (
    "It passes out with the watermark, and its old files a hundred batches later: let the job run "
    "on, and run this again. Or begin a new checkpoint, by --resume-from-table or tidegate replay, "
    "and delete the old one."
)
_OLDER = (
    "Spark keeps the state of the last hundred batches in compressed files. The newest state has "
    "nothing of the person; of what a state had in these batches the scan sees most, and not all."
)


def in_states(spark: SparkSession, root: Root, found: Found, person: Person) -> list[Left]:
    """Tell of each checkpoint below a root what its newest state has of a person."""
    told = []
    reads_state(spark)
    for name in found.checkpoints:
        kept = [
            file.name for file in found.files if file.name.startswith(f"{name}/state/".lstrip("/"))
        ]
        own = person.within(root.of(name))
        if kept and own is not None:
            told += _in_state(spark, root.of(name), own)
    return told


def _in_state(spark: SparkSession, path: str, person: Person) -> list[Left]:
    found: list[Left] = []
    try:
        stores = spark.read.format("state-metadata").load(path)
        rows = stores.select("operatorId", "operatorName", "stateStoreName").distinct().collect()
    except PySparkException as error:
        return [_unknown(path, "state", error)]
    for operator, kind, store in sorted(map(tuple, rows)):
        where = f"state of {kind} {operator}" + ("" if store == "default" else f", {store}")
        try:
            number = count_told(_state(spark, path, operator, store), person)
        except PySparkException as error:
            found.append(_unknown(path, where, error))
            continue
        if number:
            why = "rows that are kept for results to come."
            found.append(Left(path=path, where=where, count=number, why=why, way=_WAY))
    if not found:
        older = Left(path=path, where="older state", count=0, why=_OLDER, way=_WAY, counts=False)
        return [older]
    return found


def _state(spark: SparkSession, path: str, operator: int, store: str) -> DataFrame:
    reader = spark.read.format("statestore").option("operatorId", operator)
    return reader.option("storeName", store).load(path)


def _unknown(path: str, where: str, error: PySparkException) -> Left:
    why = f"it cannot be decoded, so that nothing is known of it: {str(error).splitlines()[0]}"
    return Left(path=path, where=where, count=0, why=why, way=_WAY)
