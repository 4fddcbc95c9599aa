"""The world of jobs/abandoned_checkouts.py: carts without a checkout by the producer's ledger."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

from tests.support.delta_tables import rows
from tidegate.jobs.sample_clicks import SCHEMA, SentRecord

WITHIN_MS, LATENESS_MS = 20_000, 10_000
OPTIONS = {
    "events.schema": SCHEMA,
    "events.watermark_delay": f"{LATENESS_MS} milliseconds",
    "checkout.within": f"{WITHIN_MS} milliseconds",
}
Row = tuple[str, int, str]
"""User, the cart's time in ms, the cart's event."""


def abandoned(ledger: Iterable[SentRecord]) -> Counter[Row]:
    """Return each sound cart that no checkout of its user follows, as far as that is certain."""
    sound = [sent for sent in ledger if sent.click.fault is None and not sent.click.is_late]
    watermark = max(sent.click.event_time_ms for sent in sound) - LATENESS_MS
    of_user: dict[str, list[SentRecord]] = defaultdict(list)
    for sent in sorted(sound, key=_place):
        of_user[sent.click.user].append(sent)
    return Counter(
        (user, cart.click.event_time_ms, cart.click.event_id)
        for user, events in of_user.items()
        for at, cart in enumerate(events)
        if cart.click.page == "/cart"
        and cart.click.event_time_ms + WITHIN_MS < watermark
        and not any(_pays(later, cart) for later in events[at + 1 :])
    )


def _place(sent: SentRecord) -> tuple[int, int, int]:
    return sent.click.event_time_ms, sent.partition, sent.offset


def _pays(sent: SentRecord, cart: SentRecord) -> bool:
    return (
        sent.click.page == "/checkout"
        and sent.click.event_time_ms <= cart.click.event_time_ms + WITHIN_MS
    )


def read_abandoned(table: Path) -> Counter[Row]:
    """Return the rows of the table."""
    return Counter(
        (row["user_id"], round(row["started"].timestamp() * 1000), row["event_id"])
        for row in rows(table)
    )
