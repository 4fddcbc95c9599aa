"""A batch's lines into PostgreSQL: any order, cut and redelivery, and a death in their midst."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pg8000 import native

from tidegate.errors import ReplayMismatchError
from tidegate.stores import Applied
from tidegate.stores._postgres_batch import Batch
from tidegate.stores.store import DELETED, POSITION

from .server import PASSWORD, Server

pytestmark = pytest.mark.slow
COLUMNS = {"page": "text", "n": "integer", POSITION: "bigint[]", DELETED: "boolean"}
Row = tuple[int, list[int], bool]
Rows = dict[str, Row]
"""Of each key: the value, the position and whether it is gone."""
POSITIONS = st.lists(st.integers(-2, 2), max_size=2)
BATCHES = st.lists(
    st.dictionaries(
        st.sampled_from("abc"), st.tuples(st.integers(0, 99), POSITIONS, st.booleans())
    ),
    max_size=6,
)


def told(number: int, before: int | None) -> Applied:
    return Applied(sender="j/q/mirror", batch=number, offsets=f"plan-{number}", before=before)


def lines(rows: Rows) -> Iterator[bytes]:
    for page, (n, position, gone) in rows.items():
        place = "{" + ",".join(map(str, position)) + "}"
        value = "\\N" if gone else str(n)
        yield f"{page}\t{value}\t{place}\t{gone}\n".encode()


@contextmanager
def connected(port: int) -> Iterator[native.Connection]:
    server = native.Connection("postgres", host="127.0.0.1", port=port, password=PASSWORD)
    try:
        yield server
    finally:
        server.close()


def apply(server: native.Connection, table: str, rows: Iterator[bytes], batch: Applied) -> None:
    server.run("START TRANSACTION")
    try:
        Batch(server, table, table, COLUMNS, ["page"]).apply(rows, batch)
    except ReplayMismatchError:
        server.run("ROLLBACK")
        raise
    server.run("COMMIT")


@settings(max_examples=10, deadline=None)
@given(batches=BATCHES, again=st.randoms(use_true_random=False))
def test_the_table_has_of_each_key_the_row_of_the_highest_position(
    postgres: Server, batches: list[Rows], again: Random
) -> None:
    table, expected = f"t{uuid4().hex}", Rows()
    with connected(postgres.port) as server:
        for number, rows in enumerate(batches):
            before = number - 1 if number else None
            for _ in range(again.choice([1, 1, 2])):
                apply(server, table, lines(rows), told(number, before))
            if number and again.random() < 0.3:
                with pytest.raises(ReplayMismatchError):
                    apply(server, table, lines(rows), told(number - 1, number))
            for page, row in rows.items():
                if page not in expected or expected[page][1] <= row[1]:
                    expected[page] = row
    if batches:
        found = postgres.run(f"SELECT page, n, {POSITION}, {DELETED} FROM {table}")
        assert {page: (n, place, gone) for page, n, place, gone in found} == {
            page: (None if gone else n, place, gone) for page, (n, place, gone) in expected.items()
        }


@pytest.mark.crash
def test_of_a_process_that_is_killed_in_the_midst_of_a_batch_nothing_stays(
    postgres: Server,
) -> None:
    first, second = {"a": (1, [0], False)}, {"a": (2, [1], False), "b": (2, [1], False)}
    with connected(postgres.port) as server:
        apply(server, "killed", lines(first), told(0, None))
    child = subprocess.Popen(
        [sys.executable, "-m", __name__, str(postgres.port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "in the midst\n"
    child.kill()
    child.communicate()
    assert postgres.run("SELECT page, n FROM killed") == [["a", 1]]
    with connected(postgres.port) as server:
        apply(server, "killed", lines(second), told(1, 0))
    assert postgres.run("SELECT page, n FROM killed ORDER BY 1") == [["a", 2], ["b", 2]]


def stuck(port: int) -> None:
    """Apply half a batch, and wait to be killed."""

    def half() -> Iterator[bytes]:
        yield from lines({"a": (9, [9], False)})
        print("in the midst", flush=True)
        sys.stdin.read()

    with connected(port) as server:
        apply(server, "killed", half(), told(1, 0))


if __name__ == "__main__":
    stuck(int(sys.argv[1]))
