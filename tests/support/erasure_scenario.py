"""Tables that contain a data subject in every form, and an independent scan of every byte."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyarrow import parquet
from pyspark.sql import SparkSession

from tests.support.sink_batches import batch
from tidegate.changelogs import Fold
from tidegate.delta.table_layout import TableLayout
from tidegate.sinks import Append, Projection, SideOutputTable

ANNA, NUMBER = "anna.b-77", 47110815
OTHERS = [("anna.b-7", 4711081), ("anna.b-77-2", 471108150), ("joanna.b-77", 1)]
USERS = [(ANNA, NUMBER), *OTHERS]
WHERE = [f"user_id={ANNA}", f"customer.no={NUMBER}"]
EVENT_TIME = datetime(2026, 1, 1, 10, tzinfo=UTC)
DEAD_LETTER_SCHEMA = (
    "topic string, partition int, offset bigint, timestamp timestamp, key binary, value binary, "
    "value_bytes int, headers array<struct<key: string, value: binary>>, stage string, "
    "reason string"
)
DEAD_LETTERS = [
    (None, f'{{"user_id": "{ANNA}", broken'.encode(), None, "decode"),
    # The length that Avro writes before a text may be a letter.
    (None, b"\x00\x02H" + ANNA.encode() + b"H\xff", None, "decode"),
    (None, f'{{"customer": {{"no": {NUMBER}'.encode(), None, "decode"),
    (ANNA.encode(), b"{", None, "decode"),
    (None, b"{", [("from", f"phone of {ANNA}.".encode())], "decode"),
    (None, b"{", None, f"cannot read '{ANNA}'"),
    *[(None, f'{{"user_id": "{user}", broken'.encode(), None, "decode") for user, _ in OTHERS],
    (b"k", None, [("a", None)], "decode"),
]


def events_sink(root: Path) -> Append:
    layout = TableLayout(partition_by=["user_id"], properties={"delta.enableChangeDataFeed": True})
    return Append(str(root / "events"), layout=layout)


def starts_sink(root: Path) -> Projection:
    fold = Fold(
        key="user_id",
        type_column="page",
        initial={"n": (0, "BIGINT")},
        handlers={"/": {"n": "state.n + 1"}},
    )
    return Projection(str(root / "starts"), fold=fold)


def write_batch(spark: SparkSession, root: Path, number: int) -> list[str]:
    """Write a batch with each of the sinks; return the outcomes."""
    rows = [
        (user, EVENT_TIME + timedelta(seconds=number), "/", (no, "x"), "t", 0, number * 10 + index)
        for index, (user, no) in enumerate(USERS)
    ]
    schema = (
        "user_id string, event_time timestamp, page string, customer struct<no: bigint, kind: "
        "string>, topic string, partition int, offset bigint"
    )
    frame = spark.createDataFrame(rows, schema).coalesce(1)
    return [
        events_sink(root).write(
            {"rows": frame.drop("topic", "partition", "offset")}, batch(number)
        ),
        starts_sink(root).write({"rows": frame.drop("customer")}, batch(number)),
    ]


def write_dead_letters(spark: SparkSession, root: Path) -> None:
    """Write dead letters, six of them with Anna; one has a deletion vector."""
    rows = [
        ("t", 0, number, EVENT_TIME, key, value, value and len(value), headers, "decode", reason)
        for number, (key, value, headers, reason) in enumerate(DEAD_LETTERS)
    ]
    layout = TableLayout(properties={"delta.enableDeletionVectors": True})
    frame = spark.createDataFrame(rows, DEAD_LETTER_SCHEMA).coalesce(1)
    SideOutputTable(str(root / "letters"), layout=layout).write(frame, batch(0))
    spark.sql(f"DELETE FROM delta.`{root / 'letters'}` WHERE offset = 0")


def paths_with_subject(root: Path) -> list[str]:
    """Return the files and folders with Anna in their name or content."""
    return sorted(
        {str(path.relative_to(root)) for path in root.rglob("*") if _has_subject(path, root)}
    )


def _has_subject(path: Path, root: Path) -> bool:
    return any(_identifies_subject(text) for text in _texts_of(path, root))


def _texts_of(path: Path, root: Path) -> Iterator[str]:
    yield str(path.relative_to(root))
    if path.is_file():
        yield path.read_bytes().decode("latin-1")
        if path.suffix == ".parquet":
            file = parquet.ParquetFile(path)
            yield repr(file.read().to_pylist())
            for group in range(file.metadata.num_row_groups):
                yield repr(file.metadata.row_group(group).to_dict())


def _identifies_subject(text: str) -> bool:
    for user, number in sorted(OTHERS, key=lambda each: -len(each[0])):
        if len(user) > len(ANNA):
            text = text.replace(user, "")
        if number > NUMBER:
            text = text.replace(str(number), "")
    return ANNA in text or str(NUMBER) in text
