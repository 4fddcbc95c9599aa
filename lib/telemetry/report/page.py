"""The report of a run: one HTML file without scripts and without external resources."""

from __future__ import annotations

import base64
import hashlib
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Literal

from ... import __version__
from ...errors import SetupError
from ..run_metrics import HistoryBucket, MetricsSnapshot, RunMetrics
from ..stats import write_atomically
from .chart import (
    UNKNOWN,
    Line,
    format_bytes,
    format_count,
    format_duration,
    format_short_number,
    format_timestamp,
    render_chart,
)

_LOG = logging.getLogger(__name__)
_WRITE_INTERVAL_SECONDS = 5.0
_RUNNING_MESSAGE = (
    "Running when this page was written. The page is written every few seconds: if it is older, "
    "the run was killed or hangs. The rows of its committed batches are in the tables."
)
_REFRESH_SECONDS = 10
_MAX_PARTITIONS = 200
_TEXT_COLUMNS = ("topic", "stage", "reason", "rule", "watermark", "ended", "batches")
STYLE = """
:root{color-scheme:light dark;--paper:#fbfbfa;--card:#fff;--ink:#1f2328;--soft:#616a75;
--line:#e3e5e8;--a:#1f6feb;--b:#c2410c;--good:#1a7f37;--bad:#b42318}
@media(prefers-color-scheme:dark){:root{--paper:#14171a;--card:#1c2024;--ink:#e6e8eb;
--soft:#9aa4af;--line:#30363d;--a:#6ea8fe;--b:#f59e5b;--good:#57c27a;--bad:#ff8a80}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:1180px;margin:0 auto;padding:28px 20px 60px}
h1{font-size:26px;margin:0;overflow-wrap:anywhere}h2{font-size:18px;margin:36px 0 12px}
.state{margin:6px 0 2px;font-weight:600;white-space:pre-wrap;overflow-wrap:anywhere}
.running{color:var(--a)}.ended{color:var(--good)}.failed{color:var(--bad)}
.soft,.ends{color:var(--soft);font-size:13px;margin:2px 0}
dl{display:grid;gap:12px;margin:22px 0;
grid-template-columns:repeat(auto-fill,minmax(min(230px,45%),1fr))}
dl div,figure{background:var(--card);border:1px solid var(--line);border-radius:10px}
dl div{padding:12px 14px}dt{color:var(--soft);font-size:13px}
dd{margin:2px 0 0;font-size:21px;font-weight:600;font-variant-numeric:tabular-nums}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,480px),1fr));gap:16px}
figure{margin:0;padding:14px 16px 10px}figcaption{font-weight:600;margin-bottom:6px}
figcaption span{font-weight:400;font-size:13px;margin-left:14px}
figcaption span::before{content:"";display:inline-block;width:14px;height:3px;margin-right:6px;
vertical-align:middle;background:var(--a)}figcaption .k1::before{background:var(--b)}
svg{display:block;width:100%;height:auto}svg text{fill:var(--soft);font-size:12px}
.grid{stroke:var(--line)}polyline{fill:none;stroke-width:2;stroke-linejoin:round}
.s0{stroke:var(--a)}.s1{stroke:var(--b)}.d0{fill:var(--a)}.d1{fill:var(--b)}
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:5px 10px;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}
th{color:var(--soft);font-weight:500;font-size:13px}
td.t,th.t{text-align:left;white-space:normal;overflow-wrap:anywhere;min-width:6.5em}
.soft.over{margin-bottom:12px}summary{cursor:pointer;color:var(--a)}.none{color:var(--soft)}
"""
_STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
_CONTENT_POLICY = f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'"


Status = Literal["running", "ended", "failed"]


def render_page(snapshot: MetricsSnapshot, status: Status, message: str, written_at: float) -> str:
    """Return the page; text from outside, such as names and messages, is escaped.

    status, message: the state of the run. written_at: in seconds since 1970.
    """
    job = escape(snapshot.summary.job)
    refresh_tag = f'<meta http-equiv="refresh" content="{_REFRESH_SECONDS}">'
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_CONTENT_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"{refresh_tag if status == 'running' else ''}<title>{job}: a run</title>"
        f"<style>{STYLE}</style></head><body><main><h1>{job}</h1>"
        f'<p class="state {status}">{escape(message)}</p>'
        f'<p class="soft">Started {format_timestamp(snapshot.started_at)}, '
        f"written {format_timestamp(written_at)}; "
        f"tidegate {__version__}, query {escape(snapshot.query or 'not started')}</p>"
        f"{_summary_list(snapshot, written_at)}<h2>Over time</h2>"
        f'<p class="soft over">The time since the start of the run; a point for each batch.</p>'
        f'<div class="charts">{"".join(_render_charts(snapshot))}</div>'
        f"{_reasons_section(snapshot)}{_rules_section(snapshot)}{_partitions_section(snapshot)}"
        f"{_batches_section(snapshot)}</main></body></html>\n"
    )


