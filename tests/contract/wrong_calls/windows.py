"""Wrong calls of windows and of aggregates."""

# mypy: disable-error-code="arg-type, list-item, dict-item"

from __future__ import annotations

from pyspark.sql import functions as F

from tests.contract.wrong_calls.fixtures import MEAN, Call, N
from tidegate import aggregates as a
from tidegate import sketches, windows

WINDOWS: dict[str, tuple[Call, str]] = {
    "tumbling, aggs a list": (
        lambda g: windows.tumbling(g.clicks, "1m", aggs=[a.count()]),
        "invalid aggs",
    ),
    "tumbling, aggs a Column": (
        lambda g: windows.tumbling(g.clicks, "1m", aggs=F.count("*")),
        "invalid aggs",
    ),
    "tumbling, no aggs": (lambda g: windows.tumbling(g.clicks, "1m", aggs={}), "aggs"),
    "tumbling, aggs a text": (lambda g: windows.tumbling(g.clicks, "1m", aggs={"n": "n"}), "n"),
    "tumbling, unknown column": (
        lambda g: windows.tumbling(g.clicks, "1m", aggs={"n": a.avg("mss")}),
        "mss",
    ),
    "tumbling, mean of a text": (
        lambda g: windows.tumbling(g.clicks, "1m", aggs={"n": a.avg("page")}),
        "a number",
    ),
    "tumbling, unknown by": (lambda g: windows.tumbling(g.clicks, "1m", by="pag", aggs=N), "pag"),
    "tumbling, by twice": (
        lambda g: windows.tumbling(g.clicks, "1m", by=["page", "page"], aggs=N),
        "repeated page",
    ),
    "tumbling, by a Column": (
        lambda g: windows.tumbling(g.clicks, "1m", by=[F.col("page")], aggs=N),
        "column names",
    ),
    "tumbling, by a number": (
        lambda g: windows.tumbling(g.clicks, "1m", by=3, aggs=N),
        "invalid by: 3",
    ),
    "tumbling, size of zero": (lambda g: windows.tumbling(g.clicks, "0s", aggs=N), "positive"),
    "tumbling, size a number": (
        lambda g: windows.tumbling(g.clicks, 60, aggs=N),
        "invalid size: 60",
    ),
    "tumbling, size without unit": (lambda g: windows.tumbling(g.clicks, "60", aggs=N), "'60'"),
    "tumbling, size unknown": (lambda g: windows.tumbling(g.clicks, "5 parsecs", aggs=N), "parsec"),
    "tumbling, a month without zone": (
        lambda g: windows.tumbling(g.clicks, "1 month", aggs=N),
        "month",
    ),
    "tumbling, zone unknown": (
        lambda g: windows.tumbling(g.clicks, "1 day", zone="Europe/Berlinn", aggs=N),
        "Europe/Berlin",
    ),
    "tumbling, time a text column": (
        lambda g: windows.tumbling(g.clicks, "1m", time="page", aggs=N),
        "has type string",
    ),
    "tumbling, time a Column": (
        lambda g: windows.tumbling(g.clicks, "1m", time=F.col("event_time"), aggs=N),
        "time",
    ),
    "tumbling, no watermark": (lambda g: windows.tumbling(g.stream, "1m", aggs=N), "watermark"),
    "tumbling, events no frame": (
        lambda g: windows.tumbling([1, 2], "1m", aggs=N),
        "invalid frame: list",
    ),
    "tumbling, name taken": (
        lambda g: windows.tumbling(g.clicks, "1m", aggs={"window": a.count()}),
        "window",
    ),
    "hopping, hop longer than size": (
        lambda g: windows.hopping(g.clicks, "1m", "2m", aggs=N),
        "gaps",
    ),
    "hopping, size no multiple": (
        lambda g: windows.Hopping("1 minute", "0 seconds"),
        "positive",
    ),
    "cumulative, size no multiple": (
        lambda g: windows.cumulative(g.clicks, "7m", "1h", aggs=N),
        "multiple",
    ),
    "session, gap negative": (
        lambda g: windows.session(g.clicks, "-1m", aggs=N),
        "invalid gap: '-1m'",
    ),
    "session, max_duration below gap": (
        lambda g: windows.session(g.clicks, "1h", max_duration="1m", aggs=N),
        "invalid max_duration",
    ),
    "sliding, windows unknown": (
        lambda g: windows.sliding(g.clicks, "1m", windows="every", aggs=N),
        "invalid windows: 'every'",
    ),
    "sliding, a bare Spark aggregate": (
        lambda g: windows.sliding(g.clicks, "1m", aggs={"n": F.count("*")}),
        "aggregate",
    ),
    "roll_up, finer than the panes": (
        lambda g: windows.roll_up(g.partials, "0 seconds", aggs=N),
        "positive",
    ),
    "roll_up, finished results": (
        lambda g: windows.roll_up(windows.tumbling(g.clicks, "1m", aggs=MEAN), "1h", aggs=MEAN),
        "partial",
    ),
    "roll_up, no windows": (lambda g: windows.roll_up(g.clicks, "1h", aggs=N), "window"),
    "roll_up, a bare Spark aggregate": (
        lambda g: windows.roll_up(g.partials, "1h", aggs={"n": F.sum("n")}),
        "an Aggregate",
    ),
    "WindowAggregation, a window by name": (
        lambda g: windows.WindowAggregation("tumbling", aggs=N),
        "invalid window",
    ),
    "WindowAggregation, no aggs": (
        lambda g: windows.WindowAggregation(windows.Tumbling("1m")),
        "invalid aggs",
    ),
    "deduplicate, unknown key": (
        lambda g: windows.deduplicate(g.clicks, "id", "1h", max_delay="1m"),
        "id",
    ),
    "deduplicate, max_delay longer than within": (
        lambda g: windows.deduplicate(g.clicks, "page", "1m", max_delay="1h"),
        "invalid max_delay",
    ),
}
AGGREGATES: dict[str, tuple[Call, str]] = {
    "quantile, at beyond 1": (lambda g: sketches.approx_quantile("ms", 99), "0 to 1"),
    "quantile, at a text": (
        lambda g: sketches.approx_quantile("ms", "0.99"),
        "invalid probabilities: '0.99'",
    ),
    "quantile, swapped": (
        lambda g: sketches.approx_quantile(0.99, "ms"),
        "invalid probabilities: 'ms'",
    ),
    "quantile, k too small": (lambda g: sketches.approx_quantile("ms", 0.5, k=1), "invalid k: 1"),
    "top, swapped": (lambda g: sketches.approx_top_k(10, "page"), "invalid n: 'page'"),
    "top, none": (lambda g: sketches.approx_top_k("page", 0), "invalid n: 0"),
    "top, more than capacity": (
        lambda g: sketches.approx_top_k("page", 20, capacity=10),
        "capacity",
    ),
    "distinct, precision": (
        lambda g: sketches.approx_count_distinct("page", precision=50),
        "invalid precision: 50",
    ),
    "distinct, precision a text": (
        lambda g: sketches.approx_count_distinct("page", precision="12"),
        "invalid precision: '12'",
    ),
    "theta, precision": (
        lambda g: sketches.theta_sketch("page", precision=2),
        "invalid precision: 2",
    ),
    "bloom, no keys": (
        lambda g: sketches.bloom_filter("page", expected_items=0),
        "invalid expected_items: 0",
    ),
    "bloom, rate": (
        lambda g: sketches.bloom_filter("page", expected_items=9, fpp=2),
        "invalid fpp: 2",
    ),
    "mean, a number": (lambda g: a.avg(3), "invalid value: 3"),
    "total, a list": (lambda g: a.sum(["ms"]), "invalid value: ['ms']"),
    "rank_error, k": (lambda g: sketches.rank_error(0), "invalid k: 0"),
    "count_error, capacity": (lambda g: sketches.top_k_count_error(0), "invalid capacity: 0"),
    "near_duplicates, threshold": (
        lambda g: sketches.near_duplicates(g.clicks, "page", key="user", threshold=2, within="1h"),
        "threshold",
    ),
    "finished, no partials": (lambda g: a.finish(g.clicks, {"nn": a.count()}), "nn"),
    "merged, unknown by": (lambda g: a.merge_partials(g.partials, "page", N), "page"),
}
