"""The partitions of the state that Spark keeps for a checkpoint."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from ...commit.logs import Logs
from ...commit.plan_file import parsed

SETTING = "spark.sql.shuffle.partitions"


def settings(logs: Logs) -> dict[str, Any]:
    """Return the settings that a checkpoint keeps for its state, as its last batch noted them."""
    if logs.last not in logs.offsets:
        return {}
    meta, _ = parsed(f"{logs.path}/offsets/{logs.last}", logs.offsets[logs.last])
    return dict(meta.get("conf") or {})


def partitions(logs: Logs) -> int | None:
    """Return in how many partitions a checkpoint's state is; None where Spark keeps none for it."""
    number = settings(logs).get(SETTING)
    kept = any(name.startswith("state/") for name in logs.files)
    return int(number) if kept and number is not None else None


def unlike(spark: SparkSession, logs: Logs) -> list[str]:
    """Tell where a checkpoint's state is in other partitions than the session asks for.

    Spark keeps the checkpoint's number and says nothing.
    """
    number, asked = partitions(logs), int(spark.conf.get(SETTING, "0") or 0)
    if number is None or number == asked:
        return []
    told = (
        f"the state stays in {number} partitions, with which its checkpoint began or was rescaled: "
        f"{SETTING} = {asked} does not count for it; tidegate rescale {logs.path} --to {asked} "
        "changes that"
    )
    return [told]
