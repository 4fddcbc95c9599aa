"""The partitions of the state that Spark keeps for a checkpoint."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from ...commit.logs import Logs
from ...commit.plan_file import parsed
from ..process.presets import PARTITIONS, STATE


def settings(logs: Logs) -> dict[str, Any]:
    """Return the settings that a checkpoint keeps for its state, as its last batch noted them."""
    if logs.last not in logs.offsets:
        return {}
    meta, _ = parsed(f"{logs.path}/offsets/{logs.last}", logs.offsets[logs.last])
    return dict(meta.get("conf") or {})


def partitions(logs: Logs) -> int | None:
    """Return in how many partitions a checkpoint's state is; None where Spark keeps none for it."""
    number = settings(logs).get(PARTITIONS)
    kept = any(name.startswith("state/") for name in logs.files)
    return int(number) if kept and number is not None else None


def unlike(spark: SparkSession, logs: Logs) -> list[str]:
    """Tell where a checkpoint's state is kept otherwise than the session asks for.

    Spark goes on as the checkpoint has it, and says nothing.
    """
    number = partitions(logs)
    asked = int(spark.conf.get(PARTITIONS, "0") or 0)
    if number is None:
        return []
    told = []
    if number != asked:
        told.append(
            f"the state stays in {number} partitions, with which its checkpoint began or was "
            f"rescaled: {PARTITIONS} = {asked} does not count for it; tidegate rescale {logs.path} "
            f"--to {asked} changes that"
        )
    there = settings(logs).get(STATE)
    wanted = spark.conf.get(STATE, None)
    if there and wanted and there != wanted:
        told.append(
            f"the state stays in {there.rpartition('.')[2]}, with which its checkpoint began: "
            f"{wanted.rpartition('.')[2]} needs a new one, such as that of a replay"
        )
    return told
