"""Page views whose rows fail in every way that does not stop a job, counted in windows.

A record cannot be decoded, its `where` raises an error, it violates a rule with "dead_letter" or
"drop", its event time is ahead of the clock, or the table cannot store the row of its window.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import cycle
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from tests.support import crash_oracle as oracle
from tests.support.delta_tables import Reader
from tidegate.commit.table_log import parse_stamp
from tidegate.jobs.sample_clicks import SCHEMA, Click, SentRecord, clicks
from tidegate.kafka.producer import Record, deliver

WINDOW_MS, LATENESS_MS, PARTITIONS = 20_000, 10_000, 2
AHEAD = datetime(2098, 1, 1, tzinfo=UTC)
NO_PAGE, BANNED, BOT = "no page", "/banned", "bot"
WHERE = "1000 / bytes < 2.4"
"""It raises an error for a view without bytes, and drops one of 1 to 416 bytes."""
RULES = (
    f'[{{name = "page", condition = "page IS DISTINCT FROM \'{BANNED}\'"}}, '
    f'{{name = "user", condition = "user_id != \'{BOT}\'", on_error = "drop"}}]'
)
REJECTIONS = {
    NO_PAGE: "the NOT NULL column 'page' is null",
    "": "the partition column 'page' is an empty text, which Delta would store as null",
    "x" * 300: "the partition column 'page' is too long for the name of a folder",
}
"""The pages that the table cannot store, each with the reason."""
OPTIONS: dict[str, object] = {
    "input.schema": SCHEMA,
    "input.rules": RULES,
    "input.watermarks": "log",
    "input.watermark_delay": f"{LATENESS_MS} milliseconds",
    "window.size": f"{WINDOW_MS} milliseconds",
    "window.where": WHERE,
    "limits.dead_ratio": 1,
}
_STAGES = {"no time": "event_time", "far future": "event_time"}
_CLOCK_ALARM = re.compile(r"has an event time of (\S+ \S+)Z, .* ahead of this machine's clock")


def views(count: int, seed: int) -> list[Click]:
    """Return views in order of arrival, one in fifty with a fault; one is ahead of the clock."""
    drawn = Random(seed)
    made = clicks(count, seed=seed, rate=10, pages=6, broken=count // 200)
    good = [number for number, click in enumerate(made) if click.fault is None]
    faults: Iterator[dict[str, Any]] = cycle(
        [{"size": 0}, {"page": BANNED}, {"user": BOT}, *({"page": page} for page in REJECTIONS)]
    )
    for number, fault in zip(drawn.sample(good, count // 70), faults, strict=False):
        made[number] = replace(made[number], **fault)
    # The watermark follows the other partition, and the later rows of this one are late.
    number = int(len(made) * 0.8) // PARTITIONS * PARTITIONS
    at = int(AHEAD.timestamp() * 1000)
    plain = replace(made[number], fault=None, page="/", user="user-1", size=500)
    made[number] = replace(plain, event_time_ms=at, arrival_ms=at)
    return made


def value(click: Click) -> bytes:
    """Return the record's value, without a page for NO_PAGE."""
    if click.fault is not None or click.page != NO_PAGE:
        return click.value()
    return json.dumps({**json.loads(click.value()), "page": None}).encode()


def send(servers: str, topic: str, portion: Sequence[Click]) -> list[SentRecord]:
    """Send views evenly over the partitions, and return the acknowledged records."""
    values = list(map(value, portion))
    records = [
        Record(topic, each, click.arrival_ms, partition=number % PARTITIONS)
        for number, (each, click) in enumerate(zip(values, portion, strict=True))
    ]
    positions = deliver(servers, records)
    return [
        SentRecord(*position, each, click)
        for position, each, click in zip(positions, values, portion, strict=True)
    ]


def create_table(path: Path) -> None:
    """Create the table of windows, in folders of its page, which is NOT NULL."""
    time = pa.timestamp("us", tz="UTC")
    fields = [
        pa.field("window", pa.struct([("start", time), ("end", time)])),
        pa.field("page", pa.string(), nullable=False),
        pa.field("views", pa.int64()),
        pa.field("mean_ms", pa.float64()),
        pa.field("slowest_ms", pa.float64()),
        pa.field("bytes", pa.int64()),
    ]
    DeltaTable.create(str(path), pa.schema(fields), partition_by=["page"])


