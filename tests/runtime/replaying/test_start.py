"""Where a replay begins is read as times and offsets, and nothing else passes for one."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tidegate.errors import ArgumentError
from tidegate.runtime.replaying.start import parsed, told

NINE = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("texts", "meant"),
    [
        ([], None),
        (["2026-03-02T09:00:00Z"], NINE),
        (["2026-03-02T10:00:00+01:00"], NINE),
        (["a.b:0:15", "a.b:1:7", "c:0:0"], {"a.b": {0: 15, 1: 7}, "c": {0: 0}}),
        (['{"a": {"0": 15, "1": 7}}'], {"a": {0: 15, 1: 7}}),
    ],
)
def test_times_and_offsets_are_read(texts: list[str], meant: object) -> None:
    assert parsed(texts) == meant


@pytest.mark.parametrize(
    "texts",
    [
        ["a:0"],
        ["a:0:-1"],
        ["a:x:1"],
        [":0:1"],
        ["yesterday"],
        ['{"a": 5}'],
        ['{"a": {"x": 5}}'],
        ["{"],
        ["2026-03-02T09:00:00"],
        ["2026-03-02T09:00:00Z", "a:0:1"],
        ["a:0:1", "a:0:2"],
    ],
)
def test_anything_else_is_refused(texts: list[str]) -> None:
    with pytest.raises(ArgumentError, match="from "):
        parsed(texts)


def test_one_place_is_one_text() -> None:
    assert told({"b": {1: 2, 0: 1}, "a": {0: 3}}) == '{"a": {"0": 3}, "b": {"0": 1, "1": 2}}'
    assert told(datetime.fromisoformat("2026-03-02T10:00:00+01:00")) == told(NINE)
