"""Mirror and PostgresStore: exactly once, in the order of positions, with exact values."""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.delta_tables import rows
from tests.support.kafka_topics import pages_input, send_records
from tests.support.postgres_server import PASSWORD, Server
from tests.support.sink_batches import batch
from tidegate import Job, run
from tidegate.aggregates import count
from tidegate.errors import (
    ColumnError,
    LostCheckpointError,
    StoreError,
    TableError,
    TableMismatchError,
    TidegateError,
)
from tidegate.jvm import with_settings
from tidegate.process.exit_codes import exit_code
from tidegate.sinks import Append, FanOut, Mirror
from tidegate.stores import BatchInfo, PostgresStore
from tidegate.testing import Broker
from tidegate.testing.crash_points import CrashError, crash_after
from tidegate.windows import Tumbling, WindowAggregation

pytestmark = pytest.mark.slow
SCHEMA = "page STRING, n BIGINT, at BIGINT, deleted BOOLEAN"
Change = tuple[str, int, int, bool]


def changes(spark: SparkSession, rows: list[Change]) -> dict[str, DataFrame]:
    return {"rows": spark.createDataFrame(rows, SCHEMA)}


def stored(postgres: Server, table: str) -> dict[str, int]:
    return dict(postgres.run(f"SELECT page, n FROM {table} WHERE NOT tidegate_deleted"))


def random_batches(seed: int) -> list[list[Change]]:
    """Return batches of changes in random order, some of them repeated."""
    chance = random.Random(seed)
    events = [(f"p{chance.randrange(5)}", n, n, chance.random() < 0.3) for n in range(40)]
    events += chance.sample(events, 10)
    chance.shuffle(events)
    cuts = sorted(chance.sample(range(1, len(events)), 2))
    return [events[start:end] for start, end in zip([0, *cuts], [*cuts, len(events)], strict=True)]


@pytest.mark.crash
@pytest.mark.draws("seed", short=[1], long=list(range(20)))
def test_the_table_contains_the_newest_row_of_each_key_for_any_order_and_crashes(
    spark: SparkSession, postgres: Server, tmp_path: Path, seed: int
) -> None:
    table = f"drawn_{seed}"
    store = postgres.store(table)
    sink = Mirror(str(tmp_path / "t"), store=store, key="page", position="at", deleted="deleted")
    batches = random_batches(seed)
    for number, events in enumerate(batches):
        frames = changes(spark, events)
        if number == 1:
            with crash_after(sink.path), pytest.raises(CrashError):
                sink.write(frames, batch(number))
        if number == 2:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(PostgresStore, "apply", crash_after_apply(PostgresStore.apply))
                with pytest.raises(CrashError):
                    sink.write(frames, batch(number))
        assert sink.write(frames, batch(number)) == ("skipped" if number == 1 else "written")
        assert sink.write(frames, batch(number)) == "skipped"
    newest: dict[str, Change] = {}
    for change in sorted(
        (change for events in batches for change in events), key=lambda row: row[2]
    ):
        newest[change[0]] = change
    assert stored(postgres, table) == {
        page: n for page, n, _, deleted in newest.values() if not deleted
    }
    recorded = postgres.run("SELECT batch FROM tidegate_batches WHERE target = %(t)s", t=table)
    assert recorded == [[2]]
    applied = spark.read.format("delta").load(sink.path).orderBy("batch").collect()
    assert [(row.batch, row.rows) for row in applied] == [
        (number, len(events)) for number, events in enumerate(batches)
    ]


