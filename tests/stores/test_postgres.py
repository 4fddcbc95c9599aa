"""A table of a real PostgreSQL kept in step: once, in the order of positions, value for value."""

from __future__ import annotations

import json
import random
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.aggregates import count
from tidegate.errors import ColumnError, ReplayMismatchError, StoreError, TableError, TidegateError
from tidegate.jvm import with_settings
from tidegate.runtime import Input, Job
from tidegate.runtime.process.exit_codes import code_of
from tidegate.runtime.query.run import run
from tidegate.sinks import Append, FanOut, Mirror
from tidegate.stores import Applied, PostgresStore
from tidegate.testing import Broker
from tidegate.testing.crash import CrashError, crash_after
from tidegate.windows import Tumbling, Windowed

from ..runtime.topics import reading, sent
from ..sinks.batches import batch
from ..tables import rows
from .server import PASSWORD, Server

pytestmark = pytest.mark.slow
SHAPE = "page STRING, n BIGINT, at BIGINT, gone BOOLEAN"
Change = tuple[str, int, int, bool]


def changes(spark: SparkSession, rows: list[Change]) -> dict[str, DataFrame]:
    return {"rows": spark.createDataFrame(rows, SHAPE)}


def stored(postgres: Server, table: str) -> dict[str, int]:
    return dict(postgres.run(f"SELECT page, n FROM {table} WHERE NOT tidegate_deleted"))


def drawn(seed: int) -> list[list[Change]]:
    """Return batches of changes out of order, some of which come again."""
    chance = random.Random(seed)
    made = [(f"p{chance.randrange(5)}", n, n, chance.random() < 0.3) for n in range(40)]
    made += chance.sample(made, 10)
    chance.shuffle(made)
    cuts = sorted(chance.sample(range(1, len(made)), 2))
    return [made[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(made)], strict=True)]


@pytest.mark.crash
@pytest.mark.draws("seed", short=[1], long=list(range(20)))
def test_whatever_the_order_and_the_crashes_the_table_has_the_newest_row_of_each_key(
    spark: SparkSession, postgres: Server, tmp_path: Path, seed: int
) -> None:
    table = f"drawn_{seed}"
    store = postgres.store(table)
    sink = Mirror(str(tmp_path / "t"), store=store, key="page", position="at", deleted="gone")
    batches = drawn(seed)
    for number, made in enumerate(batches):
        frames = changes(spark, made)
        if number == 1:
            with crash_after(sink.path), pytest.raises(CrashError):
                sink.write(frames, batch(number))
        if number == 2:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(PostgresStore, "apply", dying_after(PostgresStore.apply))
                with pytest.raises(CrashError):
                    sink.write(frames, batch(number))
        assert sink.write(frames, batch(number)) == ("skipped" if number == 1 else "written")
        assert sink.write(frames, batch(number)) == "skipped"
    newest: dict[str, Change] = {}
    for change in sorted((change for made in batches for change in made), key=lambda row: row[2]):
        newest[change[0]] = change
    assert stored(postgres, table) == {page: n for page, n, _, gone in newest.values() if not gone}
    noted = postgres.run("SELECT batch FROM tidegate_batches WHERE target = :t", t=table)
    assert noted == [[2]]
    applied = spark.read.format("delta").load(sink.path).orderBy("batch").collect()
    assert [(row.batch, row.rows) for row in applied] == [
        (number, len(made)) for number, made in enumerate(batches)
    ]


