"""JSON values read by Arrow's parser, a block at a time.

Those that are alike are read before it, without a parser. Arrow's refuses nearly everything that
`from_json` refuses, and more. Where it takes more, the block is looked through before and after, so
that a value which is read here is read as `from_json` reads it. A block in which a value does not
pass is divided and read again, until that value stands alone or among a few: these are left for
`from_json`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
from pyspark.sql.types import StructType

from ._arrow_fields import Field, NotPassedError, fields_of, records_of, require, struct_of
from ._cutting import read_alike
from ._options import LONGEST

_TEMPLATES = 4
"""So many templates are looked for in an Arrow batch, before the rest goes to the parser."""
_FEW = 128
"""A block that does not pass and is no longer than this is not divided."""
_MOST_FAILURES = 10
"""After so many blocks that did not pass, the rest of an Arrow batch is not tried: a call of the
parser costs as much as some hundred values."""
_ROW = re.compile(r"in row (\d+)$")
_LONG = 900
"""Bytes of a value within which neither 1,000 levels nor a number of 1,000 digits find room."""


@dataclass(frozen=True)
class _Block:
    """Values that are read at once, or are left."""

    values: Any
    left: bool = False

    def divided(self, error: Exception) -> list[_Block]:
        """Return the parts in which a block that does not pass is tried again.

        The parser often names the row that it refused.
        """
        count = len(self.values)
        named = _ROW.search(str(error))
        if named is not None and int(named[1]) < count:
            at = int(named[1])
            before = _Block(self.values.slice(0, at))
            refused = _Block(self.values.slice(at, 1), left=True)
            return [before, refused, _Block(self.values.slice(at + 1))]
        if count <= _FEW:
            return [_Block(self.values, left=True)]
        half = count // 2
        return [_Block(self.values.slice(0, half)), _Block(self.values.slice(half))]


class _Reading:
    """Values of which some are read at a time.

    rest: those that are not read yet.
    """

    def __init__(self, values: Any) -> None:
        self.rest = values
        self._at = np.arange(len(values))
        self._found: list[Any] = []
        self._places: list[Any] = []

    def add(self, records: Any, rows: Any) -> None:
        """Take the records of some of the rest, and these from it."""
        self._found.append(records)
        self._places.append(self._at[rows])
        self.rest = self.rest.filter(pa.array(~rows))
        self._at = self._at[~rows]

    def together(self, kind: pa.DataType) -> Any:
        """Return the records in the order of their values; null for those of the rest."""
        found = [*self._found, pa.nulls(len(self.rest), kind)]
        filled = [records for records in found if len(records)]
        if len(filled) == 1:
            return filled[0]
        places = np.concatenate([*self._places, self._at])
        return pa.concat_arrays(found).take(pa.array(np.argsort(places)))


@dataclass(frozen=True)
class ArrowJson:
    """Reads JSON objects of a schema; made by `arrow_json`."""

    fields: tuple[Field, ...]

    def read(self, values: Any) -> Any:
        """Read an array of bytes as structs; null where a value is left."""
        reading = _Reading(values)
        for _ in range(_TEMPLATES):
            read = read_alike(reading.rest, self.fields)
            if read is None:
                break
            reading.add(*read)
        braced = _in_braces(reading.rest)
        reading.add(self._in_blocks(reading.rest.filter(pa.array(braced))), braced)
        return reading.together(struct_of(self.fields))

    def _in_blocks(self, values: Any) -> Any:
        """Read them by the parser."""
        found = []
        failures = 0
        ahead = [_Block(values)]
        while ahead:
            block = ahead.pop()
            if block.left or failures >= _MOST_FAILURES:
                found.append(pa.nulls(len(block.values), struct_of(self.fields)))
                continue
            try:
                found.append(self._parsed(block.values))
            except (NotPassedError, pa.ArrowException) as error:
                failures += 1
                ahead += reversed(block.divided(error))
        return pa.concat_arrays(found)

    def _parsed(self, block: Any) -> Any:
        if not len(block):
            return pa.nulls(0, struct_of(self.fields))
        text = _joined(block)
        table = pyarrow.json.read_json(
            pa.BufferReader(text),
            read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(text) + 64),
            parse_options=pyarrow.json.ParseOptions(
                explicit_schema=pa.schema([(each.name, each.parsed) for each in self.fields]),
                unexpected_field_behavior="ignore",
            ),
        )
        # Each value gave at least one row, so that none gave two.
        require(table.num_rows == len(block))
        columns = {each.name: _whole(table.column(each.name)) for each in self.fields}
        return records_of(self.fields, columns, len(block))


def _in_braces(values: Any) -> Any:
    """Return which values begin and end as objects do; the parser is spared the others."""
    braced = pc.and_(pc.starts_with(values, b"{"), pc.ends_with(values, b"}"))
    return braced.fill_null(False).to_numpy(zero_copy_only=False)


def _whole(column: pa.ChunkedArray) -> Any:
    """Return a column in one piece."""
    found = column.combine_chunks()
    return pa.concat_arrays(found.chunks) if isinstance(found, pa.ChunkedArray) else found


def _joined(block: Any) -> bytes:
    """Return the values with a line end after each, and refuse those that hide more than one."""
    require(block.null_count == 0)
    joined = pc.binary_join(pa.ListArray.from_arrays([0, len(block)], block), b"\n")
    text: bytes = joined[0].as_py()
    require(text.startswith(b"{") and text.endswith(b"}"))
    _require_lines(np.frombuffer(text, np.uint8), len(block))
    require(b"\r" not in text)
    # The parser takes these as numbers, in fields that nobody asked for as well. To look for one
    # byte costs a fiftieth of looking for three.
    require(b"N" not in text or b"NaN" not in text)
    require(b"I" not in text or b"Inf" not in text)
    if not text.isascii():
        _require_utf8(text)
    longest = pc.max(pc.binary_length(block)).as_py()
    if longest > _LONG:
        require(longest <= LONGEST)
        levels = pc.add(pc.count_substring(block, "{"), pc.count_substring(block, "["))
        require(pc.max(levels).as_py() <= _LONG)
        require(not pc.any(pc.match_substring_regex(block, "[0-9]{300}")).as_py())
    return text


def _require_lines(data: Any, count: int) -> None:
    """Refuse a line that does not begin with a brace and end with one, and a line too many."""
    ends = np.flatnonzero(data == ord("\n"))
    require(len(ends) == count - 1)
    require(bool((data[ends - 1] == ord("}")).all() and (data[ends + 1] == ord("{")).all()))


def _require_utf8(text: bytes) -> None:
    try:
        text.decode()
    except UnicodeDecodeError as error:
        raise NotPassedError from error


def arrow_json(schema: StructType) -> ArrowJson | None:
    """Return the reader of a schema; None for one with a type that Arrow reads differently.

    Such are maps, times without a zone, and dates, times and NOT NULL inside other types.
    """
    fields = fields_of(schema)
    return ArrowJson(fields) if fields else None