class Oracle:
    """What each table must have after the acknowledged records, in the order of their log."""

    def __init__(self, ledger: Sequence[SentRecord], topic: str) -> None:
        self.dead: Counter[Hashable] = Counter()
        self.late: Counter[Hashable] = Counter()
        self.alarms: Counter[Hashable] = Counter()
        self.counts: dict[tuple[int, int], Sequence[str]] = {}
        newest: dict[int, int] = {}
        counted: list[SentRecord] = []
        for sent in ledger:
            click, place = sent.click, (topic, sent.partition, sent.offset)
            fate, rule = _fate(click)
            counts = ["in"] if rule is None else ["in", f"rule {rule}"]
            at = click.event_time_ms
            if fate in ("passes", "filtered"):
                before = newest.get(sent.partition, at)
                newest[sent.partition] = max(before, at)
                if at >= AHEAD.timestamp() * 1000:
                    self.alarms[f"{datetime.fromtimestamp(at / 1000, UTC):%Y-%m-%d %H:%M:%S}"] += 1
            if fate in ("filtered", "discarded"):
                counts.append(fate)
            elif fate != "passes":
                self.dead[place, fate, sent.value] += 1
            elif at // WINDOW_MS * WINDOW_MS + WINDOW_MS <= before - LATENESS_MS:
                self.late[place] += 1
                counts.append("late")
            else:
                counted.append(replace(sent, click=replace(click, is_late=False)))
            self.counts[sent.partition, sent.offset] = counts
        reached = min(newest.values()) - LATENESS_MS
        closed = oracle.closed(oracle.windows(counted, WINDOW_MS), reached)
        self.windows: Counter[Hashable] = Counter()
        self.rejected: Counter[Hashable] = Counter()
        for row, number in closed.items():
            start, _, page, seen, size = row[:5]
            if page in REJECTIONS:
                self.rejected[REJECTIONS[page], start, page, seen, size] += number
            else:
                self.windows[row] += number

    def contents(self, root: Path) -> dict[str, Counter[Hashable]]:
        """Return the rows of each table, the counts of the committed batches, and the alarms."""
        counts: Counter[Hashable] = Counter()
        for batch in _stamped_batches(root):
            for partition, (first, last) in enumerate(batch.ranges):
                for offset in range(first, last):
                    counts.update((batch.number, name) for name in self.counts[partition, offset])
        return {
            "views": self.windows,
            "dead_letters": self.dead,
            "rejected windows": self.rejected,
            "late_rows": self.late,
            "counts": counts,
            "clock alarms": self.alarms,
        }


def _fate(click: Click) -> tuple[str, str | None]:
    """Return what becomes of a view before its lateness, and the rule that it violates.

    A dead letter has the stage of its check.
    """
    if click.fault is not None:
        return _STAGES.get(click.fault, "decode"), None
    if click.size == 0:
        return "where", None
    if 1000 / click.size >= 2.4:
        return "filtered", None
    if click.page == BANNED:
        return "rule", "page"
    return ("discarded", "user") if click.user == BOT else ("passes", None)


def contents(root: Path, log: Path, read: Reader) -> dict[str, Counter[Hashable]]:
    """Return the rows of the tables below `root`, the counts of their commits, and the alarms."""
    letters = read(root / "dead_letters")
    alarms = {match[1] for match in _CLOCK_ALARM.finditer(log.read_text(encoding="utf-8"))}
    return {
        "views": Counter[Hashable](oracle.read_windows(root / "views", read)),
        "dead_letters": Counter[Hashable](
            ((row["topic"], row["partition"], row["offset"]), row["stage"], bytes(row["value"]))
            for row in letters
            if row["stage"] != "sink"
        ),
        "rejected windows": Counter[Hashable](
            _rejected(row["reason"], bytes(row["value"]))
            for row in letters
            if row["stage"] == "sink"
        ),
        "late_rows": Counter[Hashable](oracle.read_places(root / "late_rows", read)),
        "counts": _counted(root),
        "clock alarms": Counter[Hashable](alarms),
    }


def _rejected(reason: str, row: bytes) -> Hashable:
    values = json.loads(row)
    start = datetime.fromisoformat(values["window"]["start"]).timestamp() * 1000
    page = NO_PAGE if values.get("page") is None else values["page"]
    return reason, round(start), page, values["views"], values["bytes"]


@dataclass(frozen=True)
class _StampedBatch:
    """A batch in the logs of the tables: the offsets of each partition, and its counts."""

    number: int
    ranges: Sequence[tuple[int, int]]
    counts: Mapping[str, int]


def _stamped_batches(root: Path) -> Iterator[_StampedBatch]:
    """Yield the batches whose first offsets are known: those of a batch before it, if any.

    A batch without a result, a dead letter or a late row has no commit.
    """
    stamps = {}
    for table in ("dead_letters", "late_rows", "views"):
        for commit in (root / table / "_delta_log").glob("*.json"):
            stamp = parse_stamp(commit.read_bytes())
            if stamp is not None:
                stamps[stamp.batch] = stamp
    for number, stamp in sorted(stamps.items()):
        (ends,) = stamp.end.values()
        starts = dict.fromkeys(ends, 0)
        if number:
            if number - 1 not in stamps:
                continue
            (starts,) = stamps[number - 1].end.values()
        ranges = [(starts[part], ends[part]) for part in range(PARTITIONS)]
        yield _StampedBatch(number, ranges, stamp.row_counts)


def _counted(root: Path) -> Counter[Hashable]:
    """Return the counts of the batches, without those of results and of dead letters, which differ
    by table."""
    names = ("in", "late", "filtered", "discarded", "rule page", "rule user")
    counts: Counter[Hashable] = Counter()
    for batch in _stamped_batches(root):
        counts.update({(batch.number, name): batch.counts.get(name, 0) for name in names})
    return +counts
