"""Where a change stands in its database's own log, as numbers that compare as the log goes on."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

_NUMBERS = ("ts_ms", "ts_us", "lsn", "pos", "row", "event_serial_no")
_TEXTS = ("file", "commit_lsn", "change_lsn", "scn")
DEBEZIUM_SOURCE = StructType(
    [
        *[StructField(name, LongType()) for name in _NUMBERS],
        *[StructField(name, StringType()) for name in _TEXTS],
    ]
)
"""The fields of Debezium's `source` that are read."""

_HEX = r"^[0-9A-Fa-f]{1,12}(:[0-9A-Fa-f]{1,12}){0,5}$"


def debezium_position(source: Column) -> Column:
    """Return the position that Debezium's `source` names; null where it names none.

    PostgreSQL: [lsn]. MySQL and MariaDB: [number of the binlog file, pos, row]. SQL Server and Db2:
    [the parts of commit_lsn, those of change_lsn, event_serial_no]. Oracle: [scn].
    """
    return F.coalesce(
        F.when(source["lsn"].isNotNull(), F.array(source["lsn"])),
        _mysql(source),
        _sql_server(source),
        _oracle(source),
    )


def maxwell_position(position: Column, xoffset: Column) -> Column:
    """Return [number of the binlog file, pos, xoffset] for Maxwell's "file:pos".

    Null where the text is none; xoffset is the row's place in its transaction.
    """
    parts = F.split(position, ":")
    number = _binlog(F.get(parts, F.lit(0)))
    pos = F.get(parts, F.lit(1)).try_cast("bigint")
    known = (F.size(parts) == 2) & number.isNotNull() & pos.isNotNull()
    return F.when(known, F.array(number, pos, F.coalesce(xoffset, F.lit(0))))


def _mysql(source: Column) -> Column:
    number = _binlog(source["file"])
    known = number.isNotNull() & source["pos"].isNotNull()
    return F.when(known, F.array(number, source["pos"], F.coalesce(source["row"], F.lit(0))))


def _sql_server(source: Column) -> Column:
    commit = _hexadecimal(source["commit_lsn"])
    change = F.coalesce(_hexadecimal(source["change_lsn"]), F.array().cast("array<bigint>"))
    serial = F.array(F.coalesce(source["event_serial_no"], F.lit(0)))
    return F.when(commit.isNotNull(), F.concat(commit, change, serial))


def _oracle(source: Column) -> Column:
    scn = source["scn"].try_cast("bigint")
    return F.when(scn.isNotNull(), F.array(scn))


def _binlog(file: Column) -> Column:
    """Return the number at the end of a file's name, such as 3 of mysql-bin.000003."""
    return F.regexp_extract(file, r"(\d{1,18})$", 1).try_cast("bigint")


def _hexadecimal(lsn: Column) -> Column:
    """Return the numbers of a text such as 00000027:00000758:0003."""
    parts = F.split(lsn, ":")
    numbers = F.transform(parts, lambda part: F.conv(part, 16, 10).try_cast("bigint"))
    return F.when(lsn.rlike(_HEX), numbers)
