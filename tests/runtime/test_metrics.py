"""A job's metrics over HTTP while it runs."""

from __future__ import annotations

import socket
import urllib.request
from collections.abc import Mapping

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tidegate import __version__
from tidegate.commit import Batch
from tidegate.errors import SetupError
from tidegate.runtime.limits import Limits
from tidegate.runtime.query.accounting import too_late
from tidegate.runtime.summary import Counted, Summary
from tidegate.runtime.telemetry.behind import oldest
from tidegate.runtime.telemetry.course import Course
from tidegate.runtime.telemetry.gauge import Place, gauge
from tidegate.runtime.telemetry.metrics import Metrics, served
from tidegate.runtime.telemetry.record import MOST_REASONS, OTHER, Record

from ..sinks.batches import batch
from .test_progress import REPORT, total
from .watched import AGE, KEPT, Watched, asked, free_port, samples


def record(done: Summary | None = None) -> Record:
    return Record(done or total(), clock=lambda: 1_772_442_000.0)


def told(port: int) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {(name, labels): value for name, labels, value in samples(asked(port))}


def test_a_run_tells_its_numbers_while_it_goes_on() -> None:
    kept, port = record(), free_port()
    with served(Metrics(kept), port):
        assert told(port)["tidegate_rows_late_total", ()] == 2
        assert ("tidegate_watermark_timestamp_seconds", ()) not in told(port)
        kept.saw(gauge(REPORT))
        late = Counted(
            number=2,
            rows_in=9,
            rows_out=4,
            dead=0,
            late=5,
            corrected=3,
            alarm=True,
            reached={},
            outcome="written",
        )
        kept.add(late)
        found = told(port)
    assert found["tidegate_rows_late_total", ()] == 7
    assert found["tidegate_rows_corrected_total", ()] == 3
    assert found["tidegate_late_alarms_total", ()] == 1
    place = (("partition", "0"), ("topic", "clicks"))
    assert found["tidegate_lag_rows", place] == 20
    assert found["tidegate_watermark_timestamp_seconds", ()] == 1772442351.25
    with pytest.raises(OSError, match="refused"):
        asked(port)


def test_numbers_are_told_to_this_machine_alone_unless_an_address_says_otherwise() -> None:
    metrics, port = Metrics(record()), free_port()
    other = f"http://127.0.0.2:{port}/metrics"
    with served(metrics, port), pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(other, timeout=10)
    with served(metrics, port, "127.0.0.2"), urllib.request.urlopen(other, timeout=10) as answer:
        assert b"tidegate_rows_read_total" in answer.read()


def test_a_port_that_is_taken_is_named_and_without_one_nothing_is_served() -> None:
    metrics = Metrics(record(Summary(job="j")))
    with served(metrics, None), socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        with (
            pytest.raises(SetupError, match="a port that is free"),
            served(metrics, taken.getsockname()[1]),
        ):
            pass


def test_batch_times_are_counted_by_buckets_and_each_batch_once() -> None:
    kept = record()
    for number, seconds in enumerate((0.1, 0.11, 40, 40_000)):
        report = {"batchId": number, "durationMs": {"triggerExecution": seconds * 1_000}}
        kept.saw(gauge(report))
        kept.saw(gauge(report))
    found = {
        dict(labels)["le"]: value
        for name, labels, value in samples(generate_latest(Metrics(kept)).decode())
        if name == "tidegate_batch_duration_seconds_bucket"
    }
    assert (found["0.1"], found["0.25"], found["30.0"], found["60.0"]) == (1, 2, 2, 3)
    assert (found["1800.0"], found["+Inf"]) == (3, 4)


def test_reasons_are_bounded_and_add_up_to_the_dead_rows() -> None:
    kept = record(Summary(job="j"))
    for number in range(40):
        counted = Counted(
            number=number,
            rows_in=3,
            rows_out=0,
            dead=3,
            late=0,
            reached={},
            reasons={("decode", f"{number:02} is no page" + "!" * 500): 2},
            outcome="written",
        )
        kept.add(counted)
    found = kept.now().reasons
    assert len(found) == MOST_REASONS + 1
    assert sum(found.values()) == kept.summary.dead == 120
    assert found[OTHER] == 40 + 2 * 20
    assert max(len(reason) for _, reason in found) <= 120


