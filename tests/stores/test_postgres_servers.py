"""PostgreSQL as it is set up elsewhere: silent, cut off, by TLS, in another encoding or schema."""

from __future__ import annotations

import socket
import traceback
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tidegate.errors import ColumnError, StoreError
from tidegate.sinks import Mirror
from tidegate.stores import PostgresStore
from tidegate.stores._copy_text import Texts

from ..sinks.batches import batch
from .server import PASSWORD, Server

pytestmark = pytest.mark.slow


def one(spark: SparkSession, n: str = "1") -> dict[str, DataFrame]:
    return {"rows": spark.sql(f"SELECT 'a' AS page, {n} AS n")}


def mirror(store: PostgresStore, path: Path, position: str | None = None) -> Mirror:
    return Mirror(str(path), store=store, key="page", position=position)


@pytest.mark.parametrize("tls", [False, True])
def test_a_server_that_takes_the_call_and_says_nothing_is_left_in_time(
    spark: SparkSession, tmp_path: Path, tls: bool
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        store = PostgresStore(
            "t", host="127.0.0.1", port=silent.getsockname()[1], tls=tls, timeout=1, attempts=1
        )
        with pytest.raises(StoreError, match="no login within 1 seconds"):
            mirror(store, tmp_path / "t").write(one(spark), batch(0))


def test_a_batch_whose_connection_is_cut_in_its_midst_is_tried_again(
    spark: SparkSession, postgres: Server, tmp_path: Path
) -> None:
    sink = mirror(postgres.store("cut"), tmp_path / "t")
    sink.write(one(spark), batch(0))
    postgres.run("CREATE SEQUENCE cuts")
    postgres.run("""CREATE FUNCTION cut() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF nextval('cuts') = 1 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF;
        RETURN NEW; END $$""")
    postgres.run("CREATE TRIGGER cut BEFORE UPDATE ON cut FOR EACH ROW EXECUTE FUNCTION cut()")
    assert sink.write(one(spark, "2"), batch(1)) == "written"
    assert postgres.run("SELECT page, n FROM cut") == [["a", 2]]
    assert postgres.run("SELECT last_value > 1 FROM cuts") == [[True]]


def test_by_tls_the_server_is_checked(
    spark: SparkSession, postgres: Server, tmp_path: Path
) -> None:
    known = postgres.store("sealed", tls=True, certificates=str(postgres.certificate))
    mirror(known, tmp_path / "t").write(one(spark), batch(0))
    for store, told in [
        (postgres.store("sealed", tls=True), "certificate that does not hold"),
        (postgres.store("sealed", tls=True, certificates="/nowhere.pem"), "nowhere.pem"),
    ]:
        with pytest.raises(StoreError, match=told):
            mirror(store, tmp_path / "t").write(one(spark), batch(1))


def test_a_database_of_another_encoding_has_what_it_can_write(
    spark: SparkSession, postgres: Server, tmp_path: Path
) -> None:
    postgres.run(
        "CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
    )
    sink = mirror(postgres.store("läden", database="latin"), tmp_path / "t")
    sink.write(one(spark, "'Zürich'"), batch(0))
    with pytest.raises(ColumnError, match="a character that the database's encoding has not"):
        sink.write(one(spark, "'Łódź'"), batch(1))
    assert postgres.run('SELECT n FROM "läden"', database="latin") == [["Zürich"]]


def test_a_table_of_one_name_in_the_search_path_and_in_two_parts_is_one_table(
    spark: SparkSession, postgres: Server, tmp_path: Path
) -> None:
    postgres.run("CREATE SCHEMA first")
    postgres.run("CREATE SCHEMA second")
    postgres.run(f"CREATE ROLE walker SUPERUSER LOGIN PASSWORD '{PASSWORD}'")
    postgres.run("ALTER ROLE walker SET search_path TO first, second")
    mirror(postgres.store("second.t"), tmp_path / "t").write(one(spark), batch(0))
    mirror(postgres.store("t", user="walker"), tmp_path / "t").write(one(spark, "2"), batch(1))
    assert postgres.run("SELECT n FROM second.t") == [[2]]
    assert postgres.run("SELECT batch FROM second.tidegate_batches") == [[1]]
    assert postgres.run("SELECT to_regclass('first.tidegate_batches')") == [[None]]


def test_what_the_users_own_columns_and_rules_refuse_is_told_without_a_rows_values(
    spark: SparkSession, postgres: Server, tmp_path: Path
) -> None:
    sink = mirror(postgres.store("strict"), tmp_path / "t")
    sink.write(one(spark), batch(0))
    postgres.run("ALTER TABLE strict ALTER n SET NOT NULL, ADD CONSTRAINT low CHECK (n < 9)")
    with pytest.raises(ColumnError, match=r"takes no null in n, .*\n.*\n.*DROP NOT NULL"):
        sink.write(one(spark, "INT(null)"), batch(1))
    with pytest.raises(StoreError, match=r'constraint "low" \(SQLSTATE 23514\)') as refused:
        sink.write(one(spark, "48151000 + 623"), batch(1))
    assert "48151623" not in "".join(traceback.format_exception(refused.value))
    assert refused.value.__context__ is None


@pytest.mark.parametrize(
    ("positions", "told"),
    [
        ("(1L, 7), (null, 7)", "at is null, or has a null"),
        ("(array(1L), 7), (array(null), 7)", "at is null, or has a null"),
        ("(1L, 7), (2L, 7), (2L, 8)", "at is the same in two rows of one key that differ"),
    ],
)
def test_rows_that_have_no_place_among_those_of_their_key_are_refused(
    spark: SparkSession, postgres: Server, tmp_path: Path, positions: str, told: str
) -> None:
    frame = spark.sql(f"SELECT 'a' AS page, at, n FROM VALUES {positions} AS t(at, n)")
    with pytest.raises(ColumnError, match=told):
        mirror(postgres.store("placeless"), tmp_path / "t", "at").write({"rows": frame}, batch(0))
    assert postgres.run("SELECT to_regclass('placeless')") == [[None]]


def test_the_same_row_twice_in_a_batch_is_one(
    spark: SparkSession, postgres: Server, tmp_path: Path
) -> None:
    frame = spark.sql("SELECT * FROM VALUES ('a', 1, 7), ('a', 1, 7) AS t(page, at, n)")
    mirror(postgres.store("twice"), tmp_path / "t", "at").write({"rows": frame}, batch(0))
    assert postgres.run("SELECT page, n FROM twice") == [["a", 7]]


def test_large_rows_come_to_the_driver_a_few_at_a_time(spark: SparkSession) -> None:
    texts = Texts.of(spark.sql("SELECT id, repeat('x', 3000000) AS text FROM range(4)"))
    try:
        sizes = sorted(len(chunk) for chunk in texts.chunks(texts.longest()))
    finally:
        texts.close()
    assert sum(sizes) == 4 * 3_000_003
    assert sizes[-1] <= 8 << 20
