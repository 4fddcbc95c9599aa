from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs.click_through import ClickThrough, ResultSection, Windows, job
from jobs.click_through import rates as rates_of
from tidegate.errors import ConfigError
from tidegate.runtime.config.load import load
from tidegate.runtime.job import Job
from tidegate.runtime.process.installation import project_root
from tidegate.runtime.query.run import run
from tidegate.testing import Broker

from ..worlds.click_through import (
    OPTIONS,
    TOPICS,
    Topic,
    pairs,
    produce,
    rates,
    read_pairs,
    read_rates,
    require_all_rows,
    searches,
)


def planned(broker: Broker, named: dict[Topic, str], root: Path, *overrides: str) -> Job:
    own = {"kafka.servers": broker.servers, "output.root": root}
    own |= {f"{topic}.topics": name for topic, name in named.items()}
    options = [f"{key}={value}" for key, value in {**OPTIONS, **own}.items()]
    return job(load(ClickThrough, None, [*options, *overrides], {}).config)


@pytest.mark.broker
def test_joined_rows_and_their_rates_are_those_of_the_ledger_and_no_record_is_lost(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    named: dict[Topic, str] = {kind: f"{kind}-{topic}" for kind in TOPICS}
    for name in named.values():
        broker.create_topic(name, partitions=2, retention_ms=-1)
    ledger = produce(broker.servers, named, searches(700))
    sizes = [
        f"{kind}.max_rows={sum(place[0] == kind for place in ledger) // 4 + 1}" for kind in TOPICS
    ]

    whole = planned(broker, named, tmp_path, "result.kind=rows", *sizes)
    assert run(whole, spark).rows_in == len(ledger)
    assert read_pairs(tmp_path / "click_through") == pairs(ledger)
    require_all_rows(tmp_path, ledger, named)

    counted = rates_of(spark.read.format("delta").load(whole.sink.path), ResultSection(), Windows())
    counted.write.format("delta").save(str(tmp_path / "rates"))
    assert read_rates(tmp_path / "rates") == rates(ledger)


def test_the_shipped_configuration_holds_and_a_range_that_holds_nothing_is_refused(
    tmp_path: Path,
) -> None:
    file = project_root() / "conf" / "jobs" / "click_through.toml"
    config = load(ClickThrough, file, [], {}).config
    assert config.join.within == ("0 seconds", "1 hour")
    assert set(config.output.tables()) == {
        f"output.{name}" for name in ("table", "dead_letters", "late_searches", "late_clicks")
    }
    for override in (
        "join.before=-2 hours",
        "join.after=an hour",
        "window.kind=session",
        "result.kind=ratio",
    ):
        with pytest.raises(ConfigError):
            load(ClickThrough, file, [override], {})
