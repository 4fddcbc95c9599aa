"""Random values that may be JSON records, and an oracle that decodes them."""

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
UNKNOWN = "undecided"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = -62_135_596_800, 253_402_300_799
"""The first and the last second of a valid timestamp."""
_MAX_ZONE_OFFSET = 18 * 60
"""In minutes."""
_MAX_DEPTH = 900
"""The oracle decides nothing about deeper values."""

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
_VALID_VALUES = {
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


def random_values(rng: random.Random, count: int) -> Iterator[bytes | None]:
    """Yield `count` values of all kinds."""
    for _ in range(count):
        kind = rng.random()
        if kind < 0.02:
            yield rng.choice(_ODD)
        elif kind < 0.06:
            yield rng.randbytes(rng.randrange(40))
        elif kind < 0.5:
            yield random_object(rng).encode()
        else:
            yield mutate_bytes(rng, random_object(rng).encode())


def random_object(rng: random.Random) -> str:
    """Return an object with fields of wrong types, missing, duplicate and unknown fields."""
    names = rng.sample(NAMES, k=rng.randrange(len(NAMES) + 1))
    names += rng.choices(["unknown", "\\u0061t", "AT", *NAMES], k=rng.choice([0, 0, 0, 1, 2]))
    space = rng.choice(_SPACE)
    fields = [f'"{name}"{space}:{space}{_value(rng, name)}' for name in names]
    return f"{space}{{{space}{f'{space},{space}'.join(fields)}}}{space}"


def _value(rng: random.Random, name: str) -> str:
    kind = rng.random()
    if kind < 0.75:
        return rng.choice(_VALID_VALUES.get(name, _OTHERS[:3]))
    if kind < 0.95:
        near = {"page": _TEXTS, "n": _NUMBERS, "d": _NUMBERS, "at": [*_TIMES, *_NUMBERS]}
        return rng.choice(near.get(name, _TIMES))
    return rng.choice([*_OTHERS, *_TEXTS, *_TIMES, *_NUMBERS])


def mutate_bytes(rng: random.Random, content: bytes) -> bytes:
    """Return the bytes with up to three spans replaced."""
    changed = bytearray(content)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(changed) + 1)
        until = min(len(changed), at + rng.choice([0, 1, 2, 9]))
        other = [b"", bytes([rng.randrange(256)]), rng.choice(_PIECES)]
        changed[at:until] = rng.choice(other)
    return bytes(changed)


class NumberText(str):
    """A number as written in the text."""


class ObjectPairs(list[Any]):
    """The names and values of an object, with duplicates."""


def expected_record(value: bytes | None) -> dict[str, Any] | str:
    """Return the fields of the record, DEAD, or UNKNOWN if the rules leave it to Spark's parser."""
    try:
        parsed = _parse(value)
    except RecursionError:
        return UNKNOWN
    except ValueError:
        return DEAD
    if _depth(parsed) > _MAX_DEPTH:
        return UNKNOWN
    if not isinstance(parsed, ObjectPairs):
        return DEAD
    names = [name for name, _ in parsed]
    if any(names.count(name) > 1 for name in NAMES):
        return UNKNOWN
    by_name = dict(parsed)
    fields = {name: _RULES[name](by_name.get(name)) for name in NAMES}
    if DEAD in fields.values():
        return DEAD
    return UNKNOWN if UNKNOWN in fields.values() else fields


def _parse(value: bytes | None) -> Any:
    if value is None:
        raise ValueError

    def refuse(text: str) -> None:
        raise ValueError(text)

    return json.loads(
        value.decode("utf-8"),
        parse_int=NumberText,
        parse_float=NumberText,
        parse_constant=refuse,
        object_pairs_hook=ObjectPairs,
    )


def _depth(value: Any) -> int:
    depth, level = 0, [value]
    while level:
        depth += 1
        level = [
            part[1] if isinstance(each, ObjectPairs) else part
            for each in level
            if isinstance(each, list)
            for part in each
        ]
    return depth


def _text(value: Any) -> Any:
    if value is None or (isinstance(value, str) and not isinstance(value, NumberText)):
        lone = value is not None and any("\ud800" <= sign <= "\udfff" for sign in value)
        return DEAD if lone else value
    return UNKNOWN


def _integer(value: Any) -> Any:
    if value is None:
        return None
    if not isinstance(value, NumberText) or re.search(r"[.eE]", value):
        return DEAD
    return int(value) if -(2**63) <= int(value) < 2**63 else DEAD


def _double(value: Any) -> Any:
    if value is None:
        return None
    if not isinstance(value, NumberText):
        return DEAD
    return float(value) if math.isfinite(float(value)) else DEAD


def _boolean(value: Any) -> Any:
    return value if value is None or isinstance(value, bool) else DEAD


def _timestamp(value: Any) -> Any:
    """Return an instant in microseconds since 1970."""
    if value is None:
        return None
    if isinstance(value, NumberText):
        seconds = _integer(value)
        return DEAD if seconds == DEAD or not _FIRST <= seconds <= _LAST else seconds * 1_000_000
    if not isinstance(value, str) or not re.match(_DATE, value):
        return DEAD
    # A zone requires seconds.
    if re.fullmatch(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(Z|[+-]\d\d:\d\d)", value):
        return DEAD
    if not re.fullmatch(
        r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{6})?)?(Z|[+-]\d\d:\d\d)?)?", value
    ):
        return UNKNOWN
    # Python accepts zone offsets with 90 minutes, and of more than 18 hours.
    zone = re.search(r"[+-](\d\d):(\d\d)$", value)
    if zone and (int(zone[2]) > 59 or int(zone[1]) * 60 + int(zone[2]) > _MAX_ZONE_OFFSET):
        return DEAD
    return _value_or_dead(datetime.fromisoformat, value, _micros)


def _micros(at: datetime) -> int | str:
    zoned = at if at.tzinfo else at.replace(tzinfo=UTC)
    micros = (zoned - _EPOCH) // timedelta(microseconds=1)
    return micros if _FIRST * 1_000_000 <= micros < (_LAST + 1) * 1_000_000 else DEAD


def _date(value: Any) -> Any:
    if value is None:
        return None
    if not isinstance(value, str) or isinstance(value, NumberText):
        return DEAD
    if not re.fullmatch(r"[+-]?\d{4,7}-\d{1,2}-\d{1,2}", value):
        return DEAD
    return (
        _value_or_dead(date.fromisoformat, value, str)
        if re.fullmatch(r"\d{4}-\d\d-\d\d", value)
        else UNKNOWN
    )


def _value_or_dead(parse: Callable[[str], Any], text: str, convert: Callable[[Any], Any]) -> Any:
    try:
        return convert(parse(text))
    except ValueError:
        return DEAD


_RULES: dict[str, Callable[[Any], Any]] = {
    "page": _text,
    "n": _integer,
    "d": _double,
    "ok": _boolean,
    "at": _timestamp,
    "day": _date,
}
