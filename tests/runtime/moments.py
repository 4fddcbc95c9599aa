"""A windowed job's checkpoint and tables at several moments, to be put together anew."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import SparkSession

from tidegate.commit.identity import Identity
from tidegate.errors import TidegateError
from tidegate.runtime.query.run import run
from tidegate.testing import Broker
from tidegate.testing.crash import crash_after

from .left import FIRST, SECOND, THIRD, Left
from .topics import sent

Record = float | str
RECORDS: list[Record] = [*FIRST, *SECOND, *THIRD]
MOMENTS = ("none", "first", "second", "begun", "third")
"""Before the job, after its three runs; and "begun": killed in its third run, once the dead letters
are written and the target is not."""
ASIDE = ("views.dead_letters", "views.late")
SIZE = 10


@dataclass(frozen=True)
class Moments:
    """Copies of a job's checkpoint and tables, each in a folder by the name of its moment."""

    left: Left
    folder: Path

    @classmethod
    def made(cls, spark: SparkSession, broker: Broker, topic: str, folder: Path) -> Moments:
        """Run the job three times, the third time twice, and keep what is there in between."""
        broker.create_topic(topic, partitions=1, retention_ms=-1)
        left = Left(broker, topic, folder / "job", folder)
        made = cls(left, folder)
        (folder / "none").mkdir(parents=True)
        for moment, records in (("first", FIRST), ("second", SECOND), ("begun", THIRD)):
            sent(broker.servers, topic, records)
            if moment == "begun":
                with crash_after(left.root / ASIDE[0]), suppress(TidegateError):
                    run(left.job(), spark)
            else:
                run(left.job(), spark)
            shutil.copytree(left.root, folder / moment)
        run(left.job(), spark)
        shutil.copytree(left.root, folder / "third")
        return made

    def put_together(self, to: Path, checkpoint: str, target: str, aside: str) -> Left:
        """Return a job's folder with the checkpoint, the target and the side tables of moments."""
        to.mkdir()
        parts = {"views.checkpoint": checkpoint, "views": target, **dict.fromkeys(ASIDE, aside)}
        for name, moment in parts.items():
            if (self.folder / moment / name).exists():
                shutil.copytree(self.folder / moment / name, to / name)
        made = replace(self.left, root=to)
        if made.identities:
            made.identities[-1].write_text(_moved(made.identity, self.left.root, to).text())
        return made


def _moved(noted: Identity, old: Path, new: Path) -> Identity:
    """Let the identity name tables below another folder, as if they had been made there."""
    here = {
        step: replace(mark, path=mark.path.replace(str(old), str(new)))
        for step, mark in noted.tables.items()
    }
    return replace(noted, tables=here)


def contents(root: Path) -> dict[str, set[str]]:
    """Return the files of each table that have rows, to see whether it was written."""
    return {
        name: {file.name for file in (root / name).glob("*.parquet")} for name in ("views", *ASIDE)
    }


def require_each_once(
    left: Left, records: Mapping[int, Record], *, without: Sequence[int] = ()
) -> None:
    """Require each record, by its offset, in one place: its window, the late table, dead letters.

    without: the first seconds of windows that are not to be looked at.
    """
    good = {at: float(each) for at, each in records.items() if not isinstance(each, str)}
    late = left.aside("late")
    assert set(late.values()) <= {1}, f"late twice: {late}"
    assert {at for _, at in late} <= set(good), f"late, and not to be read: {late}"
    counted = Counter(
        int(second // SIZE) * SIZE for at, second in good.items() if (0, at) not in late
    )
    closed = {start: n for start, n in counted.items() if start + SIZE <= max(good.values())}
    found = left.views()
    for start in without:
        closed.pop(start, None)
        found.pop(start, None)
    assert found == closed
    wanted = Counter((0, at) for at, each in records.items() if isinstance(each, str))
    assert left.aside("dead_letters") == wanted
