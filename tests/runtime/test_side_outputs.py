"""Dead letters that are read again are as many as the stream has counted, or none is written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidegate.errors import AccountingError
from tidegate.formats import json_format
from tidegate.runtime.job import Input, Job
from tidegate.runtime.query.side_outputs import Aside, keep_aside
from tidegate.sinks import Append
from tidegate.sources import KafkaSource, Reading
from tidegate.sources.aside import BAD, UNREAD, UNTIMED, SetAside
from tidegate.sources.kafka import RAW

from ..sinks.batches import batch

FOUND = f"{RAW}, {BAD} BOOLEAN, {UNREAD} BOOLEAN, {UNTIMED} STRING"


@pytest.mark.parametrize(("counted", "found"), [(1, 0), (0, 1), (2, 1)])
def test_a_batch_whose_unreadable_records_are_not_found_again_is_not_written(
    counted: int, found: int, spark: SparkSession, tmp_path: Path
) -> None:
    form = json_format("at TIMESTAMP")
    reading = Reading(KafkaSource("s:1", "t"), form, time="at", lateness="1 second")
    job = Job(
        name="j",
        inputs={"clicks": Input(reading)},
        sink=Append(str(tmp_path / "target")),
        dead=str(tmp_path / "dead"),
    )
    bad = ("t", 0, 0, None, None, b"bad", None, True, True, None)
    rows = spark.createDataFrame([bad] * found, FOUND)
    aside = Aside(SetAside(rows, format=form, cap=9, behind=None), found)
    with pytest.raises(AccountingError, match=rf"counted {counted} dead .* hold {found}"):
        keep_aside(job, spark, replace(batch(0), dead=counted), {"clicks": aside})
    assert not (tmp_path / "dead").exists()
