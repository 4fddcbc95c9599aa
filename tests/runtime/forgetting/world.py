"""Tables that hold a person in every way, and a look at every byte, beside the library's own."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyarrow import parquet
from pyspark.sql import SparkSession

from tidegate.changes import Fold
from tidegate.commit.layout import Layout
from tidegate.sinks import Append, Folded, SideTable

from ...sinks.batches import batch

ANNA, NUMBER = "anna.b-77", 47110815
OTHERS = [("anna.b-7", 4711081), ("anna.b-77-2", 471108150), ("joanna.b-77", 1)]
USERS = [(ANNA, NUMBER), *OTHERS]
WHERE = [f"user_id={ANNA}", f"customer.no={NUMBER}"]
AT = datetime(2026, 1, 1, 10, tzinfo=UTC)
LETTER = (
    "topic string, partition int, offset bigint, timestamp timestamp, key binary, value binary, "
    "value_bytes int, headers array<struct<key: string, value: binary>>, stage string, "
    "reason string"
)
LETTERS = [
    (None, f'{{"user_id": "{ANNA}", broken'.encode(), None, "decode"),
    # Avro's length of a text stands right before it, and may be a letter.
    (None, b"\x00\x02H" + ANNA.encode() + b"H\xff", None, "decode"),
    (None, f'{{"customer": {{"no": {NUMBER}'.encode(), None, "decode"),
    (ANNA.encode(), b"{", None, "decode"),
    (None, b"{", [("from", f"phone of {ANNA}.".encode())], "decode"),
    (None, b"{", None, f"cannot read '{ANNA}'"),
    *[(None, f'{{"user_id": "{user}", broken'.encode(), None, "decode") for user, _ in OTHERS],
    (b"k", None, [("a", None)], "decode"),
]


def events(root: Path) -> Append:
    layout = Layout(partition_by=["user_id"], properties={"delta.enableChangeDataFeed": True})
    return Append(str(root / "events"), layout=layout)


def starts(root: Path) -> Folded:
    fold = Fold(
        key="user_id", kind="page", initial={"n": (0, "BIGINT")}, on={"/": {"n": "state.n + 1"}}
    )
    return Folded(str(root / "starts"), fold=fold)


def write(spark: SparkSession, root: Path, number: int) -> list[str]:
    """Write a batch by each of the sinks; return what became of it."""
    rows = [
        (user, AT + timedelta(seconds=number), "/", (no, "x"), "t", 0, number * 10 + at)
        for at, (user, no) in enumerate(USERS)
    ]
    shape = (
        "user_id string, event_time timestamp, page string, customer struct<no: bigint, kind: "
        "string>, topic string, partition int, offset bigint"
    )
    frame = spark.createDataFrame(rows, shape).coalesce(1)
    at = batch(number)
    return [
        events(root).write({"rows": frame.drop("topic", "partition", "offset")}, at),
        starts(root).write({"rows": frame.drop("customer")}, at),
    ]


def letters(spark: SparkSession, root: Path) -> None:
    """Write dead letters, of which six tell of Anna; one is only marked as deleted."""
    rows = [
        ("t", 0, number, AT, key, value, value and len(value), headers, "decode", reason)
        for number, (key, value, headers, reason) in enumerate(LETTERS)
    ]
    layout = Layout(properties={"delta.enableDeletionVectors": True})
    frame = spark.createDataFrame(rows, LETTER).coalesce(1)
    SideTable(str(root / "letters"), layout=layout).write(frame, batch(0))
    spark.sql(f"DELETE FROM delta.`{root / 'letters'}` WHERE offset = 0")


def holding(root: Path) -> list[str]:
    """Return the files and folders of which the name or the content has Anna in it."""
    return sorted({str(path.relative_to(root)) for path in root.rglob("*") if _holds(path, root)})


def _holds(path: Path, root: Path) -> bool:
    return any(_tells(text) for text in _texts(path, root))


def _texts(path: Path, root: Path) -> Iterator[str]:
    yield str(path.relative_to(root))
    if path.is_file():
        yield path.read_bytes().decode("latin-1")
        if path.suffix == ".parquet":
            file = parquet.ParquetFile(path)
            yield repr(file.read().to_pylist())
            for group in range(file.metadata.num_row_groups):
                yield repr(file.metadata.row_group(group).to_dict())


def _tells(text: str) -> bool:
    for user, number in sorted(OTHERS, key=lambda each: -len(each[0])):
        if len(user) > len(ANNA):
            text = text.replace(user, "")
        if number > NUMBER:
            text = text.replace(str(number), "")
    return ANNA in text or str(NUMBER) in text
