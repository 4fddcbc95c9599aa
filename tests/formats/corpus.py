"""Values that may be JSON records, drawn at random, and an oracle that says which of them are."""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

SCHEMA = "page STRING, n BIGINT, d DOUBLE, ok BOOLEAN, at TIMESTAMP, day DATE"
NAMES = ("page", "n", "d", "ok", "at", "day")
DEAD = "dead"
UNKNOWN = "not told by the oracle"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = -62_135_596_800, 253_402_300_799
"""The first and the last second that a table can hold."""
_FARTHEST_ZONE = 18 * 60
"""Minutes."""
_DEEPEST = 900
"""A depth at which the oracle says nothing any more."""

_TEXTS = [
    *('""', '"/a"', '"a}b{"', '"\\u00e9\\n"', '"\\ud83d\\ude00"', '"\\ud83d"', '"\\\\ud83d"'),
    *('"é"', '"x\\u0000"', '"\\/"', '"a\tb"'),
]
_NUMBERS = [
    *("0", "-0", "7", "-7", "9223372036854775807", "9223372036854775808", "-9223372036854775808"),
    *("1.5", "1e3", "1E-400", "1e400", "-1e400", "0.1e1", "01", "-", "1.", ".5", "+1", "NaN"),
    *("Infinity", "1714564800", "1714564800000", "18446744073709552", "253402300800", "2024"),
    *("9999999999999999999999999999999999999999",),
]
_TIMES = [
    *('"2024-05-01T12:00:00Z"', '"2024-05-01 12:00:00.123456+02:00"', '"2024-05-01"'),
    *('"2024-02-30"', '"2024-05-01T12:00"', '"2024-05-01T24:00:00Z"', '"05:00:00"', '"T05:00"'),
    *('"5:1"', '" 05:00"', '"2024"', '"2024-05"', '"12"', '"12024-05-01"', '"-2024-05-01"'),
    *('"0000-01-01"', '"\\u0030"', '"\\u00305:00"', '"2024-5-1"', '"2024-05-01 and"', '"now"'),
    *('"today"', '"epoch"', '"9999-12-31"', '"2024-05-01T12:00:00 America/New_York"'),
    *('"2024-05-01T12:00:00EST"',),
]
_OTHERS = [
    *("null", "true", "false", "True", "{}", "[]", '{"a":[1,{"b":null}]}', "[[[]]]", "'x'", "//"),
    *("/**/",),
]
_FITTING = {
    "page": ['"/a"', '""', '"\\u00e9"'],
    "n": ["7", "-9223372036854775808"],
    "d": ["1.5", "7", "1e3"],
    "ok": ["true", "false"],
    "at": ['"2024-05-01T12:00:00Z"', '"2024-05-01 12:00:00.123456+02:00"', "1714564800"],
    "day": ['"2024-05-01"'],
}
_PIECES = [
    *(b"null", b"{}", b"[", b"]", b"}", b'"', b"\\", b"\xff", b"\xc3", b"\xed\xa0\x80", b"1e999"),
    *(b"\\u0061", b"\\u", b'"at":"05:00"', b"\x00", b"\xef\xbb\xbf", b" ", b",", b":"),
]
_DATE = r"[+-]?\d{4,7}-\d{1,2}-\d{1,2}"
_ISO = r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{6})?)?(Z|[+-](0\d|1[0-7]):[0-5]\d)?)?"
_SPACE = ("", "", "", " ", "\n", "\t ")
_ODD = [
    *(
        None,
        b"",
        b" ",
        b"null",
        b"[]",
        b"\xef\xbb\xbf{}",
        b"{}{}",
        b"{} x",
        b"{",
        b"\xff",
        b"{}\x00",
    ),
    *(b'{"at":"05:00"', b"[" * 2_000, b'{"a":' * 1_500 + b"1" + b"}" * 1_500),
    b'{"x":' + b"[" * 997 + b"]" * 997 + b"}",
]


def values(chance: random.Random, count: int) -> Iterator[bytes | None]:
    """Return values of every kind, as many as are asked for."""
    for _ in range(count):
        kind = chance.random()
        if kind < 0.02:
            yield chance.choice(_ODD)
        elif kind < 0.06:
            yield chance.randbytes(chance.randrange(40))
        elif kind < 0.5:
            yield record(chance).encode()
        else:
            yield mutated(chance, record(chance).encode())


def record(chance: random.Random) -> str:
    """Return an object whose fields may be of the wrong type, missing, twice or unknown."""
    names = chance.sample(NAMES, k=chance.randrange(len(NAMES) + 1))
    names += chance.choices(["unknown", "\\u0061t", "AT", *NAMES], k=chance.choice([0, 0, 0, 1, 2]))
    space = chance.choice(_SPACE)
    fields = [f'"{name}"{space}:{space}{_value(chance, name)}' for name in names]
    return f"{space}{{{space}{f'{space},{space}'.join(fields)}}}{space}"


