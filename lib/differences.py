"""Two answers to one question, row by row: what is missing, what is extra, what is different."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DoubleType, FloatType, MapType

from .columns import names, quoted, require
from .errors import ColumnTypeError

_TIMES = "__tidegate_times"
_DUE = "__tidegate_due"
_SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class Differences:
    """How an answer that was found differs from the one that was expected.

    rows: how many were expected. missing, extra: rows that only one of the two has; of rows of one
        key that differ in their other columns each pair counts in `different` instead.
    late: rows that were left out of both, since the stream has left them out as late.
    due: rows of results that are not out yet, and so no fault where they are missing.
    ahead: rows that were found and not compared, since what is expected is not known so far.
    samples: some of the rows, as text, each with the side that has it.
    """

    rows: int
    missing: int = 0
    extra: int = 0
    different: int = 0
    late: int = 0
    due: int = 0
    ahead: int = 0
    samples: Sequence[str] = ()

    @property
    def agree(self) -> bool:
        """Whether there is no difference."""
        return not (self.missing or self.extra or self.different)

    def __str__(self) -> str:
        beside = [
            f"{number:,} {what}"
            for number, what in (
                (self.late, "late rows left out"),
                (self.due, "not due yet"),
                (self.ahead, "beyond the watermark and not compared"),
            )
            if number
        ]
        told = f"{self.rows:,} rows expected"
        if self.agree:
            return ", ".join([f"{told}, all of them found and no other", *beside])
        found = f"{self.missing:,} missing, {self.extra:,} extra, {self.different:,} different"
        return "\n".join([", ".join([told, found, *beside]), *self.samples])


def differences(
    expected: DataFrame,
    found: DataFrame,
    *,
    keys: Sequence[str] = (),
    ignore: Sequence[str] = (),
    due: Column | None = None,
    late: int = 0,
) -> Differences:
    """Return how the rows of a batch differ from those that were expected.

    Rows are compared as multisets, by the columns of `expected` without those of `ignore`. Numbers
    with a fraction are compared by their first twelve digits, or six of a float: sums depend on
    the order in which they are added up.

    keys: columns that tell rows apart, by which a row that differs is told from one that is not
        there.
    due: a condition on rows of `expected` which need not be found yet.

    Raises ColumnError, for a column that one of the two does not have; ColumnTypeError for a map,
    which cannot be compared.
    """
    left_out = set(names(ignore, "ignore"))
    columns = [name for name in expected.columns if name not in left_out]
    require(expected, [*ignore, *keys], "ignore and keys")
    require(found, columns, "the rows that were found")
    waits = F.lit(False) if due is None else F.coalesce(due, F.lit(False))
    there = _marked(found, columns, F.lit(False), -1)
    both = _marked(expected, columns, waits, 1).unionByName(there)
    weights = [F.sum(_TIMES).alias(_TIMES), F.max(_DUE).alias(_DUE)]
    weighed = both.groupBy(*map(quoted, columns)).agg(*weights)
    # As often expected as found, a row is no difference.
    odd = weighed.where(quoted(_TIMES) != 0).persist()
    try:
        found_by = [name for name in keys if name in columns]
        fractions = [name for name in columns if _is_fraction(expected.schema[name].dataType)]
        return _counted(odd, found_by, fractions, expected.count(), late)
    finally:
        odd.unpersist()


def _marked(frame: DataFrame, columns: Sequence[str], due: Column, times: int) -> DataFrame:
    same = [
        _comparable(quoted(name), frame.schema[name].dataType, name).alias(name) for name in columns
    ]
    marks = [F.lit(times).cast("bigint").alias(_TIMES), due.alias(_DUE)]
    return frame.select(*same, *marks)


def _comparable(value: Column, kind: DataType, name: str) -> Column:
    if isinstance(kind, MapType):
        raise ColumnTypeError(
            f"{name!r} is a {kind.simpleString()}.",
            "types whose values can be compared.",
            f"ignore=[{name!r}]",
        )
    if _is_fraction(kind):
        digits = "%.11e" if isinstance(kind, DoubleType) else "%.5e"
        return F.when(value.isNotNull(), F.format_string(digits, value))
    return value


def _is_fraction(kind: DataType) -> bool:
    return isinstance(kind, DoubleType | FloatType)


def _counted(
    odd: DataFrame, keys: Sequence[str], fractions: Sequence[str], rows: int, late: int
) -> Differences:
    """Count what is odd, and show some of it."""
    times = quoted(_TIMES)
    not_due = (times > 0) & quoted(_DUE)
    counts = {
        "missing": F.when((times > 0) & ~not_due, times).otherwise(0),
        "extra": F.greatest(-times, F.lit(0)),
        "due": F.when(not_due, times).otherwise(0),
    }
    totals = _totals(odd, keys, counts)
    shown = odd.where(~not_due).limit(_SHOWN).collect()
    return Differences(
        rows=rows,
        missing=totals.get("missing") or 0,
        extra=totals.get("extra") or 0,
        different=totals.get("pairs") or 0,
        late=late,
        due=totals.get("due") or 0,
        samples=[_sample(row, fractions) for row in shown],
    )


def _totals(odd: DataFrame, keys: Sequence[str], counts: Mapping[str, Column]) -> dict[str, int]:
    """Return the sums of the counts; a row that is missing and one that is extra make a pair."""
    sums = [F.coalesce(F.sum(count), F.lit(0)).alias(name) for name, count in counts.items()]
    if not keys:
        return _first(odd.agg(*sums))
    by_key = odd.groupBy(*map(quoted, keys)).agg(*sums)
    pairs = F.least("missing", "extra")
    found = by_key.select(
        (F.col("missing") - pairs).alias("missing"),
        (F.col("extra") - pairs).alias("extra"),
        F.col("due"),
        pairs.alias("pairs"),
    )
    return _first(found.agg(*[F.sum(name).alias(name) for name in found.columns]))


def _first(frame: DataFrame) -> dict[str, int]:
    row = frame.head()
    return {} if row is None else row.asDict()


def _sample(row: Row, fractions: Sequence[str]) -> str:
    values = row.asDict(recursive=True)
    side = "expected" if values.pop(_TIMES) > 0 else "found"
    values.pop(_DUE)
    for name in fractions:
        # The digits that were compared, as one writes them.
        if values[name] is not None:
            values[name] = f"{float(values[name]):.12g}"
    return f"{side}: " + ", ".join(f"{name}={_shown(value)}" for name, value in values.items())


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {_shown(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_shown, value)) + "]"
    return "null" if value is None else str(value)
