"""The envelope that sketches are stored in: what a sketch is, a check sum, and its bytes.

| bytes | what |
|---|---|
| 3 | "TGS" |
| 1 | the version of this format, 1 |
| 4 | CRC-32 (IEEE 802.3, big-endian) of all bytes that follow |
| 56 | the label in ASCII, filled up with spaces: kind and parameters, "distinct precision=12" |
| rest | the sketch |

A check sum finds damage, not forgery: whoever can write the table can write a sketch that passes.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F

from ..columns import column
from ..errors import ArgumentError

MAGIC = b"TGS"
VERSION = 1
LABEL_BYTES = 56
HEADER_BYTES = 64
LARGEST = 16 * 1024 * 1024
_LABEL_AT = HEADER_BYTES - LABEL_BYTES
_BEGINNING = MAGIC + bytes([VERSION])


def sealed(sketch: Column, label: str | Column) -> Column:
    """Put a sketch's bytes into an envelope.

    Null stays null; a sketch too large to be read again is an error.
    """
    name = _padded(label)
    most = LARGEST - HEADER_BYTES

    def enveloped(given: Column) -> Column:
        check_sum = F.unhex(_check_sum(F.concat(name, given)))
        whole = F.concat(F.lit(_BEGINNING), check_sum, name, given)
        refusal = F.concat(
            F.lit("A sketch has "),
            F.octet_length(given).cast("string"),
            F.lit(f" bytes.\n  allowed: at most {most} bytes."),
            F.lit("\n  instead: a smaller sketch, or shorter values."),
        )
        too_large = F.when(given.isNotNull(), _raised(refusal))
        return F.when(F.octet_length(given) <= most, whole).otherwise(too_large)

    return once(sketch, enveloped)


def opened(stored: Column, wanted: str | Column) -> Column:
    """Take a sketch's bytes out of its envelope, after every check.

    `wanted` is a label, or its first words. Null stays null. Bytes that are no sound sketch are an
    error, which says what was found, what is needed and what to do.
    """

    def checked(given: Column) -> Column:
        refusal = F.concat(
            F.lit("A stored sketch cannot be used: it is "),
            _reason(given, wanted),
            F.lit(".\n  allowed: a whole sketch of `"),
            _text(wanted),
            F.lit("`.\n  instead: route such rows away with tidegate.sketches.reason,"),
            F.lit(" or make the sketch anew."),
        )
        sketch = F.substring(given, HEADER_BYTES + 1, LARGEST)
        unsound = F.when(given.isNotNull(), _raised(refusal))
        return F.when(_is_whole(given, wanted), sketch).otherwise(unsound)

    return once(stored, checked)


def once(value: Column, used: Callable[[Column], Column]) -> Column:
    """Return `used(value)`, with the value computed once, however often it is used.

    The value stands in the plan once, too: plans are made anew for each micro-batch, and a sketch's
    expression copied for each check would make them slow.
    """
    return F.transform(F.array(value), used)[0]


def reason(stored: str | Column, wanted: str | Column) -> Column:
    """Return why stored bytes are no sound sketch of what is wanted, as text.

    Null where they are one, and where there are none. For rows that go to a dead-letter table
    instead of stopping the job. `wanted` is a sketch's kind, with its parameters or without:
    "distinct precision=12", "distinct", "quantile k=200", "theta precision=12"; a Bloom filter's
    kind is "members". The partial of `top` is a struct whose field `sketch` holds the bytes.

    >>> sketches = spark.createDataFrame([(b"hello",)], "users binary")
    >>> sketches.select(reason("users", "distinct")).head()[0]
    'no sketch: it does not begin with TGS'
    """
    return once(column(stored), lambda given: _reason(given, wanted))


def _reason(given: Column, wanted: str | Column) -> Column:
    size = F.octet_length(given)
    no_magic = F.substring(given, 1, len(MAGIC)) != F.lit(MAGIC)
    other_version = F.substring(given, 1, len(_BEGINNING)) != F.lit(_BEGINNING)
    version = F.hex(F.substring(given, len(_BEGINNING), 1))
    label = F.rtrim(_label(given).cast("string"))
    return (
        F.when(no_magic, f"no sketch: it does not begin with {MAGIC.decode()}")
        .when(other_version, _said("of format version x", version, f", not x{VERSION:02X}"))
        .when(size < HEADER_BYTES, _said("cut off after ", size, " bytes"))
        .when(size > LARGEST, _said("too large: ", size, " bytes"))
        .when(~_sums_up(given), "damaged: its check sum does not fit its bytes")
        .when(~_is_of(given, wanted), _said("a sketch of `", label, "`"))
    )


def _said(before: str, value: Column, after: str) -> Column:
    return F.concat(F.lit(before), value.cast("string"), F.lit(after))


def is_sound(stored: str | Column, wanted: str | Column) -> Column:
    """Return whether stored bytes are a sound sketch of what is wanted.

    `reason` says what is wrong with others. Null counts as sound.

    >>> sketches = spark.createDataFrame([(b"hello",), (None,)], "users binary")
    >>> [row[0] for row in sketches.select(is_sound("users", "distinct")).collect()]
    [False, True]
    """
    return once(column(stored), lambda given: F.coalesce(_is_whole(given, wanted), given.isNull()))


def unsealed(stored: bytes, wanted: str) -> tuple[dict[str, str], bytes]:
    """Return a stored sketch's parameters and its bytes, in plain Python.

    Raises:
        ArgumentError: for bytes that are no sound sketch.
    """
    whole = bytes(stored)
    body = whole[_LABEL_AT:]
    label = body[:LABEL_BYTES].decode("ascii", errors="replace").rstrip()
    fault = _fault(whole, label, wanted)
    if fault is not None:
        raise ArgumentError(
            f"A stored sketch cannot be used: it is {fault}.", f"a whole sketch of `{wanted}`."
        )
    parameters = dict(word.split("=", 1) for word in label.split(" ")[1:])
    return parameters, body[LABEL_BYTES:]


def _fault(whole: bytes, label: str, wanted: str) -> str | None:
    """Return what is wrong with a stored sketch, in plain Python, as `_reason` does in Spark."""
    check_sum = int.from_bytes(whole[len(_BEGINNING) : _LABEL_AT], "big")
    if not whole.startswith(_BEGINNING):
        return f"no sketch: it does not begin with {MAGIC.decode()} and version {VERSION}"
    if not HEADER_BYTES <= len(whole) <= LARGEST:
        return f"cut off or too large: {len(whole)} bytes"
    if zlib.crc32(whole[_LABEL_AT:]) != check_sum:
        return "damaged: its check sum does not fit its bytes"
    if not f"{label} ".startswith(f"{wanted} "):
        return f"a sketch of `{label}`"
    return None


def _is_whole(stored: Column, wanted: str | Column) -> Column:
    size = F.octet_length(stored).between(HEADER_BYTES, LARGEST)
    return size & stored.startswith(F.lit(_BEGINNING)) & _is_of(stored, wanted) & _sums_up(stored)


def _is_of(stored: Column, wanted: str | Column) -> Column:
    # The space keeps precision=1 and precision=12 apart; every label ends in one.
    return _label(stored).startswith(F.concat(_text(wanted), F.lit(" ")).cast("binary"))


def _sums_up(stored: Column) -> Column:
    body = F.substring(stored, _LABEL_AT + 1, LARGEST)
    return F.hex(F.substring(stored, len(_BEGINNING) + 1, 4)) == _check_sum(body)


def _check_sum(body: Column) -> Column:
    return F.lpad(F.hex(F.crc32(body)), 8, "0")


def _label(stored: Column) -> Column:
    return F.substring(stored, _LABEL_AT + 1, LABEL_BYTES)


def _padded(label: str | Column) -> Column:
    # A byte less than there is room for, so that the last one is always a space.
    return F.rpad(F.rpad(_text(label), LABEL_BYTES - 1, " "), LABEL_BYTES, " ").cast("binary")


def _text(label: str | Column) -> Column:
    return F.lit(label) if isinstance(label, str) else label


def _raised(message: Column) -> Column:
    return F.raise_error(message).cast("binary")