def _summary_list(snapshot: MetricsSnapshot, written_at: float) -> str:
    summary = snapshot.summary
    last_batch = snapshot.last_progress
    watermark_lag = (
        None
        if last_batch is None or last_batch.watermark_seconds is None
        else written_at - last_batch.watermark_seconds
    )
    lag = sum(snapshot.lag_by_partition.values()) if snapshot.lag_by_partition else None
    entries = [
        ("batches", format_count(summary.batches)),
        ("rows read", format_count(summary.rows_in)),
        ("rows written", format_count(summary.rows_out)),
        ("late rows", format_count(summary.late_rows)),
        ("dead letters", format_count(summary.dead_letters)),
        ("lag (records)", format_count(lag)),
        ("watermark lag", format_duration(watermark_lag)),
        ("run time", format_duration(written_at - snapshot.started_at)),
    ]
    entries += [
        (name, format_count(number))
        for name, number in (
            ("late rows merged", summary.corrected_rows),
            ("clamped rows", summary.clamped_rows),
            ("filtered rows", summary.filtered_rows),
            ("discarded rows", summary.discarded_rows),
            ("overflows", summary.overflows),
            ("lost offsets", summary.lost_offsets),
            ("skipped batches", summary.skipped_batches),
        )
        if number
    ]
    return f"<dl>{''.join(f'<div><dt>{n}</dt><dd>{v}</dd></div>' for n, v in entries)}</dl>"


def _render_charts(snapshot: MetricsSnapshot) -> Iterator[str]:
    for title, format_value, values in _CHARTS:
        lines = [
            Line(
                name,
                [(each.ended_at - snapshot.started_at, value(each)) for each in snapshot.history],
            )
            for name, value in values.items()
        ]
        is_known = any(value is not None for line in lines for _, value in line.points)
        if is_known or title != _STATE_ROWS:
            yield render_chart(title, lines, format_value)


def _rows_per_second(bucket: HistoryBucket) -> float | None:
    return bucket.rows_timed / bucket.seconds if bucket.seconds else None


def _watermark_lag(bucket: HistoryBucket) -> float | None:
    return None if bucket.watermark is None else bucket.ended_at - bucket.watermark


_STATE_ROWS = "State rows"
"""The chart that a run has only where the state store counts its rows."""
_CHARTS: Sequence[
    tuple[str, Callable[[float], str], Mapping[str, Callable[[HistoryBucket], float | None]]]
] = (
    ("Rows per second", format_short_number, {"rows per second": _rows_per_second}),
    ("Batch duration", format_duration, {"seconds": lambda bucket: bucket.max_seconds}),
    ("Lag (records)", format_short_number, {"records": lambda bucket: bucket.lag}),
    ("Watermark lag", format_duration, {"watermark lag": _watermark_lag}),
    (
        "Late rows and dead letters",
        format_short_number,
        {
            "late rows": lambda bucket: bucket.late_rows,
            "dead letters": lambda bucket: bucket.dead_letters,
        },
    ),
    (_STATE_ROWS, format_short_number, {"rows": lambda bucket: bucket.state_rows}),
    ("State memory", format_bytes, {"bytes": lambda bucket: bucket.state_bytes}),
)
"""The title of each chart, the format of its values, and its lines."""


def _reasons_section(snapshot: MetricsSnapshot) -> str:
    if not snapshot.dead_letter_reasons:
        return ""
    reasons = sorted(snapshot.dead_letter_reasons.items(), key=lambda pair: -pair[1])
    rows = [[stage, reason, format_count(number)] for (stage, reason), number in reasons]
    return f"<h2>Dead letters</h2>{_render_table(['stage', 'reason', 'rows'], rows)}"


def _rules_section(snapshot: MetricsSnapshot) -> str:
    violations = snapshot.summary.rule_violations
    if not violations:
        return ""
    rows = [[name, format_count(number)] for name, number in violations.items()]
    return f"<h2>Rules</h2>{_render_table(['rule', 'violations'], rows)}"


