"""The report of an erasure, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal

from pyspark.sql import SparkSession

from ...jvm import delta_state
from ...sinks.external.mirror import APPLIED_SCHEMA
from ...sinks.external.webhook import POSTED_SCHEMA
from ...sinks.kafka.kafka_sink import SENT_SCHEMA
from .subject import Identifier


@dataclass(frozen=True, kw_only=True)
class TableReport:
    """The erasure of one table.

    Attributes:
        rows: the subject's rows in the newest version.
        data_files, log_files: the data files and log files with the subject, older ones included.
        action: what was done, or would be done in a dry run.
    """

    path: str
    action: str
    rows: int = 0
    data_files: int = 0
    log_files: int = 0


@dataclass(frozen=True, kw_only=True)
class RemainingData:
    """Data that the erasure could not delete, and what its owner can do.

    identifies_subject: False for data that may derive from the subject's rows but identifies
    nobody.
    """

    path: str
    part: str
    reason: str
    remedy: str
    count: int = 0
    identifies_subject: bool = True


@dataclass(frozen=True, kw_only=True)
class ExternalDestination:
    """A destination outside of the roots to which rows were sent, and what its owner can do.

    recorded_in: the table that records what was sent; for dead letters, the checkpoint of the job.
    """

    destination_type: Literal["topic", "webhook", "store"]
    name: str
    recorded_in: str
    remedy: str


@dataclass(frozen=True, kw_only=True)
class ScanTotals:
    """The totals of a scan: files, bytes, decoded Parquet files, and files with the subject."""

    files: int
    bytes: int
    decoded_files: int
    matching_files: int


@dataclass(frozen=True, kw_only=True)
class ErasureReport:
    """The report of an erasure: the deleted rows, and the places that still contain the data.

    topics: the topics that the jobs have read. external_destinations: where the jobs have sent rows
    to. The erasure does not scan or change either.
    """

    identifiers: Sequence[Identifier]
    roots: Sequence[str]
    dry_run: bool
    started: datetime
    seconds: float
    tables: Sequence[TableReport]
    remaining: Sequence[RemainingData]
    topics: Sequence[str]
    external_destinations: Sequence[ExternalDestination]
    first_scan: ScanTotals
    last_scan: ScanTotals | None

    @property
    def is_clean(self) -> bool:
        """Whether the last scan found nothing that identifies the subject."""
        return not any(each.identifies_subject for each in self.remaining)

    def as_dict(self) -> Mapping[str, Any]:
        """Return the report for JSON."""
        return {
            "report": "tidegate erasure/1",
            "is_clean": self.is_clean,
            **asdict(self),
            "started": self.started.isoformat(),
        }

    def format_text(self) -> str:
        """Return the report as text."""
        lines = [
            f"Erasure of {self.started:%Y-%m-%d %H:%M:%S} UTC, of the data subject with",
            *(f"  {_format_identifier(each)}" for each in self.identifiers),
            f"below {', '.join(self.roots)}."
            + (" Dry run: nothing was changed." if self.dry_run else ""),
            "",
            *self._table_lines(),
            "",
            f"First scan: {_format_scan(self.first_scan)}",
            *([] if self.last_scan is None else [f"Last scan: {_format_scan(self.last_scan)}"]),
            "",
            *self._remaining_lines(),
            "",
        ]
        if self.topics:
            lines += [f"Topics, not changed: {', '.join(self.topics)}.", *_TOPIC_LINES, ""]
        if self.external_destinations:
            lines.append("Destinations of rows, not scanned and not changed:")
            for each in self.external_destinations:
                lines += [
                    f"  {each.destination_type} {each.name}, recorded in {each.recorded_in}",
                    f"    {each.remedy}",
                ]
            lines.append("")
        return "\n".join([*lines, f"Duration: {self.seconds:.0f} seconds."])

    def _table_lines(self) -> Iterator[str]:
        if not self.tables:
            yield "No table contains the subject, in its rows or in older files."
        for each in self.tables:
            yield (
                f"{each.path}: {each.rows:,} rows; the subject is in {each.data_files:,} data "
                f"files and {each.log_files:,} files of the table's log."
            )
            yield f"  {each.action}"

    def _remaining_lines(self) -> Iterator[str]:
        if self.is_clean and not self.dry_run:
            yield "Nothing below these folders identifies the subject."
        groups = {
            "Would not be deleted:" if self.dry_run else "Remaining:": True,
            "Remaining, without identifying anybody:": False,
        }
        for title, identifies in groups.items():
            items = [each for each in self.remaining if each.identifies_subject is identifies]
            if items:
                yield title
            for each in items:
                count = f", {each.count:,} times" if each.count else ""
                yield f"  {each.path} ({each.part}{count}): {each.reason}"
                yield f"    {each.remedy}"


_TOPIC_LINES = (
    "Their owner waits for the retention time, deletes the records (kafka-delete-records),",
    "or sends a tombstone for each key of the subject to a compacted topic.",
    "Until then a replay reads the records again.",
)


def _format_identifier(identifier: Identifier) -> str:
    scope = "" if identifier.table is None else f" in {identifier.table}"
    note = (
        ""
        if identifier.is_distinctive
        else "; a value this short is matched in text only after the column's name"
    )
    return f"{identifier.column} = {identifier.value}{scope}{note}"


def _format_scan(totals: ScanTotals) -> str:
    return (
        f"{totals.files:,} files, {totals.bytes:,} bytes, {totals.decoded_files:,} Parquet files "
        f"decoded; the subject was in {totals.matching_files:,} files."
    )


TOPIC_REMEDY = (
    "Its owner waits for the retention time, deletes the records (kafka-delete-records), or sends "
    "a tombstone for each key of the subject to a compacted topic; consumers of the topic have "
    "the rows too."
)
_WEBHOOK_REMEDY = (
    "Ask the receiver to delete the posted rows; each request has an Idempotency-Key header."
)
_STORE_REMEDY = (
    "Its owner deletes the subject's rows and keys; a deleted row leaves its key. They return only "
    "with a later change of such a key."
)


def _schema_text(columns: str) -> str:
    """Return SQL columns in the form of a schema's simpleString."""
    return f"struct<{columns.lower().replace(', ', ',').replace(' ', ':')}>"


_SENT_TABLES: Mapping[str, tuple[Literal["topic", "webhook", "store"], str | None, str]] = {
    _schema_text(SENT_SCHEMA): ("topic", "topic", TOPIC_REMEDY),
    _schema_text(APPLIED_SCHEMA): ("store", "store", _STORE_REMEDY),
    _schema_text(POSTED_SCHEMA): ("webhook", None, _WEBHOOK_REMEDY),
}
"""By the schema of a table of sent rows: the destination, the column with its name, the remedy."""


def find_external_destinations(
    spark: SparkSession, paths: Iterable[str]
) -> Iterator[ExternalDestination]:
    """Return the destinations that the tables of sent rows record."""
    for path in paths:
        schema = delta_state(spark, path).schema().simpleString()
        if schema in _SENT_TABLES:
            destination_type, column, remedy = _SENT_TABLES[schema]
            names = ["the address of the job"]
            if column is not None:
                rows = spark.read.format("delta").load(path).select(column).distinct()
                names = sorted(name for (name,) in rows.collect())
            for name in names:
                yield ExternalDestination(
                    destination_type=destination_type,
                    name=name,
                    recorded_in=path,
                    remedy=remedy,
                )
