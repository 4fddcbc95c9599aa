"""The grid that windows stand on, and when an event's own window closes: what tells a late row from one in time."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from pyspark.sql import Column
from pyspark.sql import functions as F

from ..columns import microseconds

WindowKind = Literal["tumbling", "hopping", "sliding", "session"]

PANES_FROM = 8
"""How many hopping windows an event must be in before panes are merged: below it, copying the event costs less."""


def closes(
    kind: WindowKind,
    time: Column,
    size: str | timedelta,
    *,
    hop: str | timedelta | None = None,
    offset: str | timedelta = "0 seconds",
) -> Column:
    """Give the instant at which an event is late: once the watermark has reached it, the event is left out.

    tumbling: its window's end. hopping: the end of its pane of one hop where panes are merged (see `hopping`; all
    aggregates are taken to merge), else the end of the last window that holds it. sliding: the end of its pane, at most
    `size` plus a microsecond after it. session: its time plus the gap, which is passed as `size`.

    >>> late = closes("tumbling", F.col("event_time"), "1 minute") <= F.lit(datetime(2026, 1, 1, 10, 5, tzinfo=UTC))
    """
    width = microseconds(size, "size")
    if kind == "session":
        return F.timestamp_micros(F.unix_micros(time) + F.lit(width))
    if kind == "sliding":
        step = width = pane(width)
    else:
        step = width if hop is None else microseconds(hop, "hop")
        width = step if panes_pay(width, step) else width
    start = floor(time, step, shift(offset, step))
    return F.timestamp_micros(F.unix_micros(start) + F.lit(width))


def panes_pay(width: int, step: int) -> bool:
    """Whether panes of one step make up windows of this width, at less cost than copying each event."""
    return width % step == 0 and width // step >= PANES_FROM


def floor(time: Column, width: int, start: int = 0) -> Column:
    """Give the last multiple of `width` microseconds, counted from 1970 plus `start`, at or before the time."""
    micros = F.unix_micros(time)
    return F.timestamp_micros(micros - F.pmod(micros - F.lit(start), F.lit(width)))


def shift(offset: str | timedelta, width: int) -> int:
    """Give an alignment in microseconds that is at least 0 and less than one width."""
    return microseconds(offset, "offset", least=-(10**18)) % width


def pane(width: int) -> int:
    """Give the length of a sliding window's panes: both of its ends belong to it, so one microsecond more."""
    return width + 1
