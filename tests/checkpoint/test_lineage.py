"""The lineage of a checkpoint, the tables that it records, and fencing: without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tidegate.checkpoint.lineage import (
    CheckpointLineage,
    RecordedTable,
    ResumePoint,
    hash_fingerprint,
)
from tidegate.checkpoint.lineage_files import claim_next_epoch, require_newest_epoch
from tidegate.commit.batch import Stamp
from tidegate.commit.driver_lease import DriverLease
from tidegate.commit.ownership import require_own_checkpoint, require_unchanged, undoing_restore
from tidegate.errors import (
    CheckpointError,
    FencedError,
    LostCheckpointError,
    TableMismatchError,
    TidegateError,
)

RECORDED = RecordedTable(path="/views", id="one", version=3, commit_hash="third")
LINEAGE = CheckpointLineage(
    job="j",
    query="q",
    epoch=2,
    last_batch=7,
    offsets_hashes={6: "a", 7: "b"},
    commit_hashes={6: "c"},
    file_hashes={"sources/0/0": "s"},
    tables={"append": RECORDED},
    outputs=("append",),
    topic_ids={"clicks": "id"},
    stream_counts={"clicks": 1},
    dead_letter_topics=("clicks.dead",),
    fingerprint={"transform": "None"},
    max_event_time=17,
    resume_point=ResumePoint(query="p", first_batch=4, start={"clicks": {0: 5}}, complete_after=11),
)


@dataclass(frozen=True)
class Table:
    """An observed table in memory."""

    path: str = "/views"
    id: str | None = "one"
    version: int = 3
    commits: Mapping[int, str] = field(default_factory=lambda: {3: "third"})
    restores: Mapping[int, int | None] = field(default_factory=dict)
    app_ids: Sequence[str] = ()

    def commit_hash(self, version: int) -> str | None:
        return self.commits.get(version)

    def restores_after(self, after_version: int) -> Mapping[int, int | None]:
        return self.restores

    def writer_app_ids(self) -> Sequence[str]:
        return self.app_ids


def test_a_lineage_is_read_as_it_was_written() -> None:
    assert CheckpointLineage.from_json(LINEAGE.to_json().encode(), "file") == LINEAGE
    new = CheckpointLineage(job="j")
    assert CheckpointLineage.from_json(new.to_json().encode(), "file") == new


def test_batches_and_partitions_can_have_any_number_of_digits() -> None:
    wide = replace(
        LINEAGE,
        offsets_hashes={9: "a", 10: "b"},
        commit_hashes={99: "c", 100: "d"},
        resume_point=ResumePoint(query="p", first_batch=4, start={"clicks": {9: 5, 10: 6}}),
    )
    assert CheckpointLineage.from_json(wide.to_json().encode(), "file") == wide


def test_a_lineage_with_a_changed_missing_or_repeated_byte_is_damaged() -> None:
    content = LINEAGE.to_json().encode()
    for position in range(len(content)):
        changed = bytearray(content)
        changed[position] ^= 1
        # Only white space between values can change without damage.
        with suppress(CheckpointError):
            assert CheckpointLineage.from_json(bytes(changed), "file") == LINEAGE
    for broken in (b"", b"{}", b"null", content[: len(content) // 2], content + content):
        with pytest.raises(CheckpointError, match="file is damaged"):
            CheckpointLineage.from_json(broken, "file")


def test_a_batch_adds_its_hashes_and_tables_and_the_two_newest_are_retained() -> None:
    after = LINEAGE.with_batch(8, "d", {"dead": RECORDED}, query="q", max_event_time=9).with_commit(
        7, "e"
    )
    assert (after.last_batch, after.max_event_time) == (8, 17)
    assert (after.offsets_hashes, after.commit_hashes) == ({7: "b", 8: "d"}, {6: "c", 7: "e"})
    assert set(after.tables) == {"append", "dead"}


@pytest.mark.parametrize(
    ("table", "error", "message"),
    [
        (Table(id=None, version=-1), TableMismatchError, "/views does not exist"),
        (Table(id="two"), TableMismatchError, "another table, two"),
        (Table(version=2), TableMismatchError, "older than its checkpoint: at version 2"),
        (Table(commits={3: "other"}), TableMismatchError, "another commit at version 3"),
        (Table(version=4, restores={4: 1}), TableMismatchError, "older version by commit 4"),
        (Table(version=4, restores={4: None}), TableMismatchError, "by commit 4"),
        (Table(path="/new", id=None), CheckpointError, "where no table exists; this checkpoint"),
        (Table(path="/new", id="two"), CheckpointError, "where table two exists"),
    ],
)
def test_another_table_than_the_recorded_one_is_refused(
    table: Table, error: type[TidegateError], message: str
) -> None:
    with pytest.raises(error, match=message) as refusal:
        require_unchanged("append", RECORDED, table)
    assert "/views" in str(refusal.value)
    assert "version 3" in str(refusal.value) or "table one" in str(refusal.value)


@pytest.mark.parametrize(
    "table",
    [
        Table(),
        Table(version=9),
        Table(commits={}),
        Table(path="/moved"),
        Table(version=5, restores={4: 1, 5: 3}),
        Table(version=6, restores={6: 5}),
    ],
    ids=["same", "newer", "log cleaned", "moved", "restored back", "restored to a later version"],
)
def test_a_table_with_all_recorded_rows_is_accepted(table: Table) -> None:
    require_unchanged("append", RECORDED, table)
    newer = replace(RECORDED, version=table.version + 1)
    with pytest.raises(TableMismatchError, match=f"at version {table.version}"):
        require_unchanged("append", newer, table)


def test_a_restore_of_a_version_without_the_rows_still_lacks_them() -> None:
    assert undoing_restore(3, 6, {4: 2, 6: 4}) == 6
    assert undoing_restore(3, 6, {4: 2, 6: 3}) is None
    assert undoing_restore(3, 7, {4: 2, 5: 3, 7: 5}) is None


@pytest.mark.parametrize(
    ("writers", "query"),
    [
        ([], None),
        (["k/p/append", "j/p/dead", "other"], None),
        (["j/replay/append"], None),
        (["j/p/append", "j/q/append"], "q"),
    ],
)
def test_a_table_without_commits_of_another_query_of_the_job_is_accepted(
    writers: list[str], query: str | None
) -> None:
    require_own_checkpoint("append", "j", query, Table(app_ids=writers))
    with pytest.raises(LostCheckpointError, match=r"query .*other"):
        require_own_checkpoint(
            "append", "j", "another", Table(app_ids=[*writers, "j/other/append"])
        )


@pytest.mark.parametrize("query", [None, "q"])
def test_a_table_of_another_checkpoint_of_the_job_is_refused(query: str | None) -> None:
    with pytest.raises(LostCheckpointError, match=r"another checkpoint .query p"):
        require_own_checkpoint("append", "j", query, Table(app_ids=["j/p/append"]))


class Epochs:
    """Epochs in memory, some of which another start claims first."""

    path = "checkpoint"

    def __init__(self, *races: int) -> None:
        self.claims = {0}
        self.races = list(races)

    def newest_epoch(self) -> int:
        return max(self.claims)

    def create(self, epoch: int) -> bool:
        if self.races:
            self.claims.add(self.races.pop(0))
        if epoch in self.claims:
            return False
        self.claims.add(epoch)
        return True


def test_each_start_has_its_own_epoch_and_only_the_newest_may_write() -> None:
    epochs: Any = Epochs(1, 2)
    first = claim_next_epoch(epochs)
    require_newest_epoch(epochs, first)
    second = claim_next_epoch(epochs)
    assert (first, second) == (3, 4)
    require_newest_epoch(epochs, second)
    with pytest.raises(FencedError, match=r"in epoch 4(.|\n)* has epoch 3"):
        require_newest_epoch(epochs, first)


class MemoryLineageFiles:
    """Lineage files in memory, as other drivers have written them."""

    path = "c"

    def __init__(self, *lineages: CheckpointLineage) -> None:
        self.lineages = lineages

    def read(self) -> CheckpointLineage | None:
        return max(self.lineages, key=lambda each: (each.last_batch, each.epoch), default=None)


def lease_for(lineage: CheckpointLineage, *written: CheckpointLineage) -> DriverLease:
    files: Any = MemoryLineageFiles(*written)
    return DriverLease(files, lineage, {"append": "/views"})


def test_a_driver_continues_after_the_batches_of_an_earlier_one_and_refuses_a_gap() -> None:
    earlier = replace(LINEAGE, epoch=1, last_batch=8)
    lease = lease_for(replace(LINEAGE, epoch=2, fingerprint={"transform": "other"}), earlier)
    lease.on_batch_start(8)
    assert lease.lineage.last_batch == 7
    lease.on_batch_start(9)
    assert (lease.lineage.last_batch, lease.lineage.epoch) == (8, 2)
    assert lease.lineage.fingerprint == {"transform": "other"}
    with pytest.raises(CheckpointError, match=r"continues with batch 11.* recorded batch is 8"):
        lease.on_batch_start(11)


def test_a_table_that_another_first_start_has_created_meanwhile_is_refused_at_the_commit() -> None:
    stamp = Stamp(
        job="j",
        query="q",
        run="r",
        batch=0,
        output="append",
        offsets_hash="o",
        end={},
        row_counts={},
    )
    lease = lease_for(CheckpointLineage(job="j"))
    no_table: Any = Table(id=None, version=-1)
    lease.require_unchanged(no_table, stamp)
    table_of_other_query: Any = Table(app_ids=["j/p/append"])
    with pytest.raises(LostCheckpointError):
        lease.require_unchanged(table_of_other_query, stamp)


def test_the_hash_of_a_fingerprint_depends_on_its_parts_and_not_on_their_order() -> None:
    assert hash_fingerprint({"a": "1", "b": "2"}) == hash_fingerprint({"b": "2", "a": "1"})
    assert hash_fingerprint({"a": "1"}) != hash_fingerprint({"a": "2"})


def test_another_number_of_streams_is_refused_once_a_batch_is_written() -> None:
    lease = lease_for(replace(LINEAGE, stream_counts={"clicks": 2, "views": 1}))
    with pytest.raises(CheckpointError, match="clicks had 2, now 1; views had 1, now 2"):
        lease.record_streams({"clicks": 1, "views": 2})
    lease.record_streams({"clicks": 2, "views": 1, "more": 3})
    assert lease.lineage.stream_counts == {"clicks": 2, "views": 1, "more": 3}
    new = lease_for(replace(LINEAGE, stream_counts={"clicks": 2}, last_batch=-1))
    new.record_streams({"clicks": 1})
    assert new.lineage.stream_counts == {"clicks": 1}
