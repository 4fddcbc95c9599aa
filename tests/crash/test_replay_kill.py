"""A replay that dies goes on, and a switch that dies is finished before its job starts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidegate.commit.epochs import EpochFiles
from tidegate.errors import CheckpointError, TidegateError
from tidegate.runtime.query.run import run
from tidegate.runtime.replaying import carried
from tidegate.runtime.replaying import switch as switching
from tidegate.runtime.replaying.journal import Folder
from tidegate.runtime.replaying.replay import replay
from tidegate.testing import Broker, CrashError, crash_after

from ..runtime.left import FIRST, THIRD, WINDOWS, Left
from ..runtime.topics import sent

pytestmark = [pytest.mark.broker, pytest.mark.crash]


def test_a_replay_and_a_switch_that_die_go_on_where_they_were(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left = Left.made(spark, broker, topic, tmp_path)
    new = left.job()
    deaths = [("views.dead_letters.replay", 0), ("views.replay", 0), ("views.replay", 1)]
    for number, (table, batch) in enumerate(deaths):
        # What comes after the first start is past the end, and makes the next plan a longer one.
        place = left.root / table
        with crash_after(place, batch=batch), pytest.raises((CrashError, TidegateError)):
            replay(new, spark)
        sent(broker.servers, topic, THIRD[number : number + 1])
        with pytest.raises(CheckpointError, match=r"has not ended|replay ends at"):
            switching.switch(new, spark)
    found = replay(new, spark)
    assert found is not None
    assert (found.found.rows, found.found.different, found.found.missing) == (6, 1, 0)

    rename, left_to_do = switching.rename, 2

    def dying(folder: Folder, comes: str, leaves: str) -> None:
        nonlocal left_to_do
        left_to_do -= 1
        if left_to_do < 0:
            raise CrashError(folder.place)
        rename(folder, comes, leaves)

    with monkeypatch.context() as patch:
        patch.setattr(switching, "rename", dying)
        with pytest.raises(CrashError):
            switching.switch(new, spark)
    with pytest.raises(CheckpointError, match="are being switched"):
        run(new, spark)
    with pytest.raises(CheckpointError, match="a switch is under way"):
        switching.switch(new, spark, back=True)
    switching.switch(new, spark)
    sent(broker.servers, topic, THIRD[3:])
    run(new, spark)
    assert left.views() == {**WINDOWS, 0: 3}
    assert left.aside("late") == {(0, 16): 1}


def test_a_replay_from_the_middle_and_its_switch_that_die_lose_nothing(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left = Left.made(spark, broker, topic, tmp_path)
    before = left.views()
    new, start = left.job(), {topic: {0: len(FIRST)}}
    for dies in (
        # Noted, and its checkpoint has not begun.
        dying(EpochFiles, "succeed"),
        crash_after(left.root / "views.replay", batch=0),
        crash_after(left.root / "views.replay", batch=1),
    ):
        with dies, pytest.raises((CrashError, TidegateError)):
            replay(new, spark, start=start)
    found = replay(new, spark)
    assert found is not None
    assert (found.found.agree, found.found.rows, found.before) == (True, 2, 4)
    put = carried._put

    def put_and_die(*given: object) -> None:
        put(*given)  # type: ignore[arg-type]
        raise CrashError

    with monkeypatch.context() as patch:
        patch.setattr(carried, "_put", put_and_die)
        with pytest.raises(CrashError):
            switching.switch(new, spark)
    # The rows of before are there already, and are not taken twice.
    assert left.views() == before
    again = replay(new, spark)
    assert again is not None
    assert again.found.agree
    switching.switch(new, spark)
    assert left.views() == before
    sent(broker.servers, topic, THIRD)
    run(new, spark)
    assert left.views() == WINDOWS
    assert sorted(at for _, at in left.aside("late").elements()) == [8, 16]
    assert sorted(at for _, at in left.aside("dead_letters").elements()) == [2, 10, 17]


@contextmanager
def dying(kind: type, method: str) -> Iterator[None]:
    """Let a method raise in place of what it does."""

    def die(*_: object) -> None:
        raise CrashError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kind, method, die)
        yield
