from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs.deduplicated import Deduplicated, job
from lib.errors import ConfigError
from lib.runtime.config import load
from lib.runtime.job import Job
from lib.runtime.paths import project_root
from lib.runtime.run import run
from lib.testing import Broker
from lib.testing.ledger import produce

from .crashing import Crashing
from .redelivery import OPTIONS, for_ever, out, places, redelivered, within

BATCH = 1_000


def planned(broker: Broker, topic: str, root: Path, *overrides: str) -> Job:
    own = {"kafka.servers": broker.servers, "kafka.topics": topic, "kafka.max_rows": BATCH, "output.root": root}
    options = [f"{key}={value}" for key, value in {**OPTIONS, **own}.items()]
    return job(load(Deduplicated, None, [*options, *overrides], {}).config)


@pytest.mark.broker
def test_each_event_of_a_redelivering_topic_is_in_the_table_once(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=4, retention_ms=-1)
    ledger = produce(broker.servers, topic, redelivered(3_000), partitions=4)
    exact, filtered = tmp_path / "exact", tmp_path / "filtered"

    run(planned(broker, topic, exact), spark)
    assert places(exact / "events") == out(within(ledger), ledger)

    more = ["deduplicate.keys=100000", "deduplicate.false_positives=0.0001"]
    whole = planned(broker, topic, filtered, *more)
    with pytest.raises(Exception, match="CrashError"):
        run(replace(whole, sink=Crashing(whole.sink)), spark)
    done = run(whole, spark)
    assert done.skipped == 1
    first = for_ever(ledger)
    again = [sent for sent in within(ledger) if sent not in set(first)]
    assert out(again, ledger).total() > 30
    assert places(filtered / "events") == out(first, ledger)
    assert places(filtered / "repeated") == out(again, ledger)

    for root in (exact, filtered):
        assert places(root / "late_rows") == Counter((s.partition, s.offset) for s in ledger if s.click.straggler)
        assert places(root / "dead_letters") == Counter((s.partition, s.offset) for s in ledger if s.click.fault)


def test_the_shipped_configuration_holds_and_a_hold_beyond_the_horizon_is_refused() -> None:
    file = project_root() / "conf" / "jobs" / "deduplicated.toml"
    config = load(Deduplicated, file, [], {}).config
    assert (config.deduplicate.key, config.deduplicate.keys) == (["event_id"], 20_000_000)
    assert set(config.output.tables()) == {
        f"output.{name}" for name in ("table", "dead_letters", "late", "repeated", "seen")
    }
    with pytest.raises(ConfigError, match="hold"):
        load(Deduplicated, file, ["deduplicate.hold=1 hour"], {})
    with pytest.raises(ConfigError, match="repeated"):
        load(Deduplicated, file, ["output.repeated=events"], {})