@pytest.mark.broker
@pytest.mark.crash
def test_a_job_keeps_a_table_in_step_beside_its_own_though_it_dies_between_them(
    spark: SparkSession, postgres: Server, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    windows = Windowed(Tumbling("4 seconds"), by="page", aggs={"n": count()})
    store = postgres.store("windows")
    mirror = Mirror(str(tmp_path / "applied"), store=store, key=["window_start", "page"])
    job = Job(
        name="counts",
        inputs={"clicks": Input(reading(broker.servers, topic, max_rows=10))},
        transform=windows,
        each_batch=lambda rows: rows.withColumn("window_start", F.col("window.start")),
        sink=FanOut(Append(str(tmp_path / "t")), also=[mirror]),
    )
    sent(broker.servers, topic, range(20))
    with crash_after(mirror.path, batch=1), pytest.raises(TidegateError, match="after batch 1"):
        run(job, spark)
    sent(broker.servers, topic, range(20, 40))
    run(job, spark)
    found = postgres.run("SELECT window_start, page, n FROM windows ORDER BY 1")
    assert [(at.second, page, n) for at, page, n in found] == [
        (at, "p0", 4) for at in range(0, 36, 4)
    ]
    assert len(rows(tmp_path / "t")) == len(found)


def dying_after(apply: Any) -> Any:
    """Return what applies a batch, and dies before anybody hears of it."""

    def dies(*arguments: Any) -> None:
        apply(*arguments)
        raise CrashError("after the store's commit")

    return dies


def test_values_are_the_same_to_the_last_digit(
    spark: SparkSession, postgres: Server, tmp_path: Path
) -> None:
    odd = "a\tb\nc\rd\\e\\N\"'{},:x é𝄞"
    frame = spark.sql(
        """SELECT 1 AS `a "key"`, CAST(127 AS TINYINT) AS tiny, CAST(-32768 AS SMALLINT) AS small,
        9223372036854775807 AS big, CAST(0.1 AS FLOAT) AS single, CAST('NaN' AS DOUBLE) AS nan,
        CAST('-Infinity' AS DOUBLE) AS least, CAST(1e-300 AS DOUBLE) AS tiniest,
        CAST('0.0000001' AS DECIMAL(20, 10)) AS money, true AS yes, X'00FF5C' AS bytes,
        DATE '0001-01-01' AS day, TIMESTAMP '9999-12-31 23:59:59.999999+00:00' AS at,
        TIMESTAMP_NTZ '2026-03-29 02:30:00.000001' AS wall, array(1L, null, -3L) AS numbers,
        array('x', null) AS words,
        named_struct('at', TIMESTAMP '2026-01-01 00:00:00+00:00') AS inner,
        CAST(null AS STRING) AS nothing, '' AS empty"""
    ).withColumn("odd", F.lit(odd))
    sink = Mirror(str(tmp_path / "t"), store=postgres.store("incoming"), key='a "key"')
    with with_settings(spark, {"spark.sql.session.timeZone": "Europe/Berlin"}):
        sink.write({"rows": frame}, batch(0))
        assert sink.write({"rows": frame}, batch(1)) == "written"
    ((*found,),) = postgres.run(
        "SELECT tiny, small, big, single, nan::text, least::text, tiniest, money, yes, bytes, day, "
        'at, wall, numbers, words::text, "inner"::text, nothing, empty, odd FROM incoming'
    )
    assert found == [
        127, -32768, 2**63 - 1, 0.1, "NaN", "-Infinity", 1e-300, Decimal("0.0000001000"), True,
        b"\x00\xff\x5c", date(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999, UTC),
        datetime(2026, 3, 29, 2, 30, 0, 1), [1, None, -3], '["x", null]',
        json.dumps({"at": "2026-01-01T00:00:00.000000Z"}), None, "", odd,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("select", "told"),
    [
        ("'a' AS page, concat('x', char(0)) AS n", "the character U+0000"),
        ("'a' AS page, array(concat('x', char(0))) AS n", "the character U+0000"),
        ("'a' AS page, CAST(X'FF' AS STRING) AS n", "text that is no UTF"),
        ("'a' AS page, array(CAST(X'FF' AS STRING)) AS n", "text that is no UTF"),
        ("'a' AS page, map('x', array(DOUBLE('NaN'))) AS n", "NaN or an infinite number"),
        ("'a' AS page, struct(FLOAT('-inf') AS x, 'b' AS y) AS n", "NaN or an infinite number"),
        ("'a' AS page, DATE '12026-01-01' AS n", "a year outside 1 to 9999"),
        ("'a' AS page, timestamp_micros(253402300800000000) AS n", "a year outside 1 to 9999"),
        ("explode(array('a', 'a')) AS page, 1 AS n", "two rows of one key"),
        ("CAST(null AS STRING) AS page, 1 AS n", "takes no null"),
        ("'a' AS page, INTERVAL 1 DAY AS n", "for which PostgreSQL has no type"),
        ("'a' AS page, 1 AS tidegate_deleted", "these are ours"),
    ],
)
def test_what_the_store_cannot_hold_is_refused_and_nothing_written(
    spark: SparkSession, postgres: Server, tmp_path: Path, select: str, told: str
) -> None:
    sink = Mirror(str(tmp_path / "t"), store=postgres.store("refused"), key="page")
    with pytest.raises(ColumnError if "type" not in told else TidegateError) as refused:
        sink.write({"rows": spark.sql(f"SELECT {select}")}, batch(0))
    assert told in str(refused.value)
    assert code_of(refused.value) == 2
    assert postgres.run("SELECT to_regclass('refused')") == [[None]]


def test_a_backslash_before_the_digits_of_no_character_is_text(
    spark: SparkSession, postgres: Server, tmp_path: Path
) -> None:
    frame = spark.createDataFrame([("a", ["\\u0000"])], "page STRING, n ARRAY<STRING>")
    sink = Mirror(str(tmp_path / "t"), store=postgres.store("slashes"), key="page")
    sink.write({"rows": frame}, batch(0))
    assert postgres.run("SELECT n->>0 FROM slashes") == [["\\u0000"]]


def test_a_table_that_does_not_belong_to_the_job_is_refused(
    spark: SparkSession, postgres: Server, tmp_path: Path
) -> None:
    frames = changes(spark, [("a", 1, 1, False)])
    sink = Mirror(str(tmp_path / "t"), store=postgres.store("ours"), key="page", deleted="gone")
    for number in range(2):
        sink.write(frames, batch(number))
    other = Mirror(str(tmp_path / "other"), store=sink.store, key="page", deleted="gone")
    with pytest.raises(ReplayMismatchError, match="batch 1 of j/q/mirror; batch 0 of j/q/mirror"):
        other.write(frames, batch(0))
    with pytest.raises(ReplayMismatchError, match="batch 1 of j/q/mirror; batch 1 of"):
        sink.store.apply(
            sink.rows(frames["rows"], 1),
            ["page"],
            Applied(sender="j/q/mirror", batch=1, offsets="planned anew", before=0),
        )
    # A process was held up between its look at the table and its write.
    with pytest.raises(ReplayMismatchError, match="has batch 1 of j/q/mirror; batch 0 of"):
        sink.store.apply(
            sink.rows(frames["rows"], 0),
            ["page"],
            Applied(sender="j/q/mirror", batch=0, offsets="plan-0", before=1),
        )
    qualified = Mirror(
        str(tmp_path / "o"), store=postgres.store("public.ours"), key="page", deleted="gone"
    )
    with pytest.raises(ReplayMismatchError, match="has batch 1"):
        qualified.write(frames, batch(0))
    # A copy of the store from before is put back.
    postgres.run("UPDATE tidegate_batches SET batch = 0 WHERE target = 'ours'")
    with pytest.raises(ReplayMismatchError, match=r"has batch 0 .* follows batch 1"):
        sink.write(frames, batch(2))
    postgres.run("UPDATE tidegate_batches SET batch = 1 WHERE target = 'ours'")
    postgres.run("ALTER TABLE ours DROP COLUMN n, ADD COLUMN n text")
    with pytest.raises(TableError, match=r"n text.*\n.*n bigint"):
        sink.write(frames, batch(2))
    assert postgres.run("SELECT tidegate_position FROM ours") == [[[1]]]
    postgres.run("ALTER TABLE ours ALTER tidegate_position DROP NOT NULL")
    with pytest.raises(TableError, match="tidegate_position NOT NULL"):
        sink.write(frames, batch(2))
    postgres.run("DROP TABLE ours")
    with pytest.raises(ReplayMismatchError, match="is gone, and tidegate_batches has batch 1"):
        sink.write(frames, batch(2))


def test_a_server_that_does_not_let_us_in_or_is_not_there_is_told_without_the_password(
    spark: SparkSession, postgres: Server, tmp_path: Path
) -> None:
    frames = changes(spark, [("a", 1, 1, False)])
    postgres.run(f"CREATE ROLE crowd LOGIN PASSWORD '{PASSWORD}' CONNECTION LIMIT 0")
    stores = [
        (postgres.store("t", password=f"not-{PASSWORD}"), "password authentication failed"),
        (postgres.store("t", port=1, attempts=2), "2 times: "),
        (postgres.store("nowhere.t"), 'schema "nowhere" does not exist'),
        (postgres.store("t", user="crowd", attempts=2), "2 times: too many connections for role"),
    ]
    for store, told in stores:
        sink = Mirror(str(tmp_path / "t"), store=store, key="page", deleted="gone")
        with pytest.raises(StoreError) as refused:
            sink.write(frames, batch(0))
        assert told in str(refused.value)
        assert code_of(refused.value) == 11
        assert PASSWORD not in f"{refused.value} {sink!r}"
    assert not Path(tmp_path / "t").exists()
