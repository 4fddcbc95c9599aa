"""A checkpoint's identity, the tables that it knows, and the fence: without Spark."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pytest

from tidegate.commit.fence import claimed, require_newest
from tidegate.commit.identity import Identity, TableMark, plan_hash
from tidegate.commit.kept import require_kept, require_own, undone
from tidegate.commit.ledger import Ledger
from tidegate.commit.logs import digest
from tidegate.commit.origins import Resumed
from tidegate.commit.stamp import Stamp
from tidegate.errors import (
    CheckpointError,
    FencedError,
    LostCheckpointError,
    ReplayMismatchError,
    TidegateError,
)

MARK = TableMark(path="/views", id="one", version=3, commit="third")
IDENTITY = Identity(
    job="j",
    query="q",
    epoch=2,
    batch=7,
    offsets={6: "a", 7: "b"},
    commits={6: "c"},
    files={"sources/0/0": "s"},
    tables={"append": MARK},
    topics={"clicks": "id"},
    streams={"clicks": 1},
    dead_topics=("clicks.dead",),
    plan={"transform": "None"},
    latest=17,
    resumed=Resumed(query="p", base=4, start={"clicks": {0: 5}}, whole=11),
)


@dataclass(frozen=True)
class Table:
    """A table as it is found."""

    path: str = "/views"
    id: str | None = "one"
    version: int = 3
    commits: Mapping[int, str] = field(default_factory=lambda: {3: "third"})
    put_back: Mapping[int, int | None] = field(default_factory=dict)
    ids: Sequence[str] = ()

    def digest(self, version: int) -> str | None:
        return self.commits.get(version)

    def restores(self, since: int) -> Mapping[int, int | None]:
        return self.put_back

    def writers(self) -> Sequence[str]:
        return self.ids


def test_an_identity_survives_its_own_text() -> None:
    assert Identity.parse(IDENTITY.text().encode(), "file") == IDENTITY
    bare = Identity(job="j")
    assert Identity.parse(bare.text().encode(), "file") == bare


def test_an_identity_is_whole_at_batches_and_partitions_of_any_number_of_digits() -> None:
    resumed = Resumed(query="p", base=4, start={"clicks": {9: 5, 10: 6}})
    wide = replace(
        IDENTITY, offsets={9: "a", 10: "b"}, commits={99: "c", 100: "d"}, resumed=resumed
    )
    assert Identity.parse(wide.text().encode(), "file") == wide
    told = {"kind": "tidegate identity/1", **asdict(wide)}
    text = json.dumps(told, sort_keys=True, separators=(",", ":"))
    of_before = {**told, "sha256": digest(text.encode())}
    assert Identity.parse(json.dumps(of_before).encode(), "file") == wide


def test_an_identity_with_any_byte_changed_cut_off_or_doubled_is_damaged() -> None:
    content = IDENTITY.text().encode()
    told = "file is damaged"
    for at in range(len(content)):
        flipped = bytearray(content)
        flipped[at] ^= 1
        # White space outside of texts alone may be another one.
        with suppress(CheckpointError):
            assert Identity.parse(bytes(flipped), "file") == IDENTITY
    for broken in (b"", b"{}", b"null", content[: len(content) // 2], content + content):
        with pytest.raises(CheckpointError, match=told):
            Identity.parse(broken, "file")


def test_a_batch_leaves_its_hashes_and_tables_and_the_two_newest_are_kept() -> None:
    then = IDENTITY.after(8, "d", {"dead": MARK}, query="q", latest=9).committed(7, "e")
    assert (then.batch, then.latest) == (8, 17)
    assert (then.offsets, then.commits) == ({7: "b", 8: "d"}, {6: "c", 7: "e"})
    assert set(then.tables) == {"append", "dead"}


@pytest.mark.parametrize(
    ("table", "error", "says"),
    [
        (Table(id=None, version=-1), ReplayMismatchError, "is gone"),
        (Table(id="two"), ReplayMismatchError, "another table, two"),
        (Table(version=2), ReplayMismatchError, "older than its checkpoint: at version 2"),
        (Table(commits={3: "other"}), ReplayMismatchError, "another commit at version 3"),
        (Table(version=4, put_back={4: 1}), ReplayMismatchError, "older version by the commit 4"),
        (Table(version=4, put_back={4: None}), ReplayMismatchError, "by the commit 4"),
        (Table(path="/new", id=None), CheckpointError, "where there is no table; this checkpoint"),
        (Table(path="/new", id="two"), CheckpointError, "where there is table two"),
    ],
)
def test_a_table_that_is_not_the_one_noted_is_refused(
    table: Table, error: type[TidegateError], says: str
) -> None:
    with pytest.raises(error, match=says) as found:
        require_kept("append", MARK, table)
    assert "/views" in str(found.value)
    assert "version 3" in str(found.value) or "table one" in str(found.value)


@pytest.mark.parametrize(
    "table",
    [
        Table(),
        Table(version=9),
        Table(commits={}),
        Table(path="/moved"),
        Table(version=5, put_back={4: 1, 5: 3}),
        Table(version=6, put_back={6: 5}),
    ],
    ids=["same", "newer", "log cleaned", "moved", "put back and again", "put back to a later one"],
)
def test_a_table_that_has_all_that_was_noted_is_taken(table: Table) -> None:
    require_kept("append", MARK, table)


def test_what_was_restored_of_a_loss_is_a_loss() -> None:
    assert undone(3, 6, {4: 2, 6: 4}) == 6
    assert undone(3, 6, {4: 2, 6: 3}) is None
    assert undone(3, 7, {4: 2, 5: 3, 7: 5}) is None


@pytest.mark.parametrize(
    ("writers", "query"),
    [
        ([], None),
        (["k/p/append", "j/p/dead", "other"], None),
        (["j/replay/append"], None),
        (["j/p/append", "j/q/append"], "q"),
    ],
)
def test_a_table_without_another_query_of_the_job_is_its_own(
    writers: list[str], query: str | None
) -> None:
    require_own("append", "j", query, Table(ids=writers))


@pytest.mark.parametrize("query", [None, "q"])
def test_a_table_of_another_checkpoint_of_the_job_is_refused(query: str | None) -> None:
    with pytest.raises(LostCheckpointError, match=r"another checkpoint .query p"):
        require_own("append", "j", query, Table(ids=["j/p/append"]))


class Epochs:
    """Epochs in memory, which another start may claim in between."""

    def __init__(self, *races: int) -> None:
        self.claims = {0}
        self.races = list(races)

    def newest(self) -> int:
        return max(self.claims)

    def create(self, epoch: int) -> bool:
        if self.races:
            self.claims.add(self.races.pop(0))
        if epoch in self.claims:
            return False
        self.claims.add(epoch)
        return True


def test_each_start_has_an_epoch_of_its_own_and_only_the_newest_may_write() -> None:
    epochs = Epochs(1, 2)
    first = claimed(epochs)
    require_newest(epochs, first)
    second = claimed(epochs)
    assert (first, second) == (3, 4)
    require_newest(epochs, second)
    with pytest.raises(FencedError, match=r"in epoch 4.* has epoch 3"):
        require_newest(epochs, first)


class Files:
    """Identity files in memory, as other drivers leave them."""

    path = "c"

    def __init__(self, *found: Identity) -> None:
        self.found = found

    def read(self) -> Identity | None:
        return max(self.found, key=lambda each: (each.batch, each.epoch), default=None)


def ledger(identity: Identity, *found: Identity) -> Ledger:
    files: Any = Files(*found)
    return Ledger(files, identity, {"append": "/views"})


def test_what_a_driver_before_has_finished_is_taken_up_and_a_gap_is_refused() -> None:
    before = replace(IDENTITY, epoch=1, batch=8)
    mine = ledger(replace(IDENTITY, epoch=2, plan={"transform": "other"}), before)
    mine.begins(8)
    assert mine.identity.batch == 7
    mine.begins(9)
    assert (mine.identity.batch, mine.identity.epoch) == (8, 2)
    assert mine.identity.plan == {"transform": "other"}
    with pytest.raises(CheckpointError, match=r"goes on with batch 11.* noted is 8"):
        mine.begins(11)


def test_a_table_that_another_first_start_has_made_in_between_is_refused_at_the_commit() -> None:
    stamp = Stamp(job="j", query="q", run="r", batch=0, step="append", offsets="o", end={}, rows={})
    mine = ledger(Identity(job="j"))
    none: Any = Table(id=None, version=-1)
    mine.require_kept(none, stamp)
    theirs: Any = Table(ids=["j/p/append"])
    with pytest.raises(LostCheckpointError):
        mine.require_kept(theirs, stamp)


def test_plans_of_other_parts_have_other_hashes_and_their_order_does_not_count() -> None:
    assert plan_hash({"a": "1", "b": "2"}) == plan_hash({"b": "2", "a": "1"})
    assert plan_hash({"a": "1"}) != plan_hash({"a": "2"})


def test_other_streams_of_an_input_are_refused_once_a_batch_is_written() -> None:
    mine = ledger(replace(IDENTITY, streams={"clicks": 2, "views": 1}))
    with pytest.raises(CheckpointError, match="clicks of 2, now of 1; views of 1, now of 2"):
        mine.reads({"clicks": 1, "views": 2})
    mine.reads({"clicks": 2, "views": 1, "more": 3})
    assert mine.identity.streams == {"clicks": 2, "views": 1, "more": 3}
    new = ledger(replace(IDENTITY, streams={"clicks": 2}, batch=-1))
    new.reads({"clicks": 1})
    assert new.identity.streams == {"clicks": 1}