def _partitions_section(snapshot: MetricsSnapshot) -> str:
    if not snapshot.lag_by_partition:
        return ""
    consumer_lag = snapshot.consumer_lag
    rows = []
    for (topic, number), waiting_rows in sorted(snapshot.lag_by_partition.items()):
        age = headroom = None
        if consumer_lag is not None:
            age = consumer_lag.seconds.get((topic, number))
            headroom = consumer_lag.headroom_seconds.get(topic)
        durations = (format_duration(age), format_duration(headroom))
        rows.append([topic, str(number), format_count(waiting_rows), *durations])
    names = ["topic", "partition", "lag (records)", "oldest unread", "headroom"]
    hidden_count = len(rows) - _MAX_PARTITIONS
    more = f'<p class="soft">and {hidden_count} more</p>' if hidden_count > 0 else ""
    return f"<h2>Partitions</h2>{_render_table(names, rows[:_MAX_PARTITIONS])}{more}"


def _format_batches(bucket: HistoryBucket) -> str:
    first, last = bucket.first_batch, bucket.last_batch
    return str(first) if first == last else f"{first} to {last}"


def _format_seconds(bucket: HistoryBucket) -> str:
    return f"{bucket.seconds:.3f}" if bucket.reported_batches else UNKNOWN


_BATCH_COLUMNS: Mapping[str, Callable[[HistoryBucket], str]] = {
    "batches": _format_batches,
    "ended": lambda bucket: format_timestamp(bucket.ended_at),
    "rows read": lambda bucket: format_count(bucket.rows_in),
    "rows written": lambda bucket: format_count(bucket.rows_out),
    "late rows": lambda bucket: format_count(bucket.late_rows),
    "dead letters": lambda bucket: format_count(bucket.dead_letters),
    "seconds": _format_seconds,
    "longest batch": lambda bucket: format_duration(bucket.max_seconds),
    "lag": lambda bucket: format_count(bucket.lag),
    "watermark": lambda bucket: format_timestamp(bucket.watermark),
    "state rows": lambda bucket: format_count(bucket.state_rows),
    "state bytes": lambda bucket: format_count(bucket.state_bytes),
}


def _batches_section(snapshot: MetricsSnapshot) -> str:
    rows = [[cell(bucket) for cell in _BATCH_COLUMNS.values()] for bucket in snapshot.history]
    return (
        "<h2>Batches</h2><details><summary>all values of the charts</summary>"
        f"{_render_table(list(_BATCH_COLUMNS), rows)}</details>"
    )


def _render_table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    classes = [' class="t"' if name in _TEXT_COLUMNS else "" for name in names]

    def render_row(tag: str, cells: Sequence[str]) -> str:
        pairs = zip(classes, cells, strict=True)
        return f"<tr>{''.join(f'<{tag}{kind}>{escape(cell)}</{tag}>' for kind, cell in pairs)}</tr>"

    body = "".join(render_row("td", row) for row in rows)
    table = f"<table><thead>{render_row('th', names)}</thead><tbody>{body}</tbody></table>"
    return f'<div class="wide">{table}</div>'


class RunReport:
    """Writes the report of a run: a context manager around the run.

    Entering the block replaces the report of an earlier run. A report that cannot be written later,
    for example on a full disk, does not stop the job: the file stays as it is, and the log has a
    warning.

    was_stopped: returns at the end whether the run was stopped. Raises SetupError on entering the
    block if the file cannot be written.
    """

    def __init__(
        self, run_metrics: RunMetrics, path: str | None, was_stopped: Callable[[], bool]
    ) -> None:
        self._run_metrics = run_metrics
        self._path = None if path is None else Path(path)
        self._was_stopped = was_stopped
        self._next_write_at = 0.0
        self._has_warned = False

    def __enter__(self) -> RunReport:
        try:
            self._write("running", _RUNNING_MESSAGE)
        except OSError as error:
            raise SetupError(
                f"cannot write the report to {self._path}",
                str(error.strerror),
                "choose a file in a writable folder: --report run.html",
            ) from error
        return self

    def refresh(self) -> None:
        """Write the page if the write interval has passed."""
        if time.monotonic() >= self._next_write_at:
            self._try_write("running", _RUNNING_MESSAGE)

    def __exit__(self, _type: object, error: BaseException | None, _trace: object) -> None:
        self._run_metrics.add_unreported_batches()
        if error is not None:
            self._try_write("failed", f"Failed: {type(error).__name__}: {error}"[:4_000])
        else:
            self._try_write("ended", "Stopped on request." if self._was_stopped() else "Ended.")

    def _try_write(self, status: Status, message: str) -> None:
        try:
            self._write(status, message)
        except Exception as error:
            # A failing report must not fail the job.
            if not self._has_warned:
                _LOG.warning(
                    "cannot write the report %s: %s: %s", self._path, type(error).__name__, error
                )
            self._has_warned = True

    def _write(self, status: Status, message: str) -> None:
        if self._path is not None:
            page = render_page(self._run_metrics.snapshot(), status, message, time.time())
            write_atomically(page, self._path)
            self._next_write_at = time.monotonic() + _WRITE_INTERVAL_SECONDS
