"""The envelope of stored sketches: magic bytes, version, checksum, label and payload.

| bytes | content |
|---|---|
| 3 | "TGS" |
| 1 | format version, 1 |
| 4 | CRC-32 (IEEE 802.3, big-endian) of all following bytes |
| 56 | label in ASCII, padded with spaces: kind and parameters, such as "distinct precision=12" |
| rest | the sketch |

The checksum detects damage, not forgery.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F

from ..columns import as_column
from ..errors import ArgumentError

MAGIC = b"TGS"
VERSION = 1
LABEL_BYTES = 56
HEADER_BYTES = 64
MAX_BYTES = 16 * 1024 * 1024
_LABEL_OFFSET = HEADER_BYTES - LABEL_BYTES
_PREAMBLE = MAGIC + bytes([VERSION])


def read_unsigned(sketch: Column, first: int, last: int) -> Column:
    """Return the little-endian number in bytes `first` to `last` (1-based) as a decimal.

    Null if the sketch is shorter.
    """
    positions = range(last, first - 1, -1)
    digits = [F.hex(F.substring(sketch, position, 1)) for position in positions]
    return F.conv(F.concat(*digits), 16, 10).cast("decimal(20, 0)")


def encode_sketch(sketch: Column, label: str | Column) -> Column:
    """Wrap the bytes of a sketch in an envelope.

    Null stays null. A sketch larger than `MAX_BYTES` raises an error when the query runs.
    """
    # One byte less than the field has, so that the last byte is always a space.
    name = F.rpad(F.rpad(_text(label), LABEL_BYTES - 1, " "), LABEL_BYTES, " ").cast("binary")
    max_bytes = MAX_BYTES - HEADER_BYTES

    def wrap(payload: Column) -> Column:
        checksum = F.unhex(_checksum(F.concat(name, payload)))
        envelope = F.concat(F.lit(_PREAMBLE), checksum, name, payload)
        size = F.octet_length(payload)
        message = F.format_string(
            f"sketch too large: %s bytes\n  cause: A stored sketch has at most {max_bytes} bytes.\n"
            "  fix: Use a smaller sketch or shorter values.",
            size,
        )
        too_large = F.when(payload.isNotNull(), F.raise_error(message).cast("binary"))
        return F.when(size <= max_bytes, envelope).otherwise(too_large)

    return compute_once(sketch, wrap)


def decode_sketch(stored: Column, expected: str | Column) -> Column:
    """Return the bytes of a sketch without its envelope, after all checks.

    `expected` is a label, or its first words. Null stays null. Bytes that are not a valid sketch of
    this label raise an error when the query runs.
    """

    def unwrap(envelope: Column) -> Column:
        message = F.format_string(
            "invalid sketch: %s\n  cause: The stored value is not an intact sketch of `%s`.\n"
            "  fix: Filter such rows with tidegate.sketches.sketch_fault, or compute the sketch "
            "again.",
            _sketch_fault(envelope, expected),
            _text(expected),
        )
        sketch = F.substring(envelope, HEADER_BYTES + 1, MAX_BYTES)
        error = F.when(envelope.isNotNull(), F.raise_error(message).cast("binary"))
        return F.when(_is_valid(envelope, expected), sketch).otherwise(error)

    return compute_once(stored, unwrap)


def compute_once(value: Column, use: Callable[[Column], Column]) -> Column:
    """Return `use(value)`; the plan has, and computes, `value` only once.

    Each micro-batch compiles its plan again; a copy of the expression per check would be slow.
    """
    return F.transform(F.array(value), use)[0]


def count_bounds(
    stored: str | Column,
    kind: str,
    interval: Callable[[Column], tuple[Column, Column, Column]],
    std_devs: int,
) -> Column:
    """Return low, estimate and high of a stored sketch as a struct of bigints; null for null.

    Raises ArgumentError unless `std_devs` is 1, 2 or 3.
    """
    if std_devs not in (1, 2, 3):
        raise ArgumentError(f"invalid std_devs: {std_devs!r}", "1, 2 or 3", "std_devs=2")

    def bounds(sketch: Column) -> Column:
        low, estimate, high = [value.cast("bigint") for value in interval(sketch)]
        result = F.struct(low.alias("low"), estimate.alias("estimate"), high.alias("high"))
        return F.when(sketch.isNotNull(), result)

    return compute_once(decode_sketch(as_column(stored, "stored"), kind), bounds)


def sketch_fault(stored: str | Column, expected: str | Column) -> Column:
    """Return, as text, why stored bytes are not a valid sketch of the expected kind.

    Null for a valid sketch and for null. Use it to route damaged rows to a dead-letter table
    instead of failing the job. `expected` is the label of a sketch, with or without parameters:

    | function | label |
    |---|---|
    | `approx_count_distinct` | "distinct precision=12" |
    | `approx_quantile` | "quantile k=200" |
    | `approx_top_k` | "top capacity=1000"; its partial has the bytes in the field `sketch` |
    | `bloom_filter` | "members" |
    | `theta_sketch` | "theta precision=12" |

    >>> sketches = spark.createDataFrame([(b"hello",)], "users binary")
    >>> sketches.select(sketch_fault("users", "distinct")).head()[0]
    'not a sketch: does not start with TGS'
    """
    return compute_once(
        as_column(stored, "stored"), lambda envelope: _sketch_fault(envelope, expected)
    )


def _sketch_fault(envelope: Column, expected: str | Column) -> Column:
    size = F.octet_length(envelope)
    no_magic = F.substring(envelope, 1, len(MAGIC)) != F.lit(MAGIC)
    other_version = F.substring(envelope, 1, len(_PREAMBLE)) != F.lit(_PREAMBLE)
    version = F.hex(F.substring(envelope, len(_PREAMBLE), 1))
    label = F.rtrim(_label(envelope).cast("string"))
    return (
        F.when(no_magic, f"not a sketch: does not start with {MAGIC.decode()}")
        .when(
            other_version, F.format_string(f"format version x%s instead of x{VERSION:02X}", version)
        )
        .when(size < HEADER_BYTES, F.format_string("truncated after %s bytes", size))
        .when(size > MAX_BYTES, F.format_string("too large: %s bytes", size))
        .when(~_has_valid_checksum(envelope), "damaged: checksum mismatch")
        .when(~_has_label(envelope, expected), F.format_string("label is `%s`", label))
    )


def is_valid_sketch(stored: str | Column, expected: str | Column) -> Column:
    """Return whether stored bytes are a valid sketch of the expected kind; true for null.

    `sketch_fault` describes the labels, and returns the fault of an invalid sketch.

    >>> sketches = spark.createDataFrame([(b"hello",), (None,)], "users binary")
    >>> [row[0] for row in sketches.select(is_valid_sketch("users", "distinct")).collect()]
    [False, True]
    """
    return compute_once(
        as_column(stored, "stored"),
        lambda envelope: F.coalesce(_is_valid(envelope, expected), envelope.isNull()),
    )


def decode_sketch_bytes(stored: bytes, expected: str) -> tuple[dict[str, str], bytes]:
    """Return the parameters and the bytes of a stored sketch, in plain Python.

    Raises:
        ArgumentError: for bytes that are not a valid sketch of this label.
    """
    envelope = bytes(stored)
    body = envelope[_LABEL_OFFSET:]
    label = body[:LABEL_BYTES].decode("ascii", errors="replace").rstrip()
    fault = _python_sketch_fault(envelope, label, expected)
    if fault is not None:
        raise ArgumentError(f"invalid sketch: {fault}", f"an intact sketch of `{expected}`")
    parameters = dict(word.split("=", 1) for word in label.split(" ")[1:])
    return parameters, body[LABEL_BYTES:]


def _python_sketch_fault(envelope: bytes, label: str, expected: str) -> str | None:
    """Return the fault of a stored sketch, as `_sketch_fault` does in Spark."""
    checksum = int.from_bytes(envelope[len(_PREAMBLE) : _LABEL_OFFSET], "big")
    if not envelope.startswith(_PREAMBLE):
        return f"not a sketch: does not start with {MAGIC.decode()} and version {VERSION}"
    if not HEADER_BYTES <= len(envelope) <= MAX_BYTES:
        return f"truncated or too large: {len(envelope)} bytes"
    if zlib.crc32(envelope[_LABEL_OFFSET:]) != checksum:
        return "damaged: checksum mismatch"
    if not f"{label} ".startswith(f"{expected} "):
        return f"label is `{label}`"
    return None


def _is_valid(stored: Column, expected: str | Column) -> Column:
    return (
        F.octet_length(stored).between(HEADER_BYTES, MAX_BYTES)
        & stored.startswith(F.lit(_PREAMBLE))
        & _has_label(stored, expected)
        & _has_valid_checksum(stored)
    )


def _has_label(stored: Column, expected: str | Column) -> Column:
    # The space distinguishes precision=1 from precision=12; every label ends with a space.
    return _label(stored).startswith(F.concat(_text(expected), F.lit(" ")).cast("binary"))


def _has_valid_checksum(stored: Column) -> Column:
    body = F.substring(stored, _LABEL_OFFSET + 1, MAX_BYTES)
    return F.hex(F.substring(stored, len(_PREAMBLE) + 1, 4)) == _checksum(body)


def _checksum(body: Column) -> Column:
    return F.lpad(F.hex(F.crc32(body)), 8, "0")


def _label(stored: Column) -> Column:
    return F.substring(stored, _LABEL_OFFSET + 1, LABEL_BYTES)


def _text(label: str | Column) -> Column:
    return F.lit(label) if isinstance(label, str) else label