@pytest.mark.broker
@pytest.mark.crash
def test_a_job_mirrors_its_results_across_a_crash_between_the_tables(
    spark: SparkSession, postgres: Server, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    windows = WindowAggregation(Tumbling("4 seconds"), by="page", aggs={"n": count()})
    store = postgres.store("windows")
    mirror = Mirror(str(tmp_path / "applied"), store=store, key=["window_start", "page"])
    job = Job(
        name="counts",
        inputs={"clicks": pages_input(broker.bootstrap_servers, topic, max_records=10)},
        transform=windows,
        each_batch=lambda rows: rows.withColumn("window_start", F.col("window.start")),
        sink=FanOut(Append(str(tmp_path / "t")), other_sinks=[mirror]),
    )
    send_records(broker.bootstrap_servers, topic, range(20))
    with crash_after(mirror.path, batch=1), pytest.raises(TidegateError, match="after batch 1"):
        run(job, spark)
    send_records(broker.bootstrap_servers, topic, range(20, 40))
    run(job, spark)
    stored_rows = postgres.run("SELECT window_start, page, n FROM windows ORDER BY 1")
    assert [(at.second, page, n) for at, page, n in stored_rows] == [
        (at, "p0", 4) for at in range(0, 36, 4)
    ]
    assert len(rows(tmp_path / "t")) == len(stored_rows)


def crash_after_apply(apply: Any) -> Any:
    """Return a function that applies a batch and then raises CrashError."""

    def apply_and_crash(*arguments: Any) -> None:
        apply(*arguments)
        raise CrashError("after the store's commit")

    return apply_and_crash


def test_values_are_stored_exactly(spark: SparkSession, postgres: Server, tmp_path: Path) -> None:
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
    ((*values,),) = postgres.run(
        "SELECT tiny, small, big, single, nan::text, least::text, tiniest, money, yes, bytes, day, "
        'at, wall, numbers, words::text, "inner"::text, nothing, empty, odd FROM incoming'
    )
    assert values == [
        127, -32768, 2**63 - 1, 0.1, "NaN", "-Infinity", 1e-300, Decimal("0.0000001000"), True,
        b"\x00\xff\x5c", date(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999, UTC),
        datetime(2026, 3, 29, 2, 30, 0, 1), [1, None, -3], '["x", null]',
        json.dumps({"at": "2026-01-01T00:00:00.000000Z"}), None, "", odd,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("select", "message"),
    [
        ("'a' AS page, concat('x', char(0)) AS n", "the character U+0000"),
        ("'a' AS page, array(concat('x', char(0))) AS n", "the character U+0000"),
        ("'a' AS page, CAST(X'FF' AS STRING) AS n", "invalid UTF"),
        ("'a' AS page, array(CAST(X'FF' AS STRING)) AS n", "invalid UTF"),
        ("'a' AS page, map('x', array(DOUBLE('NaN'))) AS n", "NaN or infinity"),
        ("'a' AS page, struct(FLOAT('-inf') AS x, 'b' AS y) AS n", "NaN or infinity"),
        ("'a' AS page, DATE '12026-01-01' AS n", "a year outside 1 to 9999"),
        ("'a' AS page, timestamp_micros(253402300800000000) AS n", "a year outside 1 to 9999"),
        ("explode(array('a', 'a')) AS page, 1 AS n", "duplicate key in a batch"),
        ("CAST(null AS STRING) AS page, 1 AS n", "null key: page"),
        ("'a' AS page, INTERVAL 1 DAY AS n", "PostgreSQL has no type for"),
        ("'a' AS page, 1 AS tidegate_deleted", "reserved column name"),
    ],
)
def test_unrepresentable_values_are_refused_and_nothing_is_written(
    spark: SparkSession, postgres: Server, tmp_path: Path, select: str, message: str
) -> None:
    sink = Mirror(str(tmp_path / "t"), store=postgres.store("refused"), key="page")
    with pytest.raises(ColumnError if "type" not in message else TidegateError) as refused:
        sink.write({"rows": spark.sql(f"SELECT {select}")}, batch(0))
    assert message in str(refused.value)
    assert exit_code(refused.value) == 2
    assert postgres.run("SELECT to_regclass('refused')") == [[None]]


def test_an_escaped_backslash_before_u0000_is_text(
    spark: SparkSession, postgres: Server, tmp_path: Path
) -> None:
    frame = spark.createDataFrame([("a", ["\\u0000"])], "page STRING, n ARRAY<STRING>")
    sink = Mirror(str(tmp_path / "t"), store=postgres.store("slashes"), key="page")
    sink.write({"rows": frame}, batch(0))
    assert postgres.run("SELECT n->>0 FROM slashes") == [["\\u0000"]]


def test_a_table_of_another_job_or_state_is_refused(
    spark: SparkSession, postgres: Server, tmp_path: Path
) -> None:
    frames = changes(spark, [("a", 1, 1, False)])
    sink = Mirror(str(tmp_path / "t"), store=postgres.store("owned"), key="page", deleted="deleted")
    for number in range(2):
        sink.write(frames, batch(number))
    other = Mirror(str(tmp_path / "other"), store=sink.store, key="page", deleted="deleted")
    with pytest.raises(
        TableMismatchError, match=r"batch 1 of j/q/mirror; .*\n.*batch 0 of j/q/mirror"
    ):
        other.write(frames, batch(0))
    with pytest.raises(TableMismatchError, match=r"batch 1 of j/q/mirror; .*\n.*batch 1 of"):
        sink.store.apply(
            sink.rows(frames["rows"], 1),
            ["page"],
            BatchInfo(
                sender="j/q/mirror", number=1, offsets_hash="another plan", previous_number=0
            ),
        )
    # A process was paused between its query and its write.
    with pytest.raises(TableMismatchError, match=r"is at batch 1 of j/q/mirror; .*\n.*batch 0 of"):
        sink.store.apply(
            sink.rows(frames["rows"], 0),
            ["page"],
            BatchInfo(sender="j/q/mirror", number=0, offsets_hash="plan-0", previous_number=1),
        )
    qualified = Mirror(
        str(tmp_path / "o"), store=postgres.store("public.owned"), key="page", deleted="deleted"
    )
    with pytest.raises(TableMismatchError, match="is at batch 1"):
        qualified.write(frames, batch(0))
    # The store is restored from an older backup.
    postgres.run("UPDATE tidegate_batches SET batch = 0 WHERE target = 'owned'")
    with pytest.raises(TableMismatchError, match=r"is at batch 0 .*\n.* follows batch 1"):
        sink.write(frames, batch(2))
    postgres.run("UPDATE tidegate_batches SET batch = 1 WHERE target = 'owned'")
    postgres.run("ALTER TABLE owned DROP COLUMN n, ADD COLUMN n text")
    with pytest.raises(TableError, match=r"n text.*\n.*n bigint"):
        sink.write(frames, batch(2))
    assert postgres.run("SELECT tidegate_position FROM owned") == [[[1]]]
    postgres.run("ALTER TABLE owned ALTER tidegate_position DROP NOT NULL")
    with pytest.raises(TableError, match="tidegate_position NOT NULL"):
        sink.write(frames, batch(2))
    postgres.run("DROP TABLE owned")
    with pytest.raises(
        TableMismatchError, match=r"is missing.*\n.*tidegate_batches has its batch 1"
    ):
        sink.write(frames, batch(2))


def test_a_failed_login_and_a_missing_server_are_reported_without_the_password(
    spark: SparkSession, postgres: Server, tmp_path: Path
) -> None:
    frames = changes(spark, [("a", 1, 1, False)])
    postgres.run(f"CREATE ROLE crowd LOGIN PASSWORD '{PASSWORD}' CONNECTION LIMIT 0")
    stores = [
        (postgres.store("t", password=f"not-{PASSWORD}"), "password authentication failed"),
        (postgres.store("t", port=1, attempts=2), "after 2 attempts"),
        (postgres.store("nowhere.t"), 'schema "nowhere" does not exist'),
        (postgres.store("t", user="crowd", attempts=2), "too many connections for role"),
    ]
    for store, message in stores:
        sink = Mirror(str(tmp_path / "t"), store=store, key="page", deleted="deleted")
        with pytest.raises(StoreError) as refused:
            sink.write(frames, batch(0))
        assert message in str(refused.value)
        assert exit_code(refused.value) == 11
        assert PASSWORD not in f"{refused.value} {sink!r}"
    assert not Path(tmp_path / "t").exists()


def test_columns_that_postgresql_computes_are_left_to_it_and_refused_in_rows(
    spark: SparkSession, postgres: Server, tmp_path: Path
) -> None:
    postgres.run(
        "CREATE TABLE computed (page text NOT NULL PRIMARY KEY, n bigint, at bigint, "
        "tidegate_position bigint[] NOT NULL, tidegate_deleted boolean NOT NULL, "
        "double bigint GENERATED ALWAYS AS (2 * n) STORED, "
        "number bigint GENERATED ALWAYS AS IDENTITY)"
    )
    store = postgres.store("computed")
    sink = Mirror(str(tmp_path / "t"), store=store, key="page", position="at", deleted="deleted")
    for number, n in enumerate((3, 5)):
        frames = changes(spark, [("a", n, number, False)])
        assert sink.write(frames, batch(number)) == "written"
        assert sink.write(frames, batch(number)) == "skipped"
    assert postgres.run("SELECT n, double, number FROM computed") == [[5, 10, 1]]

    columns = {each: each for each in ("page", "n", "at", "deleted")} | {"double": "n"}
    other = Mirror(
        str(tmp_path / "other"),
        store=store,
        key="page",
        position="at",
        deleted="deleted",
        columns=columns,
    )
    with pytest.raises(TableError, match="computes the columns double"):
        other.write(changes(spark, [("a", 1, 9, False)]), batch(0))


@pytest.mark.broker
@pytest.mark.crash
@pytest.mark.parametrize("crash", ["before its table", "after its table"])
def test_a_job_resumes_after_a_crash_behind_the_mirror_and_a_lost_checkpoint(
    crash: str, spark: SparkSession, postgres: Server, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    name = f"resumed_{crash[0]}"
    mirror = Mirror(str(tmp_path / "applied"), store=postgres.store(name), key="offset")
    clicks = pages_input(broker.bootstrap_servers, topic, max_records=10)
    job = Job(
        name="clicks",
        inputs={"clicks": replace(clicks, kafka_columns=["offset"])},
        sink=FanOut(Append(str(tmp_path / "t")), other_sinks=[mirror]),
    )
    send_records(broker.bootstrap_servers, topic, range(10))
    run(job, spark)
    send_records(broker.bootstrap_servers, topic, range(10, 20))
    with pytest.MonkeyPatch.context() as patch:
        if crash == "before its table":
            patch.setattr(PostgresStore, "apply", crash_after_apply(PostgresStore.apply))
            with pytest.raises(TidegateError, match="after the store's commit"):
                run(job, spark)
        else:
            with crash_after(mirror.path, batch=1), pytest.raises(TidegateError, match="batch 1"):
                run(job, spark)
    assert len(rows(tmp_path / "t")) < postgres.run(f"SELECT count(*) FROM {name}")[0][0]
    shutil.rmtree(job.locations.checkpoint)
    with pytest.raises(LostCheckpointError, match="--resume-from-table"):
        run(job, spark)
    send_records(broker.bootstrap_servers, topic, range(20, 40))
    run(job, spark, resume_from_table=True)
    run(job, spark)
    assert sorted(row["offset"] for row in rows(tmp_path / "t")) == list(range(40))
    mirrored = postgres.run(f'SELECT "offset" FROM {name} ORDER BY 1')
    assert mirrored == [[offset] for offset in range(40)]
