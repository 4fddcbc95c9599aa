"""The click-through job from its topics to its tables, beside the ledger."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs.click_through import ClickThrough, job
from jobs.click_through import rates as rates_of
from tidegate.errors import ConfigError
from tidegate.runtime.job import Job
from tidegate.runtime.query.run import run
from tidegate.testing import Broker

from ..configured import configured, from_options
from ..worlds.click_through import (
    OPTIONS,
    Topic,
    pairs,
    rates,
    read_pairs,
    read_rates,
    require_all_rows,
    searches,
    sent,
)

pytestmark = pytest.mark.jobs


def planned(broker: Broker, named: dict[Topic, str], root: Path, *overrides: str) -> Job:
    own = {"kafka.servers": broker.servers, "output.root": root}
    own |= {f"{topic}.topics": name for topic, name in named.items()}
    return job(from_options(ClickThrough, {**OPTIONS, **own}, *overrides))


@pytest.mark.broker
def test_joined_rows_and_their_rates_are_those_of_the_ledger_and_no_record_is_lost(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    named, ledger, max_rows = sent(broker, topic, searches(700))
    sizes = [f"{kind}.max_rows={rows}" for kind, rows in max_rows.items()]

    whole = planned(broker, named, tmp_path, "result.kind=rows", *sizes)
    assert run(whole, spark).rows_in == len(ledger)
    assert read_pairs(tmp_path / "click_through") == pairs(ledger)
    require_all_rows(tmp_path, ledger, named)

    counted = rates_of(spark.read.format("delta").load(whole.sink.path), configured(ClickThrough))
    counted.write.format("delta").save(str(tmp_path / "rates"))
    assert read_rates(tmp_path / "rates") == rates(ledger)


def test_the_shipped_configuration_holds_and_a_range_that_holds_nothing_is_refused() -> None:
    config = configured(ClickThrough)
    assert config.joined().within == ("0 seconds", "1 hour")
    assert config.joined().emission == "final"
    assert configured(ClickThrough, {}, "result.kind=rows").joined().emission == "early"
    assert set(config.output.tables()) == {
        f"output.{name}"
        for name in ("table", "dead_letters", "gaps", "late_searches", "late_clicks")
    }
    for override in (
        "join.before=-2 hours",
        "join.after=an hour",
        "window.kind=session",
        "window.size=1 month",
        "result.kind=ratio",
        "join.emission=early",
    ):
        with pytest.raises(ConfigError):
            configured(ClickThrough, {}, override)
