"""BatchWriter: any order, batches and repetitions, and a process that is killed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.postgres_server import Server
from tidegate.errors import TableMismatchError
from tidegate.stores import BatchInfo
from tidegate.stores._postgres_writer import BatchWriter
from tidegate.stores.store import DELETED, POSITION

pytestmark = pytest.mark.slow
COLUMNS = {"page": "text", "n": "integer", POSITION: "bigint[]", DELETED: "boolean"}
Row = tuple[int, list[int], bool]
Rows = dict[str, Row]
"""By key: the value, the position and whether it is deleted."""
POSITIONS = st.lists(st.integers(-2, 2), max_size=2)
BATCHES = st.lists(
    st.dictionaries(
        st.sampled_from("abc"), st.tuples(st.integers(0, 99), POSITIONS, st.booleans())
    ),
    max_size=6,
)


def batch_info(number: int, before: int | None) -> BatchInfo:
    return BatchInfo(
        sender="j/q/mirror", number=number, offsets_hash=f"plan-{number}", previous_number=before
    )


def lines(rows: Rows) -> Iterator[bytes]:
    for page, (n, position, deleted) in rows.items():
        array = "{" + ",".join(map(str, position)) + "}"
        value = "\\N" if deleted else str(n)
        yield f"{page}\t{value}\t{array}\t{deleted}\n".encode()


def apply(server: Server, table: str, rows: Iterator[bytes], batch: BatchInfo) -> None:
    with server.connect() as connection, connection.transaction():
        BatchWriter(connection, table, table, COLUMNS, ["page"]).apply(rows, batch)


@settings(max_examples=10, deadline=None)
@given(batches=BATCHES, random=st.randoms(use_true_random=False))
def test_the_table_contains_the_row_with_the_highest_position_of_each_key(
    postgres: Server, batches: list[Rows], random: Random
) -> None:
    table, expected = f"t{uuid4().hex}", Rows()
    for number, rows in enumerate(batches):
        before = number - 1 if number else None
        for _ in range(random.choice([1, 1, 2])):
            apply(postgres, table, lines(rows), batch_info(number, before))
        if number and random.random() < 0.3:
            with pytest.raises(TableMismatchError):
                apply(postgres, table, lines(rows), batch_info(number - 1, number))
        for page, row in rows.items():
            if page not in expected or expected[page][1] <= row[1]:
                expected[page] = row
    if batches:
        stored = postgres.run(f"SELECT page, n, {POSITION}, {DELETED} FROM {table}")
        assert {page: (n, position, deleted) for page, n, position, deleted in stored} == {
            page: (None if deleted else n, position, deleted)
            for page, (n, position, deleted) in expected.items()
        }


@pytest.mark.crash
def test_a_process_killed_during_a_batch_leaves_no_rows(
    postgres: Server,
) -> None:
    first, second = {"a": (1, [0], False)}, {"a": (2, [1], False), "b": (2, [1], False)}
    apply(postgres, "killed", lines(first), batch_info(0, None))
    child = subprocess.Popen(
        [sys.executable, "-m", __name__, str(postgres.port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "half applied\n"
    child.kill()
    child.communicate()
    assert postgres.run("SELECT page, n FROM killed") == [["a", 1]]
    apply(postgres, "killed", lines(second), batch_info(1, 0))
    assert postgres.run("SELECT page, n FROM killed ORDER BY 1") == [["a", 2], ["b", 2]]


def apply_half(port: int) -> None:
    """Apply half of a batch, and wait to be killed."""

    def half_of_lines() -> Iterator[bytes]:
        yield from lines({"a": (9, [9], False)})
        print("half applied", flush=True)
        sys.stdin.read()

    apply(Server(port, Path()), "killed", half_of_lines(), batch_info(1, 0))


if __name__ == "__main__":
    apply_half(int(sys.argv[1]))
