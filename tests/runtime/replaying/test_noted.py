"""What a replay begins with is read as it was written, or not at all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidegate.commit.identity import TableMark
from tidegate.errors import CheckpointError
from tidegate.runtime.replaying.middle import Middle
from tidegate.runtime.replaying.noted import Noted

NOTED = Noted(
    start={"a": {0: 1, 10: 2}},
    end={"a": {0: 5, 10: 7}},
    batch=3,
    watermark=1_772_442_031_000,
    tables={"append": TableMark(path="/t", id="7", version=4, commit="c")},
    topics={"a": "x"},
)


MIDDLE = replace(NOTED, asked="a:0:1", middle=Middle(whole=5, newest={"a": {10: 3}}, apart="no"))


@pytest.mark.parametrize("noted", [NOTED, MIDDLE])
def test_what_is_noted_is_read_as_it_was_written(noted: Noted) -> None:
    assert Noted.parse(noted.text().encode(), "replay.json") == noted


@pytest.mark.parametrize("content", ["", "{}", "[]", NOTED.text().replace("5", "6")])
def test_a_note_that_was_changed_is_refused(content: str) -> None:
    with pytest.raises(CheckpointError, match=r"replay\.json is damaged"):
        Noted.parse(content.encode(), "replay.json")
