"""Positions in the log of a database, as arrays of numbers that sort in log order."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

_NUMBER_FIELDS = ("ts_ms", "ts_us", "lsn", "pos", "row", "event_serial_no", "ssn", "server_id")
_TEXT_FIELDS = ("name", "snapshot", "file", "gtid", "commit_lsn", "change_lsn", "scn", "rs_id")
DEBEZIUM_SOURCE = StructType(
    [
        *[StructField(name, LongType()) for name in _NUMBER_FIELDS],
        *[StructField(name, StringType()) for name in _TEXT_FIELDS],
    ]
)
"""The fields of Debezium's `source` that positions and times need."""

_HEX = r"^[0-9A-Fa-f]{1,12}(:[0-9A-Fa-f]{1,12}){0,5}$"


def debezium_position(source: Column) -> Column:
    """Return the position in Debezium's `source`, or null.

    PostgreSQL: [lsn]. MySQL and MariaDB: [number of the binlog file, pos, row]. SQL Server and Db2:
    [*commit_lsn, *change_lsn, event_serial_no]. Oracle: [scn, *rs_id, ssn]; the changes of a
    transaction can have one SCN, so there is no position without the place in the redo log.
    """
    return F.coalesce(
        F.when(source["lsn"].isNotNull(), F.array(source["lsn"])),
        _binlog_position(source["file"], source["pos"], source["row"]),
        _sql_server_position(source),
        _oracle_position(source),
    )


def debezium_server(source: Column) -> Column:
    """Return the identity of the log that the positions of Debezium's `source` are in.

    MySQL and MariaDB: with the server, by its id and that of its GTIDs, because the numbers of the
    binlog files of another one are others.
    """
    return F.concat_ws("/", source["name"], source["server_id"], _gtid_source(source["gtid"]))


def is_debezium_snapshot(source: Column) -> Column:
    """Return whether a change is a row of a snapshot: initial, incremental or ad hoc."""
    return F.coalesce(~source["snapshot"].isin("", "false"), F.lit(False))


def maxwell_server(server_id: Column, gtid: Column) -> Column:
    """Return the identity of the log of Maxwell's positions; null if it is not written."""
    parts = F.concat_ws("/", server_id, _gtid_source(gtid))
    return F.nullif(parts, F.lit(""))


def _gtid_source(gtid: Column) -> Column:
    """Return the server of a MySQL GTID, uuid:number, or the domain of one of MariaDB, 0-1-270."""
    return F.regexp_extract(gtid, r"^([0-9A-Fa-f-]{36}|\d+-\d+)[:-]", 1)


def maxwell_position(position: Column, xoffset: Column) -> Column:
    """Return [number of the binlog file, pos, xoffset] for Maxwell's "file:pos".

    Null for any other text. xoffset is the index of the row in its transaction.
    """
    parts = F.split(position, ":")
    pos = F.get(parts, F.lit(1)).try_cast("bigint")
    return F.when(F.size(parts) == 2, _binlog_position(F.get(parts, F.lit(0)), pos, xoffset))


def _binlog_position(file: Column, pos: Column, row: Column) -> Column:
    """Return a position with the number at the end of a file name, 3 for mysql-bin.000003."""
    number = F.regexp_extract(file, r"(\d{1,18})$", 1).try_cast("bigint")
    is_complete = number.isNotNull() & pos.isNotNull()
    return F.when(is_complete, F.array(number, pos, F.coalesce(row, F.lit(0))))


def _sql_server_position(source: Column) -> Column:
    commit = _lsn_parts(source["commit_lsn"])
    change = F.coalesce(_lsn_parts(source["change_lsn"]), F.array().cast("array<bigint>"))
    serial = F.array(F.coalesce(source["event_serial_no"], F.lit(0)))
    return F.when(commit.isNotNull(), F.concat(commit, change, serial))


def _oracle_position(source: Column) -> Column:
    scn = source["scn"].try_cast("bigint")
    # Such as " 0x000124.00000f8a.0010 ".
    numbers = F.replace(
        F.regexp_replace(F.trim(source["rs_id"]), "^0x", ""), F.lit("."), F.lit(":")
    )
    redo = _lsn_parts(numbers)
    ssn = F.array(F.coalesce(source["ssn"], F.lit(0)))
    return F.when(scn.isNotNull() & redo.isNotNull(), F.concat(F.array(scn), redo, ssn))


def _lsn_parts(lsn: Column) -> Column:
    """Return the hexadecimal numbers of a text such as 00000027:00000758:0003."""
    parts = F.split(lsn, ":")
    numbers = F.transform(parts, lambda part: F.conv(part, 16, 10).try_cast("bigint"))
    return F.when(lsn.rlike(_HEX), numbers)