def test_the_age_of_what_waits_is_found_for_all_partitions_at_once() -> None:
    now = 10**12
    ages = {("t", 0): 0, ("t", 1): 900, ("t", 2): 3_600_000, ("t", 3): 10**11}
    asks = 0

    def older(instants: Mapping[Place, int]) -> set[Place]:
        nonlocal asks
        asks += 1
        return {place for place, at in instants.items() if now - ages[place] < at}

    found = oldest(set(ages), older, now)
    assert all(age <= found[place] <= age * 1.1 + 32 for place, age in ages.items())
    assert asks <= 25
    assert oldest(set(), older, now) == {}


def test_a_long_run_is_told_in_bounded_room_and_its_sums_stay_right() -> None:
    course = Course(most=10)
    for number in range(1_234):
        counted = Counted(
            number=number, rows_in=3, rows_out=2, dead=1, late=1, reached={}, outcome="written"
        )
        course.add(counted, None if number % 2 else gauge(REPORT), now=number)
    told = course.stretches
    assert 10 <= len(told) < 20
    assert [each.first for each in told[1:]] == [each.last + 1 for each in told[:-1]]
    assert (told[0].first, told[-1].last) == (0, 1_233)
    sums = [(s.batches, s.rows_in, s.dead, s.reported, s.seconds) for s in told]
    assert [sum(each) for each in zip(*sums, strict=True)] == [1_234, 3_702, 1_234, 617, 1_234.0]


@pytest.mark.broker
def test_a_scrape_of_a_real_run_tells_rows_ages_head_room_and_reasons(watched: Watched) -> None:
    found = watched.samples
    place = (("partition", "0"), ("topic", watched.topic))
    topic = (("topic", watched.topic),)
    assert found["tidegate_rows_read_total", ()] == found["tidegate_batches_total", ()] * 7 == 7
    assert found["tidegate_rows_dead_total", ()] == 1
    dead = [key for key in found if key[0] == "tidegate_dead_letters_total"]
    assert [dict(labels)["stage"] for _, labels in dead] == ["decode"]
    assert found["tidegate_lag_rows", place] == 7
    assert AGE <= found["tidegate_lag_seconds", place] <= 1.2 * AGE
    assert found["tidegate_lag_seconds", (("partition", "1"), ("topic", watched.topic))] == 0
    assert found["tidegate_retention_seconds", topic] == KEPT
    left = KEPT - found["tidegate_lag_seconds", place]
    assert found["tidegate_head_room_seconds", topic] == left
    assert found["tidegate_head_room_rows", place] == 7
    assert found["tidegate_batch_duration_seconds_count", ()] == 1
    info = next(dict(labels) for name, labels in found if name == "tidegate_info")
    assert (info["tidegate_job"], info["version"]) == ("watched", __version__)
    assert len(info["query"]) == 36


@pytest.mark.broker
def test_metrics_are_named_by_the_conventions_and_none_has_prometheus_own_labels(
    watched: Watched,
) -> None:
    for family in text_string_to_metric_families(watched.scrape):
        assert family.documentation, family.name
        assert family.name.startswith("tidegate")
        counts = family.type == "counter"
        for sample in family.samples:
            assert not {"job", "instance"} & sample.labels.keys()
            assert sample.name.endswith("_total") == counts
        if "timestamp" in family.name:
            assert family.name.endswith("_timestamp_seconds")


@pytest.mark.parametrize(
    ("rows", "late", "limits", "says"),
    [
        (10_000, 1_000, Limits(), None),
        (
            10_000,
            1_001,
            Limits(),
            "1,001 of the 10,000 rows of batch 3 came too late; limits.late_ratio is 10.0%",
        ),
        (999, 999, Limits(), None),
        (
            50,
            6,
            Limits(late_rows=5),
            "6 of the 50 rows of batch 3 came too late; limits.late_rows is 5",
        ),
        (10_000, 9_999, Limits(late_ratio=None), None),
    ],
)
def test_more_late_rows_than_the_limits_say_raise_an_alarm(
    rows: int, late: int, limits: Limits, says: str | None
) -> None:
    given: Batch = batch(3, rows_in=rows, late=late)
    assert too_late(given, limits) == says
