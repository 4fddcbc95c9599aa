"""The bounds of ranges, as a query's text has them."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime

from ._reading import Token
from .queries import Bound

_NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?")


def ordered(lower: Bound, upper: Bound, closed: bool) -> bool:
    """Return whether a range holds anything; `closed` says that it has both of its bounds."""
    less: bool = lower < upper  # type: ignore[operator]
    return less or (closed and lower == upper)


def number(token: Token) -> Bound | None:
    """Return the number that a piece is; None for what is none."""
    if token.kind != "word" or not _NUMBER.fullmatch(token.text) or not token.text.isascii():
        return None
    if re.fullmatch(r"[-+]?\d{1,30}", token.text):
        return int(token.text)
    found = float(token.text)
    return found if math.isfinite(found) else None


def moment(token: Token) -> Bound | None:
    """Return the time that a piece is; None for what is none."""
    if token.kind != "moment":
        return None
    try:
        found = datetime.fromisoformat(token.text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
