"""The JSON of every persisted form is that of its golden file."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from tidegate.checkpoint.lineage import (
    BACKFILL_FORM,
    LINEAGE_FILE,
    RECORDED_TABLE_FORM,
    RESCALING_FORM,
    RESUME_POINT_FORM,
    Backfill,
    CheckpointLineage,
    RecordedTable,
    Rescaling,
    ResumePoint,
)
from tidegate.checkpoint.persisted_json import HashedFile, JsonForm, json_sha256
from tidegate.commit.batch import STAMP_FORM, Stamp
from tidegate.errors import CheckpointError
from tidegate.operations.replay.manifest import MANIFEST_FILE, ReplayManifest
from tidegate.startup.swap_journal import (
    SWAP_FOLDER_FORM,
    SWAP_JOURNAL_FILE,
    SwapFolder,
    SwapJournal,
)

GOLDEN = Path(__file__).parents[1] / "golden"
FORMS: tuple[JsonForm[Any], ...] = (
    LINEAGE_FILE.form,
    RESUME_POINT_FORM,
    BACKFILL_FORM,
    RECORDED_TABLE_FORM,
    RESCALING_FORM,
    STAMP_FORM,
    MANIFEST_FILE.form,
    SWAP_JOURNAL_FILE.form,
    SWAP_FOLDER_FORM,
)
OFFSETS = {"clicks": {0: 5, 9: 6, 10: 7}, "views": {0: 8}}
TABLE = RecordedTable(path="/data/views", id="3f1c", version=4, commit_hash="c0ffee")
BACKFILL = Backfill(
    query="q-1",
    start={"clicks": {0: 1, 9: 2, 10: 3}, "views": {0: 4}},
    end=OFFSETS,
    handover_start=OFFSETS,
    handover_time=1_772_442_030_000_000,
    max_event_times={"clicks": {0: 1_772_442_031_000_000}},
)
LINEAGE = CheckpointLineage(
    job="page_views",
    query="q-1",
    epoch=3,
    last_batch=10,
    offsets_hashes={9: "aa", 10: "bb"},
    commit_hashes={8: "cc", 9: "dd"},
    file_hashes={"sources/0/0": "ee"},
    tables={"append": TABLE},
    outputs=("append",),
    topic_ids={"clicks": "id-1"},
    stream_counts={"clicks": 1},
    dead_letter_topics=("clicks.dead",),
    fingerprint={"transform": "None"},
    max_event_time=1_772_442_031_000_000,
    max_event_times={9: {"clicks": {0: 1}}, 10: {"clicks": {0: 1_772_442_031_000_000}}},
    backfill=BACKFILL,
    rescaling=Rescaling(batch=11, partitions_before=2, partitions_after=4),
    released=True,
)
STAMP = Stamp(
    job="page_views",
    query="q-1",
    run="r-1",
    batch=10,
    output="append",
    offsets_hash="bb",
    end=OFFSETS,
    row_counts={"in": 7, "out": 5},
    epoch=3,
    fingerprint_hash="ff",
    max_event_time=1_772_442_031_000_000,
    topic_ids={"clicks": "id-1"},
    max_event_times={"clicks": {0: 1_772_442_031_000_000}},
)
MANIFEST = ReplayManifest(
    start={"clicks": {0: 1}},
    end=OFFSETS,
    batch=10,
    watermark_ms=1_772_442_031_000,
    tables={"append": TABLE},
    topics={"clicks": "id-1"},
)
SWAP = SwapJournal(
    ".replay", ".before", (SwapFolder("/data/views", 11, 12), SwapFolder("/data/late", None, 13))
)
FILES: dict[str, tuple[HashedFile[Any], Any]] = {
    "lineage": (LINEAGE_FILE, LINEAGE),
    "lineage_new": (LINEAGE_FILE, CheckpointLineage(job="page_views")),
    "lineage_resumed": (
        LINEAGE_FILE,
        CheckpointLineage(
            job="page_views",
            resume_point=ResumePoint(
                query="q-0",
                first_batch=4,
                start=OFFSETS,
                complete_after=1_772_442_031_000_000,
                max_event_times={"clicks": {0: 1_772_442_031_000_000}},
            ),
        ),
    ),
    "replay_manifest": (MANIFEST_FILE, MANIFEST),
    "swap_journal": (SWAP_JOURNAL_FILE, SWAP),
}
STAMPS = {
    "commit_stamp": STAMP,
    "commit_stamp_outside_job": Stamp(
        job="j",
        query="q",
        run="r",
        batch=0,
        output="append",
        offsets_hash="h",
        end={},
        row_counts={},
    ),
}


def golden(name: str) -> str:
    return (GOLDEN / f"{name}.json").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_read_from_and_written_as_its_golden_file(name: str) -> None:
    file, value = FILES[name]
    assert file.to_json(value) == golden(name)
    assert file.from_json(golden(name).encode(), name) == value
    assert file.to_json(file.from_json(golden(name).encode(), name)) == golden(name)


@pytest.mark.parametrize("name", STAMPS)
def test_a_stamp_is_read_from_and_written_as_its_golden_file(name: str) -> None:
    assert STAMPS[name].to_json() == golden(name)
    assert Stamp.from_json(golden(name)) == STAMPS[name]


def test_the_hash_of_a_backfill_is_that_of_its_form_without_event_times() -> None:
    assert BACKFILL.range_hash == (
        "2f6778a9b461ac16b516529ead958b7b2cb5dd14c83f5ce502b5888a12f687bb"
    )
    assert replace(BACKFILL, max_event_times=None).range_hash == BACKFILL.range_hash
    assert replace(BACKFILL, handover_time=None).range_hash != BACKFILL.range_hash


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.type.__name__)
def test_a_form_has_every_field_of_its_class_under_a_key_of_its_own(form: JsonForm[Any]) -> None:
    assert list(form.fields) == [field.name for field in fields(form.type)]
    keys = [key for key, _ in form.fields.values()]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_a_newer_version_is_refused(name: str) -> None:
    file, _ = FILES[name]
    data = json.loads(golden(name))
    data["format"] = data["format"].replace("/1", "/2")
    del data["sha256"]
    newer = json.dumps({**data, "sha256": json_sha256(data)})
    with pytest.raises(CheckpointError, match=r"unknown format 'tidegate .*/2'") as refusal:
        file.from_json(newer.encode(), "/c/file.json")
    assert "/c/file.json" in str(refusal.value)
    assert f"this version reads '{file.format}'" in str(refusal.value)


def test_a_stamp_of_a_newer_version_is_refused() -> None:
    with pytest.raises(CheckpointError, match="unknown format 'tidegate commit/2'"):
        Stamp.from_json(golden("commit_stamp").replace("commit/1", "commit/2"))


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["cut off", "changed", "of another format", "empty"])
def test_a_damaged_file_is_refused(name: str, damage: str) -> None:
    file, _ = FILES[name]
    other_format = {"format": "other/1"}
    content = {
        "cut off": golden(name)[:-20],
        "changed": golden(name).replace("page_views", "page_view").replace("/data/", "/date/"),
        "of another format": json.dumps({**other_format, "sha256": json_sha256(other_format)}),
        "empty": "",
    }[damage]
    with pytest.raises(CheckpointError, match=r"/c/file\.json is damaged"):
        file.from_json(content.encode(), "/c/file.json")
