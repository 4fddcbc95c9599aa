"""The page of a run: one HTML file without scripts, and without anything from elsewhere."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

from .... import __version__
from ..course import Stretch
from ..record import Snapshot
from .chart import Line, chart
from .style import STYLE
from .units import UNKNOWN, duration, instant, octets, short, whole

_AGAIN_SECONDS = 10
_MOST_PLACES = 200
_TEXT = ("topic", "stage", "reason", "watermark", "ended", "batches")
_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
_POLICY = f"default-src 'none'; style-src 'sha256-{_HASH}'"


@dataclass(frozen=True)
class State:
    """What a run is at: whether it goes on, and what is to be said of that."""

    kind: Literal["running", "ended", "failed"]
    told: str


def page(now: Snapshot, state: State, written: float) -> str:
    """Return the page. Every text that is not the page's own is escaped.

    written: the instant, in seconds since 1970.
    """
    job = escape(now.summary.job)
    again = f'<meta http-equiv="refresh" content="{_AGAIN_SECONDS}">'
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"{again if state.kind == 'running' else ''}<title>{job}: a run</title>"
        f"<style>{STYLE}</style></head><body><main><h1>{job}</h1>"
        f'<p class="state {state.kind}">{escape(state.told)}</p>'
        f'<p class="soft">Begun {instant(now.started)}, written {instant(written)}; '
        f"tidegate {__version__}, query {escape(now.query or 'not begun')}</p>"
        f"{_numbers(now, written)}<h2>Over time</h2>"
        f'<p class="soft over">The time since the run began, and a point for each batch.</p>'
        f'<div class="charts">{"".join(_charts(now))}</div>'
        f"{_reasons(now)}{_places(now)}{_batches(now)}</main></body></html>\n"
    )


def _numbers(now: Snapshot, written: float) -> str:
    done = now.summary
    last = now.last
    behind = None if last is None or last.mark is None else written - last.mark
    lag = sum(now.lag.values()) if now.lag else None
    told = [
        ("batches", whole(done.batches)),
        ("rows read", whole(done.rows_in)),
        ("rows written", whole(done.rows_out)),
        ("late rows", whole(done.late)),
        ("dead letters", whole(done.dead)),
        ("lag, records", whole(lag)),
        ("watermark behind the clock", duration(behind)),
        ("time of the run", duration(written - now.started)),
    ]
    told += [
        (name, whole(number))
        for name, number in (
            ("late rows merged", done.corrected),
            ("times brought back", done.clamped),
            ("left out by where", done.filtered),
            ("offsets lost", done.lost),
            ("batches skipped", done.skipped),
        )
        if number
    ]
    return f"<dl>{''.join(f'<div><dt>{n}</dt><dd>{v}</dd></div>' for n, v in told)}</dl>"


def _charts(now: Snapshot) -> Iterable[str]:
    def of_each(name: str, value: Callable[[Stretch], float | None]) -> Line:
        return Line(name, [(at.ended - now.started, value(at)) for at in now.course])

    yield chart("Rows a second", [of_each("rows a second", _speed)], short)
    yield chart("Time of a batch", [of_each("seconds", lambda at: at.longest)], duration)
    yield chart("Lag: records that wait", [of_each("records", lambda at: at.lag)], short)
    yield chart("Watermark behind the clock", [of_each("behind", _behind)], duration)
    late = of_each("late", lambda at: at.late)
    dead = of_each("dead", lambda at: at.dead)
    yield chart("Late and dead rows of a batch", [late, dead], short)
    rows = of_each("rows", lambda at: at.state_rows)
    yield chart("State: rows kept, such as groups of open windows", [rows], short)
    yield chart("State: memory", [of_each("bytes", lambda at: at.state_bytes)], octets)


def _speed(at: Stretch) -> float | None:
    return at.rows_timed / at.seconds if at.seconds else None


def _behind(at: Stretch) -> float | None:
    return None if at.watermark is None else at.ended - at.watermark


def _reasons(now: Snapshot) -> str:
    if not now.reasons:
        return ""
    found = sorted(now.reasons.items(), key=lambda pair: -pair[1])
    rows = [[stage, reason, whole(number)] for (stage, reason), number in found]
    return f"<h2>Why records could not be read</h2>{_table(['stage', 'reason', 'rows'], rows)}"


def _places(now: Snapshot) -> str:
    if not now.lag:
        return ""
    told = now.behind
    rows = []
    for place, waits in sorted(now.lag.items()):
        age = None if told is None else told.seconds.get(place)
        room = None if told is None else told.head_room.get(place[0])
        rows.append([place[0], str(place[1]), whole(waits), duration(age), duration(room)])
    names = ["topic", "partition", "records that wait", "oldest of them", "kept for"]
    rest = len(rows) - _MOST_PLACES
    more = f'<p class="soft">and {rest} more</p>' if rest > 0 else ""
    return f"<h2>Partitions</h2>{_table(names, rows[:_MOST_PLACES])}{more}"


def _batches(now: Snapshot) -> str:
    names = ["batches", "ended", "rows read", "written", "late", "dead", "seconds", "longest batch"]
    names += ["lag", "watermark", "state rows", "state bytes"]
    rows = [
        [
            str(at.first) if at.first == at.last else f"{at.first} to {at.last}",
            instant(at.ended),
            *map(whole, (at.rows_in, at.rows_out, at.late, at.dead)),
            f"{at.seconds:.3f}" if at.reported else UNKNOWN,
            duration(at.longest),
            whole(at.lag),
            instant(at.watermark),
            whole(at.state_rows),
            whole(at.state_bytes),
        ]
        for at in now.course
    ]
    return (
        f"<h2>Batches</h2><details><summary>all numbers of the charts</summary>"
        f"{_table(names, rows)}</details>"
    )


def _table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    kinds = [' class="t"' if name in _TEXT else "" for name in names]
    head = "".join(f"<th{kind}>{name}</th>" for kind, name in zip(kinds, names, strict=True))
    body = "".join(
        "<tr>"
        + "".join(f"<td{kind}>{escape(cell)}</td>" for kind, cell in zip(kinds, row, strict=True))
        + "</tr>"
        for row in rows
    )
    whole_table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="wide">{whole_table}</div>'
