"""Topics and partitions that a checkpoint has read and its job leaves out are not forgotten."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tidegate.errors import CheckpointError, SourceError
from tidegate.formats import json_format
from tidegate.runtime.job import Input, Job
from tidegate.runtime.query.left_out import require_read_on
from tidegate.runtime.query.run import run
from tidegate.sinks import Append
from tidegate.sources import KafkaSource, Reading
from tidegate.testing import Broker

from ..tables import rows
from .topics import sent

pytestmark = pytest.mark.broker
Named = Callable[..., Job]


@pytest.fixture
def pair(broker: Broker, topic: str) -> tuple[str, str]:
    """Two topics of two partitions, with two records in each."""
    names = (f"{topic}-a", f"{topic}-b")
    for name in names:
        broker.create_topic(name, partitions=2, retention_ms=-1)
        for partition in (0, 1):
            sent(broker.servers, name, [1, 2], partition)
    return names


def reading(source: KafkaSource) -> Reading:
    form = json_format("page STRING NOT NULL, event_time TIMESTAMP")
    return Reading(source, form, time="event_time", lateness="0 seconds", keep=["offset"])


@pytest.fixture
def job(broker: Broker, tmp_path: Path) -> Named:
    """The job over a source that is named in one way or another."""

    def named(**source: Any) -> Job:
        given = Input(reading(KafkaSource(broker.servers, **source)))
        return Job(name="left_out", inputs={"pages": given}, sink=Append(f"{tmp_path}/rows"))

    return named


def written(root: Path) -> Counter[int]:
    return Counter(row["offset"] for row in rows(root / "rows"))


@pytest.mark.parametrize("loss", ["stop", "record"])
@pytest.mark.parametrize("what", ["a topic", "a partition"])
def test_what_was_left_out_is_refused_and_read_on_once_it_is_named_again(
    broker: Broker, pair: tuple[str, str], job: Named, tmp_path: Path, spark: SparkSession,
    what: str, loss: str,
) -> None:  # fmt: skip
    first, second = pair
    whole: dict[str, Any] = {"topics": pair}
    part: dict[str, Any] = {"topics": first}
    if what == "a partition":
        whole, part = {"partitions": {first: [0, 1]}}, {"partitions": {first: [0]}}
    run(job(**whole, on_data_loss=loss), spark)
    sent(broker.servers, second if what == "a topic" else first, [3], partition=1)
    gone = f"{second}-0, {second}-1" if what == "a topic" else f"{first}-1"
    with pytest.raises(CheckpointError, match=f"has read of {gone}, which no input") as no:
        run(job(**part, on_data_loss=loss), spark)
    assert "name them again" in no.value.hint
    run(job(**whole, on_data_loss=loss), spark)
    each = 4 if what == "a topic" else 2
    assert written(tmp_path) == {0: each, 1: each, 2: 1}


def test_a_topic_of_a_pattern_that_is_gone_is_named_and_stops_the_job_where_losses_do(
    broker: Broker, pair: tuple[str, str], job: Named, tmp_path: Path, spark: SparkSession,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    first, second = pair
    pattern = f"{first[:-1]}[ab]"
    run(job(pattern=pattern), spark)
    sent(broker.servers, first, [3])
    broker.delete_topic(second)
    with pytest.raises(SourceError, match=f"no longer has {second} "):
        run(job(pattern=pattern), spark)
    with caplog.at_level("WARNING"):
        run(job(pattern=pattern, on_data_loss="record"), spark)
    assert f"the topic {second} is gone, and with it what was not read of it" in caplog.text
    assert written(tmp_path) == {0: 4, 1: 4, 2: 1}


@pytest.mark.usefixtures("spark")
def test_topics_that_change_places_are_refused() -> None:
    inputs = {
        name: Input(reading(KafkaSource("nowhere:9092", topic)))
        for name, topic in (("searches", "clicks"), ("clicks", "searches"))
    }
    before = {"searches.topics": "['searches']", "clicks.topics": "['clicks']"}
    read = {"searches": {0: 4}, "clicks": {0: 7}}
    with pytest.raises(CheckpointError, match="'searches' has read searches, which another"):
        require_read_on(inputs, read, before)
    require_read_on(inputs, read, {})
