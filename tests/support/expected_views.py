"""The expected results of a window job over sample clicks, computed in plain Python."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidegate.jobs.sample_clicks import Click, SentRecord


@dataclass(frozen=True, slots=True)
class ExpectedViews:
    """The expected aggregates of one page and window."""

    views: int
    total_ms: float
    slowest_ms: float
    total_bytes: int


def expected_views(
    sent_records: Iterable[SentRecord], size_ms: int, *, include_late: bool = False
) -> dict[tuple[int, str], ExpectedViews]:
    """Return the page views of tumbling windows, computed in plain Python.

    The keys are (window start in milliseconds since 1970, page). Unreadable records do not count;
    late ones count only with `include_late`.
    """
    groups: dict[tuple[int, str], list[Click]] = {}
    for record in sent_records:
        click = record.click
        if click.fault is None and (include_late or not click.is_late):
            start = click.event_time_ms // size_ms * size_ms
            groups.setdefault((start, click.page), []).append(click)
    return {key: _aggregate_views(group) for key, group in groups.items()}


def _aggregate_views(group: Sequence[Click]) -> ExpectedViews:
    return ExpectedViews(
        views=len(group),
        total_ms=sum(click.ms for click in group),
        slowest_ms=max(click.ms for click in group),
        total_bytes=sum(click.size for click in group),
    )
