"""The public signatures, pinned: a change here is a change for every user."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest

from lib import aggregates, windows

COMMON = "*, by: str | Sequence[str] = (), aggs: Mapping[str, Aggregate | Column], time: str = 'event_time'"
OF_A_VALUE: tuple[Callable[..., object], ...] = (
    aggregates.total,
    aggregates.mean,
    aggregates.smallest,
    aggregates.largest,
    aggregates.first,
    aggregates.last,
)
PINNED: dict[Callable[..., object], str] = {
    windows.tumbling: (
        f"(events: DataFrame, size: str | timedelta, {COMMON}, offset: str | timedelta = '0 seconds') -> DataFrame"
    ),
    windows.hopping: (
        f"(events: DataFrame, size: str | timedelta, hop: str | timedelta, {COMMON}, "
        "offset: str | timedelta = '0 seconds') -> DataFrame"
    ),
    windows.sliding: (
        "(events: DataFrame, size: str | timedelta, *, by: str | Sequence[str] = (), aggs: Mapping[str, Aggregate], "
        "time: str = 'event_time', keep: str | Sequence[str] = (), windows: Windows = 'each') -> DataFrame"
    ),
    windows.session: (
        f"(events: DataFrame, gap: str | timedelta | Column, {COMMON}, longest: str | timedelta | None = None) "
        "-> DataFrame"
    ),
    windows.closes: (
        "(kind: WindowKind, time: Column, size: str | timedelta, *, hop: str | timedelta | None = None, "
        "offset: str | timedelta = '0 seconds') -> Column"
    ),
    aggregates.count: "(value: str | Column | None = None) -> Aggregate",
    **dict.fromkeys(OF_A_VALUE, "(value: str | Column) -> Aggregate"),
    aggregates.partials: "(aggs: Mapping[str, Aggregate]) -> dict[str, Aggregate]",
    aggregates.merged: "(frame: DataFrame, by: str | Sequence[str], aggs: Mapping[str, Aggregate]) -> DataFrame",
    aggregates.finished: "(frame: DataFrame, aggs: Mapping[str, Aggregate]) -> DataFrame",
}


@pytest.mark.parametrize(("function", "signature"), PINNED.items(), ids=[f.__name__ for f in PINNED])
def test_a_public_signature_is_as_pinned(function: Callable[..., object], signature: str) -> None:
    assert str(inspect.signature(function)).replace('"', "'").replace("'", "") == signature.replace("'", "")


def test_all_windows_are_pinned() -> None:
    assert {function.__name__ for function in PINNED} >= set(windows.__all__)
