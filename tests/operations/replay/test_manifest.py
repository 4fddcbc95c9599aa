"""The manifest of a replay is read as written; a damaged one is an error."""

from __future__ import annotations

import pytest

from tidegate.checkpoint.lineage import RecordedTable
from tidegate.errors import CheckpointError
from tidegate.operations.replay.manifest import MANIFEST_FILE, ReplayManifest

MANIFEST = ReplayManifest(
    start={"a": {0: 1, 10: 2}},
    end={"a": {0: 5, 10: 7}},
    batch=3,
    watermark_ms=1_772_442_031_000,
    tables={"append": RecordedTable(path="/t", id="7", version=4, commit_hash="c")},
    topics={"a": "x"},
)
MANIFEST_TEXT = MANIFEST_FILE.to_json(MANIFEST)


def test_a_manifest_is_read_as_written() -> None:
    assert MANIFEST_FILE.from_json(MANIFEST_TEXT.encode(), "replay.json") == MANIFEST


@pytest.mark.parametrize("content", ["", "{}", "[]", MANIFEST_TEXT.replace("5", "6")])
def test_a_damaged_manifest_is_an_error(content: str) -> None:
    with pytest.raises(CheckpointError, match=r"replay\.json is damaged"):
        MANIFEST_FILE.from_json(content.encode(), "replay.json")
