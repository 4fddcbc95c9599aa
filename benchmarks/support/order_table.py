"""The table whose changes are a topic: `change_topic` writes it, and all contestants read it.

The module has no dependencies, because it also runs in the virtual environment of Flink."""

from __future__ import annotations

COLUMNS = (
    "id BIGINT, customer STRING, status STRING, quantity INT, amount_cents BIGINT, "
    "updated_at BIGINT"
)
"""The columns in SQL; `updated_at` is in microseconds."""

KEY = "id"


def changes_topic(topic: str) -> str:
    """Return the topic of the changes, next to a topic of clicks."""
    return f"{topic}-orders"
