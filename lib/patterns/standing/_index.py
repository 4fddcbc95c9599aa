"""The index of standing queries: what each is looked up by, and what decides whom it meets.

Spark compiles what stands here, but for functions of arrays' elements (`transform`, `aggregate`):
it interprets these, and takes about a microsecond for each field of each element that they read.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ...columns import quoted
from ._compiled import COMPILED_COLUMN
from ._program import AND, FRACTION, NOT, OR, TESTS, WHOLE

TEXTS = "__tidegate_texts"
WHOLES = "__tidegate_wholes"
FRACTIONS = "__tidegate_fractions"
KEYS = "__tidegate_keys"
KEY = "__tidegate_key"

_COMMON = 256
"""How many of the documents' most common keys are told from the others."""

_CHOICES = 5
"""How many of a query's covers, the best by their text, are chosen from by the documents' keys."""

_UNROLLED = 4
"""How many keys of a cover are looked at by compiled code."""

_OWN = "__tidegate_own"
_COVER = "__tidegate_cover"
_COVERS = "__tidegate_covers"
_NEEDS = [f"__tidegate_need_{place}" for place in range(1, _CHOICES)]
_STEPS = "__tidegate_steps"
_TABLE = "__tidegate_table"
_COUNTED = "__tidegate_counted"


def common(prepared: DataFrame) -> DataFrame:
    """Return one row: the documents' most common keys, the most common last."""
    counts = prepared.select(F.explode(KEYS).alias(KEY)).groupBy(KEY).count()
    most = counts.orderBy(F.desc("count"), KEY).limit(_COMMON)
    found = F.sort_array(F.collect_list(F.struct("count", KEY)))
    return most.agg(F.transform(found, lambda one: one[KEY]).alias(_COUNTED))


def index(queries: DataFrame, kept: list[str], counted: DataFrame | None) -> DataFrame:
    """Return a row for each key by which a query is looked up, with these columns of the query."""
    known = queries.where(quoted(COMPILED_COLUMN).isNotNull())
    if counted is not None:
        known = known.crossJoin(F.broadcast(counted))
    compiled = quoted(COMPILED_COLUMN)
    weights = [
        _weighed(F.get(compiled["covers"], F.lit(place)), place, counted is not None)
        for place in range(_CHOICES)
    ]
    ranked = known.select(
        *map(quoted, kept),
        compiled["steps"].alias(_STEPS),
        compiled["table"].alias(_TABLE),
        F.sort_array(F.array(*weights)).alias(_COVERS),
    )
    # A query is looked up by its rarest cover. Of the others those of one key are told with it:
    # a document that does not have that key too need not be tested.
    rarest, *others = [F.get(_COVERS, F.lit(place))["cover"] for place in range(_CHOICES)]
    chosen = {_COVER: rarest}
    for name, cover in zip(_NEEDS, others, strict=True):
        chosen[name] = F.when(F.size(cover) == 1, F.get(cover, F.lit(0)))
    return ranked.withColumns(chosen).drop(_COVERS).withColumn(_OWN, F.explode(_COVER))


def _weighed(cover: Column, place: int, counted: bool) -> Column:
    """Return a cover after what is less where its keys are rarer; null comes last."""
    seen = F.lit(0)
    if counted:
        keys = [F.get(cover, F.lit(each)) for each in range(_UNROLLED)]
        seen = F.greatest(*[F.coalesce(F.array_position(_COUNTED, key), F.lit(0)) for key in keys])
    missing = F.lit(_COMMON + 1)
    return F.struct(
        F.when(cover.isNull(), missing).otherwise(seen).cast("int").alias("seen"),
        F.lit(place).alias("place"),
        cover.alias("cover"),
    )


def met(exploded: DataFrame, indexed: DataFrame, valid: Column) -> DataFrame:
    """Return documents, exploded by their keys, with each valid query that they match."""
    both = exploded.join(F.broadcast(indexed), (quoted(KEY) == quoted(_OWN)) & valid)
    needed = [quoted(need).isNull() | _is_in(quoted(need)) for need in _NEEDS]
    # WHEN asks for what is dear only of what is left by what is cheap.
    return both.where(F.when(reduce(Column.__and__, needed), F.when(_is_owner(), _holds())))


def _is_in(key: Column) -> Column:
    """Return whether a document has a key."""
    return F.array_contains(quoted(KEYS), key)


def _is_owner() -> Column:
    """Return whether a key is the first of the cover that a document has; it alone counts."""
    keys = [F.get(_COVER, F.lit(place)) for place in range(_UNROLLED)]
    others = F.element_at(F.filter(_COVER, _is_in), 1)
    first = F.coalesce(*[F.when(_is_in(key), key) for key in keys], others)
    return (F.size(_COVER) == 1) | (first == quoted(KEY))


def _holds() -> Column:
    """Return whether a document is one of a query's: looked up in its truth table, or run."""
    bits = []
    for place in range(TESTS):
        answer = F.coalesce(_answer(F.get(_STEPS, F.lit(place))), F.lit(False))
        asked = (F.size(_STEPS) > place) & answer
        bits.append(F.when(asked, F.lit(1 << place)).otherwise(F.lit(0)))
    looked_up = F.getbit(quoted(_TABLE), reduce(Column.__add__, bits)) == 1
    return F.when(quoted(_TABLE).isNotNull(), looked_up).otherwise(_run())


def _run() -> Column:
    """Return the outcome of a program of many tests, on a stack of bits."""

    def run(stack: Column, step: Column) -> Column:
        answer = F.coalesce(_answer(step), F.lit(False)).cast("bigint")
        below = F.shiftright(stack, 1)
        return (
            F.when(step["op"] == AND, below.bitwiseAND(stack.bitwiseOR(F.lit(-2))))
            .when(step["op"] == OR, below.bitwiseOR(stack.bitwiseAND(F.lit(1))))
            .when(step["op"] == NOT, stack.bitwiseXOR(F.lit(1)))
            .otherwise(F.shiftleft(stack, 1).bitwiseOR(answer))
            .cast("bigint")
        )

    return F.aggregate(quoted(_STEPS), F.lit(0).cast("bigint"), run) == 1


def _answer(step: Column) -> Column:
    whole = F.get(quoted(WHOLES), step["field"])
    fraction = F.get(quoted(FRACTIONS), step["field"])
    return (
        F.when(step["op"] == WHOLE, whole.between(step["least"], step["most"]))
        .when(step["op"] == FRACTION, fraction.between(step["low"], step["high"]))
        .otherwise(F.contains(F.get(quoted(TEXTS), step["field"]), step["needle"]))
    )
