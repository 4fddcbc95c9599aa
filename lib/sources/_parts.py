"""What a `Reading` is made of, and may carry beside its fields."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import ArgumentError, ColumnTypeError
from .aside import PLACE
from .kafka import KafkaSource

CARRIED = (*PLACE, "key")
_KEEPABLE = (*CARRIED, "headers")


def require_parts(source: object, form: object, keep: Sequence[str], value_cap: int) -> None:
    """Refuse what is no source, no format, or no column of Kafka's.

    Raises:
        ArgumentError, ColumnTypeError: which name what is allowed.
    """
    if not isinstance(source, KafkaSource):
        raise ColumnTypeError(
            f"source is {source!r}, a {type(source).__name__}.",
            "a KafkaSource.",
            'KafkaSource("localhost:9092", "clicks")',
        )
    if not hasattr(form, "decode"):
        raise ColumnTypeError(
            f"format is {form!r}, a {type(form).__name__}.",
            "a format of tidegate.formats.",
            'json_format("page STRING, event_time TIMESTAMP")',
        )
    if isinstance(keep, str) or any(name not in _KEEPABLE for name in keep):
        allowed = f"a list of {', '.join(_KEEPABLE)}."
        raise ArgumentError(f"keep is {keep!r}.", allowed, 'keep=["key"]')
    if value_cap < 0:
        raise ArgumentError(f"value_cap is {value_cap}.", "0 or more bytes.")
