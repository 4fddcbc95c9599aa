"""The job click_through from its topics to its tables, compared with the sent records."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.scenarios.click_through import (
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
from tests.support.spark_session import configured, from_options
from tidegate import Job, run
from tidegate.errors import ConfigError
from tidegate.jobs.click_through import ClickThrough, aggregate_rates, job
from tidegate.testing import Broker

pytestmark = pytest.mark.jobs


def build_job(broker: Broker, named: dict[Topic, str], root: Path, *overrides: str) -> Job:
    own = {"kafka.bootstrap_servers": broker.bootstrap_servers, "output.root": root}
    own |= {f"{topic}.topics": name for topic, name in named.items()}
    return job(from_options(ClickThrough, {**OPTIONS, **own}, *overrides))


@pytest.mark.broker
def test_joined_rows_and_rates_equal_those_of_the_sent_records(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    named, ledger, max_rows = sent(broker, topic, searches(700))
    sizes = [f"{kind}.max_records_per_batch={rows}" for kind, rows in max_rows.items()]

    joined = build_job(broker, named, tmp_path, "result.kind=rows", *sizes)
    assert run(joined, spark).rows_in == len(ledger)
    assert read_pairs(tmp_path / "click_through") == pairs(ledger)
    require_all_rows(tmp_path, ledger, named)

    counted = aggregate_rates(
        spark.read.format("delta").load(joined.sink.path), configured(ClickThrough)
    )
    counted.write.format("delta").save(str(tmp_path / "rates"))
    assert read_rates(tmp_path / "rates") == rates(ledger)


def test_the_shipped_configuration_is_valid_and_invalid_values_are_rejected() -> None:
    config = configured(ClickThrough)
    assert config.to_join().within == ("0 seconds", "1 hour")
    assert config.to_join().emit == "final"
    assert configured(ClickThrough, {}, "result.kind=rows").to_join().emit == "early"
    assert set(config.output.tables()) == {
        f"output.{name}"
        for name in ("table", "dead_letters", "offset_gaps", "late_searches", "late_clicks")
    }
    for override in (
        "join.before=-2 hours",
        "join.after=an hour",
        "window.kind=session",
        "window.size=1 month",
        "result.kind=ratio",
        "join.emit=early",
    ):
        with pytest.raises(ConfigError):
            configured(ClickThrough, {}, override)
