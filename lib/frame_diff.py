"""Row-by-row comparison of two frames: missing, extra and different rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DoubleType, FloatType, MapType

from .columns import quoted_column, require_column_names, require_columns
from .errors import ColumnTypeError

_COUNT = "__tidegate_count"
_NOT_DUE = "__tidegate_not_due"
_MAX_SAMPLES = 5


@dataclass(frozen=True, kw_only=True)
class FrameDiff:
    """The difference between expected and actual rows.

    expected_rows: the number of expected rows.
    missing, extra: rows in only one of the frames.
    different: pairs of a missing and an extra row with the same key.
    late_rows: late rows, excluded from both frames.
    not_due: missing rows of results that are not final yet; not a difference.
    not_compared: actual rows beyond the watermark, for which no expectation exists yet.
    samples: some differing rows as text, each with the name of its side.
    """

    expected_rows: int
    missing: int = 0
    extra: int = 0
    different: int = 0
    late_rows: int = 0
    not_due: int = 0
    not_compared: int = 0
    samples: Sequence[str] = ()

    @property
    def is_empty(self) -> bool:
        """Whether the frames are equal."""
        return not (self.missing or self.extra or self.different)

    def __str__(self) -> str:
        notes = [
            f"{number:,} {label}"
            for number, label in (
                (self.late_rows, "late rows excluded"),
                (self.not_due, "not due yet"),
                (self.not_compared, "beyond the watermark and not compared"),
            )
            if number
        ]
        summary = f"{self.expected_rows:,} rows expected"
        if self.is_empty:
            return ", ".join([f"{summary}, all equal", *notes])
        counts = f"{self.missing:,} missing, {self.extra:,} extra, {self.different:,} different"
        return "\n".join([", ".join([summary, counts, *notes]), *self.samples])


def diff_frames(
    expected: DataFrame,
    actual: DataFrame,
    *,
    keys: Sequence[str] = (),
    ignore: Sequence[str] = (),
    not_due: Column | None = None,
    late_rows: int = 0,
) -> FrameDiff:
    """Return the difference between the rows of two batches.

    Rows are compared as multisets, by the columns of `expected` except those of `ignore`. Doubles
    are compared by twelve significant digits and floats by six, since the result of a sum depends
    on the order of its operands.

    keys: key columns, which identify missing and extra rows of the same key as a different row.
    not_due: a condition on rows of `expected` that may be missing.

    Raises ColumnError for a missing column, ColumnTypeError for a map, which is not comparable.

    >>> diff_frames(clicks, clicks.where("ms > 0")).missing
    1
    """
    ignored = set(require_column_names(ignore, "ignore"))
    columns = [name for name in expected.columns if name not in ignored]
    require_columns(expected, [*ignore, *keys], "ignore and keys")
    require_columns(actual, columns, "actual")
    is_not_due = F.lit(False) if not_due is None else F.coalesce(not_due, F.lit(False))
    actual_rows = _tagged_side(actual, columns, F.lit(False), -1)
    tagged_rows = _tagged_side(expected, columns, is_not_due, 1).unionByName(actual_rows)
    weights = [F.sum(_COUNT).alias(_COUNT), F.max(_NOT_DUE).alias(_NOT_DUE)]
    net_counts = tagged_rows.groupBy(*map(quoted_column, columns)).agg(*weights)
    mismatches = net_counts.where(quoted_column(_COUNT) != 0).persist()
    try:
        pairing_keys = [name for name in keys if name in columns]
        float_columns = [name for name in columns if _is_float(expected.schema[name].dataType)]
        return _summarize(mismatches, pairing_keys, float_columns, expected.count(), late_rows)
    finally:
        mismatches.unpersist()


def _tagged_side(
    frame: DataFrame, columns: Sequence[str], not_due: Column, count: int
) -> DataFrame:
    comparable = [_comparable(frame.schema[name].dataType, name).alias(name) for name in columns]
    tags = [F.lit(count).cast("bigint").alias(_COUNT), not_due.alias(_NOT_DUE)]
    return frame.select(*comparable, *tags)


def _comparable(data_type: DataType, name: str) -> Column:
    if isinstance(data_type, MapType):
        raise ColumnTypeError(
            f"invalid expected: column {name!r} has type {data_type.simpleString()}",
            "comparable types",
            f"ignore=[{name!r}]",
        )
    value = quoted_column(name)
    if _is_float(data_type):
        digits = "%.11e" if isinstance(data_type, DoubleType) else "%.5e"
        return F.when(value.isNotNull(), F.format_string(digits, value))
    return value


def _is_float(data_type: DataType) -> bool:
    return isinstance(data_type, DoubleType | FloatType)


def _summarize(
    mismatches: DataFrame,
    keys: Sequence[str],
    float_columns: Sequence[str],
    expected_rows: int,
    late_rows: int,
) -> FrameDiff:
    count = quoted_column(_COUNT)
    not_due = (count > 0) & quoted_column(_NOT_DUE)
    # The names are prefixed, since a key may have any name.
    missing, extra, pending = (f"__tidegate_{name}" for name in ("missing", "extra", "pending"))
    by_key = mismatches.groupBy(*map(quoted_column, keys)).agg(
        F.sum(F.when((count > 0) & ~not_due, count).otherwise(0)).alias(missing),
        F.sum(F.greatest(-count, F.lit(0))).alias(extra),
        F.sum(F.when(not_due, count).otherwise(0)).alias(pending),
    )
    # A missing and an extra row of one key are one different row.
    pairs = F.least(missing, extra) if keys else F.lit(0)
    counts = {
        "missing": F.col(missing) - pairs,
        "extra": F.col(extra) - pairs,
        "different": pairs,
        "not_due": F.col(pending),
    }
    totals = by_key.agg(*[F.sum(each).alias(name) for name, each in counts.items()]).collect()[0]
    sample_rows = mismatches.where(~not_due).limit(_MAX_SAMPLES).collect()
    return FrameDiff(
        **{name: totals[name] or 0 for name in counts},
        expected_rows=expected_rows,
        late_rows=late_rows,
        samples=[_format_sample(row, float_columns) for row in sample_rows],
    )


def _format_sample(row: Row, float_columns: Sequence[str]) -> str:
    values = row.asDict(recursive=True)
    side = "expected" if values.pop(_COUNT) > 0 else "actual"
    values.pop(_NOT_DUE)
    for name in float_columns:
        if values[name] is not None:
            values[name] = f"{float(values[name]):.12g}"
    items = (f"{name}={_format_value(value)}" for name, value in values.items())
    return f"{side}: {', '.join(items)}"


def _format_value(value: object) -> str:
    if isinstance(value, Mapping):
        items = (f"{name}: {_format_value(item)}" for name, item in value.items())
        return f"{{{', '.join(items)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_format_value, value))}]"
    return "null" if value is None else str(value)
