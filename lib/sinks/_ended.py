"""Up to when all windows of a table have ended, as far as this process knows.

It knows of the version that it wrote last. Whoever makes another version makes it unknown.
"""

from __future__ import annotations

from datetime import datetime

from ..jvm import DeltaState

_KNOWN: dict[str, tuple[int, datetime]] = {}
"""By a table's id: a version, and the instant that no window of it ends after."""


def known_end(state: DeltaState) -> datetime | None:
    """Return the instant that no window of a version ends after; None where it is not known."""
    version, ended = _KNOWN.get(state.table_id(), (None, None))
    return ended if version == state.version else None


def note_end(written: DeltaState, ended: datetime, *, after: DeltaState) -> None:
    """Note that no window of a version ends after an instant.

    after: the version before it. Where another writer's is between them, nothing is known.
    """
    if written.version == after.version + 1:
        _KNOWN[written.table_id()] = (written.version, ended)
