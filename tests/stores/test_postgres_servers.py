"""PostgresStore: unresponsive servers, lost connections, TLS, encodings and schemas."""

from __future__ import annotations

import socket
import traceback
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.support.postgres_server import PASSWORD, Server
from tests.support.sink_batches import batch
from tidegate.errors import ColumnError, StoreError
from tidegate.sinks import Mirror
from tidegate.stores import PostgresStore
from tidegate.stores._postgres_copy import CopyText

pytestmark = pytest.mark.slow


def one_row(spark: SparkSession, n: str = "1") -> dict[str, DataFrame]:
    return {"rows": spark.sql(f"SELECT 'a' AS page, {n} AS n")}


def mirror(store: PostgresStore, path: Path, position: str | None = None) -> Mirror:
    return Mirror(str(path), store=store, key="page", position=position)


@pytest.mark.parametrize("tls", [False, True])
def test_an_unresponsive_server_is_abandoned_after_the_timeout(
    spark: SparkSession, tmp_path: Path, tls: bool
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        store = PostgresStore(
            "t", host="127.0.0.1", port=silent.getsockname()[1], tls=tls, timeout=2, attempts=1
        )
        with pytest.raises(StoreError, match="no login within 2 seconds"):
            mirror(store, tmp_path / "t").write(one_row(spark), batch(0))


def test_a_batch_is_retried_after_a_lost_connection(
    spark: SparkSession, postgres: Server, tmp_path: Path
) -> None:
    sink = mirror(postgres.store("cut"), tmp_path / "t")
    sink.write(one_row(spark), batch(0))
    postgres.run("CREATE SEQUENCE cuts")
    postgres.run("""CREATE FUNCTION cut() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF nextval('cuts') = 1 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF;
        RETURN NEW; END $$""")
    postgres.run("CREATE TRIGGER cut BEFORE UPDATE ON cut FOR EACH ROW EXECUTE FUNCTION cut()")
    assert sink.write(one_row(spark, "2"), batch(1)) == "written"
    assert postgres.run("SELECT page, n FROM cut") == [["a", 2]]
    assert postgres.run("SELECT last_value > 1 FROM cuts") == [[True]]


def test_tls_verifies_the_server(spark: SparkSession, postgres: Server, tmp_path: Path) -> None:
    trusted = postgres.store("verified", tls=True, certificates=str(postgres.certificate))
    mirror(trusted, tmp_path / "t").write(one_row(spark), batch(0))
    for store, message in [
        (postgres.store("verified", tls=True), "certificate verification failed"),
        (postgres.store("verified", tls=True, certificates="/nowhere.pem"), "nowhere.pem"),
    ]:
        with pytest.raises(StoreError, match=message):
            mirror(store, tmp_path / "t").write(one_row(spark), batch(1))


def test_a_database_with_another_encoding_stores_what_it_can_represent(
    spark: SparkSession, postgres: Server, tmp_path: Path
) -> None:
    postgres.run(
        "CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
    )
    sink = mirror(postgres.store("läden", database="latin"), tmp_path / "t")
    sink.write(one_row(spark, "'Zürich'"), batch(0))
    with pytest.raises(ColumnError, match="the database's encoding cannot represent it"):
        sink.write(one_row(spark, "'Łódź'"), batch(1))
    assert postgres.run('SELECT n FROM "läden"', database="latin") == [["Zürich"]]


def test_a_qualified_name_and_the_search_path_refer_to_the_same_table(
    spark: SparkSession, postgres: Server, tmp_path: Path
) -> None:
    postgres.run("CREATE SCHEMA first")
    postgres.run("CREATE SCHEMA second")
    postgres.run(f"CREATE ROLE walker SUPERUSER LOGIN PASSWORD '{PASSWORD}'")
    postgres.run("ALTER ROLE walker SET search_path TO first, second")
    mirror(postgres.store("second.t"), tmp_path / "t").write(one_row(spark), batch(0))
    mirror(postgres.store("t", user="walker"), tmp_path / "t").write(one_row(spark, "2"), batch(1))
    assert postgres.run("SELECT n FROM second.t") == [[2]]
    assert postgres.run("SELECT batch FROM second.tidegate_batches") == [[1]]
    assert postgres.run("SELECT to_regclass('first.tidegate_batches')") == [[None]]


def test_violated_constraints_are_reported_without_values_of_rows(
    spark: SparkSession, postgres: Server, tmp_path: Path
) -> None:
    sink = mirror(postgres.store("strict"), tmp_path / "t")
    sink.write(one_row(spark), batch(0))
    postgres.run("ALTER TABLE strict ALTER n SET NOT NULL, ADD CONSTRAINT low CHECK (n < 9)")
    with pytest.raises(ColumnError, match=r"null value: n of .*\n.*\n.*DROP NOT NULL"):
        sink.write(one_row(spark, "INT(null)"), batch(1))
    with pytest.raises(StoreError, match=r'constraint "low" \(SQLSTATE 23514\)') as refused:
        sink.write(one_row(spark, "48151000 + 623"), batch(1))
    assert "48151623" not in "".join(traceback.format_exception(refused.value))
    assert refused.value.__context__ is None


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        ("(1L, 7), (null, 7)", "at is null or contains a null"),
        ("(array(1L), 7), (array(null), 7)", "at is null or contains a null"),
        ("(1L, 7), (2L, 7), (2L, 8)", "at is equal in two different rows of a key"),
    ],
)
def test_rows_with_invalid_positions_are_refused(
    spark: SparkSession, postgres: Server, tmp_path: Path, positions: str, message: str
) -> None:
    frame = spark.sql(f"SELECT 'a' AS page, at, n FROM VALUES {positions} AS t(at, n)")
    with pytest.raises(ColumnError, match=message):
        mirror(postgres.store("unordered"), tmp_path / "t", "at").write({"rows": frame}, batch(0))
    assert postgres.run("SELECT to_regclass('unordered')") == [[None]]


def test_equal_rows_of_a_batch_are_stored_once(
    spark: SparkSession, postgres: Server, tmp_path: Path
) -> None:
    frame = spark.sql("SELECT * FROM VALUES ('a', 1, 7), ('a', 1, 7) AS t(page, at, n)")
    mirror(postgres.store("twice"), tmp_path / "t", "at").write({"rows": frame}, batch(0))
    assert postgres.run("SELECT page, n FROM twice") == [["a", 7]]


def test_large_rows_reach_the_driver_in_small_chunks(spark: SparkSession) -> None:
    texts = CopyText.from_rows(spark.sql("SELECT id, repeat('x', 3000000) AS text FROM range(4)"))
    try:
        sizes = sorted(len(chunk) for chunk in texts.chunks(texts.max_line_bytes()))
    finally:
        texts.lines.unpersist()
    assert sum(sizes) == 4 * 3_000_003
    assert sizes[-1] <= 8 << 20
