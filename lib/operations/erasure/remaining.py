"""Remaining data after an erasure: in files, and in the state of streaming queries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from pyspark.sql import SparkSession

from ...jvm import root_cause_text
from ...spark.spark_errors import raise_disk_error
from ..state_stores import STATE_ERRORS, list_state_stores, readable_checkpoint
from .erasure_report import RemainingData
from .inventory import FileKind, Inventory, Root
from .row_scan import count_subject_rows
from .scan import FileScan
from .subject import DataSubject

_STATE_REMEDY = (
    "State expires with the watermark, and its files a hundred batches later: run the job, then "
    "run this again. Or start a new checkpoint with --resume-from-table or tidegate replay, and "
    "delete the old one."
)
_EXPLANATIONS: dict[FileKind, tuple[str, str]] = {
    "rows": (
        "rows that contain an identifier in a column without a --where.",
        "Add the column: --where TABLE:COLUMN=VALUE deletes these rows.",
    ),
    "log": (
        "the log, a comment or a property of the table contains an identifier.",
        "Run this again; what remains then is a comment, a property or a name of the table.",
    ),
    "checkpoint": (
        "the checkpoint of the query, most likely its state, contains an identifier.",
        _STATE_REMEDY,
    ),
    "other": (
        "a file outside of all tables contains an identifier.",
        "Its owner deletes the file or the part of it.",
    ),
}
"""Why a subject remains in a file of each kind, and the remedy."""
_SKETCH_CONTENTS: Mapping[str, str] = {
    "distinct": "a HyperLogLog sketch stores neither values nor hashes: it cannot reveal who was "
    "counted.",
    "theta": "a theta sketch stores hashes of some of its values: a known value can be looked up.",
    "members": "a Bloom filter stores bits: a known value can be looked up, with some false "
    "positives.",
    "quantile": "a quantile sketch stores some of its numbers, without their keys.",
    "top": "a top-k sketch stores the most frequent values. The scan finds a subject among them by "
    "text of at least four letters, or by a number of at least eight digits.",
}
"""What a sketch stores, by the first word of its label."""
_SKETCH_REMEDY = (
    "If that is personal data: after the records were deleted from the topic, tidegate replay, or "
    "the job with a new checkpoint and new tables, rebuilds the tables."
)
_TOP_SKETCH_EXPLANATION = (
    "a top-k sketch contains the subject, and cannot delete a value.",
    "After the records were deleted from the topic, tidegate replay, or the job with a new "
    "checkpoint and new tables, rebuilds the table; or delete the rows of these windows: --where "
    "TABLE:COLUMN=VALUE with one of their columns, such as the result of the sketch, "
    "views:users.value=alice.",
)
"""Why a subject remains in a sketch, and the remedy."""


def remaining_in_files(
    root: Root, file_scans: Sequence[FileScan], *, include_tables: bool
) -> Iterator[RemainingData]:
    """Return the matches in files; for a dry run, without tables, whose data would be deleted."""
    counts: Counter[tuple[str, FileKind, str]] = Counter()
    for each in file_scans:
        kind = each.file.file_kind
        if include_tables or kind in ("checkpoint", "other"):
            relative_path = each.file.name if kind == "other" else each.file.owner
            for part, number in each.matches.items():
                counts[relative_path, kind, part] += number
    sketches = _count_sketches(file_scans)
    for (relative_path, kind, part), number in sorted((+counts).items()):
        is_top_sketch = (relative_path, part, "top") in sketches
        reason, remedy = _TOP_SKETCH_EXPLANATION if is_top_sketch else _EXPLANATIONS[kind]
        path = root.absolute(relative_path)
        yield RemainingData(path=path, part=part, count=number, reason=reason, remedy=remedy)
    for each in file_scans:
        if each.error:
            yield RemainingData(
                path=root.path,
                part="a file that cannot be read",
                reason=each.error,
                remedy="Make it readable, or delete it; then run this again.",
            )


def remaining_in_sketches(root: Root, file_scans: Sequence[FileScan]) -> Iterator[RemainingData]:
    """Return what the sketches in tables reveal."""
    for (table, column, kind), number in sorted(_count_sketches(file_scans).items()):
        yield RemainingData(
            path=root.absolute(table),
            part=f"{column}: {kind}",
            count=number,
            reason=_SKETCH_CONTENTS.get(kind, "a sketch of an unknown kind."),
            remedy=_SKETCH_REMEDY,
            identifies_subject=False,
        )


def _count_sketches(file_scans: Sequence[FileScan]) -> Counter[tuple[str, str, str]]:
    return sum((each.sketches for each in file_scans), Counter())


def remaining_in_states(
    spark: SparkSession, root: Root, inventory: Inventory, subject: DataSubject
) -> Iterator[RemainingData]:
    """Return the subject's data in the newest state of each checkpoint below a root."""
    for name in inventory.checkpoints:
        state_folder = f"{name}/state/".lstrip("/")
        local_subject = subject.for_path(root.absolute(name))
        has_state = any(file.name.startswith(state_folder) for file in inventory.files)
        if has_state and local_subject is not None:
            yield from _remaining_in_state(spark, root.absolute(name), local_subject)


def _remaining_in_state(
    spark: SparkSession, path: str, subject: DataSubject
) -> list[RemainingData]:
    remaining_data = partial(RemainingData, path=path, remedy=_STATE_REMEDY)

    def undecodable(part: str, error: Exception) -> RemainingData:
        reason = f"it cannot be decoded, so that its content is unknown: {root_cause_text(error)}"
        return remaining_data(part=part, reason=reason)

    remaining: list[RemainingData] = []
    with readable_checkpoint(path) as location:
        try:
            stores = list_state_stores(spark, location)
        except STATE_ERRORS as error:
            raise_disk_error(error)
            return [undecodable("state", error)]
        for store in stores:
            try:
                state = store.read_rows(spark, location)
                number = count_subject_rows(state, subject, in_any_text=True)
            except STATE_ERRORS as error:
                raise_disk_error(error)
                remaining.append(undecodable(str(store), error))
                continue
            if number:
                reason = "state rows for future results."
                remaining.append(remaining_data(part=str(store), count=number, reason=reason))
    return remaining or [
        remaining_data(
            part="older state",
            reason="Spark stores the state of the last hundred batches in compressed files. The "
            "newest state does not contain the subject; the scan sees most, but not all, of the "
            "older states.",
            identifies_subject=False,
        )
    ]