def _value(chance: random.Random, name: str) -> str:
    kind = chance.random()
    if kind < 0.75:
        return chance.choice(_FITTING.get(name, _OTHERS[:3]))
    if kind < 0.95:
        near = {"page": _TEXTS, "n": _NUMBERS, "d": _NUMBERS, "at": [*_TIMES, *_NUMBERS]}
        return chance.choice(near.get(name, _TIMES))
    return chance.choice([*_OTHERS, *_TEXTS, *_TIMES, *_NUMBERS])


def mutated(chance: random.Random, content: bytes) -> bytes:
    """Return the bytes with up to three stretches replaced."""
    changed = bytearray(content)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(changed) + 1)
        until = min(len(changed), at + chance.choice([0, 1, 2, 9]))
        other = [b"", bytes([chance.randrange(256)]), chance.choice(_PIECES)]
        changed[at:until] = chance.choice(other)
    return bytes(changed)


class Number(str):
    """The digits of a number, as they stand in the text."""


class Pairs(list[Any]):
    """The names and values of an object, which may be there twice."""


def told(value: bytes | None) -> dict[str, Any] | str:
    """Return a record's fields, or DEAD; UNKNOWN where the rules leave it to Spark's parser."""
    try:
        found = _parsed(value)
    except RecursionError:
        return UNKNOWN
    except ValueError:
        return DEAD
    if _depth(found) > _DEEPEST:
        return UNKNOWN
    if not isinstance(found, Pairs):
        return DEAD
    names = [name for name, _ in found]
    if any(names.count(name) > 1 for name in NAMES):
        return UNKNOWN
    given = dict(found)
    fields = {name: _RULES[name](given.get(name)) for name in NAMES}
    if DEAD in fields.values():
        return DEAD
    return UNKNOWN if UNKNOWN in fields.values() else fields


def _parsed(value: bytes | None) -> Any:
    if value is None:
        raise ValueError

    def refuse(text: str) -> None:
        raise ValueError(text)

    return json.loads(
        value.decode("utf-8"),
        parse_int=Number,
        parse_float=Number,
        parse_constant=refuse,
        object_pairs_hook=Pairs,
    )


def _depth(found: Any) -> int:
    depth, level = 0, [found]
    while level:
        depth += 1
        level = [
            part[1] if isinstance(each, Pairs) else part
            for each in level
            if isinstance(each, list)
            for part in each
        ]
    return depth


def _page(found: Any) -> Any:
    if found is None or (isinstance(found, str) and not isinstance(found, Number)):
        lone = found is not None and any("\ud800" <= sign <= "\udfff" for sign in found)
        return DEAD if lone else found
    return UNKNOWN


def _whole(found: Any) -> Any:
    if found is None:
        return None
    if not isinstance(found, Number) or re.search(r"[.eE]", found):
        return DEAD
    return int(found) if -(2**63) <= int(found) < 2**63 else DEAD


def _double(found: Any) -> Any:
    if found is None:
        return None
    if not isinstance(found, Number):
        return DEAD
    return float(found) if math.isfinite(float(found)) else DEAD


def _truth(found: Any) -> Any:
    return found if found is None or isinstance(found, bool) else DEAD


def _instant(found: Any) -> Any:
    """Return an instant in microseconds since 1970."""
    if found is None:
        return None
    if isinstance(found, Number):
        seconds = _whole(found)
        return DEAD if seconds == DEAD or not _FIRST <= seconds <= _LAST else seconds * 1_000_000
    if not isinstance(found, str) or not re.match(_DATE, found):
        return DEAD
    # A zone comes after seconds.
    if re.fullmatch(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(Z|[+-]\d\d:\d\d)", found):
        return DEAD
    if not re.fullmatch(
        r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{6})?)?(Z|[+-]\d\d:\d\d)?)?", found
    ):
        return UNKNOWN
    # Python's reader takes zones of 90 minutes, and of more than 18 hours.
    zone = re.search(r"[+-](\d\d):(\d\d)$", found)
    if zone and (int(zone[2]) > 59 or int(zone[1]) * 60 + int(zone[2]) > _FARTHEST_ZONE):
        return DEAD
    return _of(datetime.fromisoformat, found, lambda at: _micros(at))


def _micros(at: datetime) -> int | str:
    known = at if at.tzinfo else at.replace(tzinfo=UTC)
    passed = (known - _EPOCH) // timedelta(microseconds=1)
    return passed if _FIRST * 1_000_000 <= passed < (_LAST + 1) * 1_000_000 else DEAD


def _day(found: Any) -> Any:
    if found is None:
        return None
    if not isinstance(found, str) or isinstance(found, Number):
        return DEAD
    if not re.fullmatch(r"[+-]?\d{4,7}-\d{1,2}-\d{1,2}", found):
        return DEAD
    return (
        _of(date.fromisoformat, found, str) if re.fullmatch(r"\d{4}-\d\d-\d\d", found) else UNKNOWN
    )


def _of(read: Callable[[str], Any], text: str, shown: Callable[[Any], Any]) -> Any:
    try:
        return shown(read(text))
    except ValueError:
        return DEAD


_RULES: dict[str, Callable[[Any], Any]] = {
    "page": _page,
    "n": _whole,
    "d": _double,
    "ok": _truth,
    "at": _instant,
    "day": _day,
}
