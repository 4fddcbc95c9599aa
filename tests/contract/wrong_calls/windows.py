"""Wrong calls of windows and of aggregates."""

# mypy: disable-error-code="arg-type, list-item, dict-item"

from __future__ import annotations

from pyspark.sql import functions as F

from tidegate import aggregates as a
from tidegate import sketches, windows

from .given import MEAN, Call, N

WINDOWS: dict[str, tuple[Call, str]] = {
    "tumbling, aggs a list": (
        lambda g: windows.tumbling(g.clicks, "1m", aggs=[a.count()]),
        "aggs is",
    ),
    "tumbling, aggs a Column": (
        lambda g: windows.tumbling(g.clicks, "1m", aggs=F.count("*")),
        "aggs is",
    ),
    "tumbling, no aggs": (lambda g: windows.tumbling(g.clicks, "1m", aggs={}), "aggs"),
    "tumbling, aggs a text": (lambda g: windows.tumbling(g.clicks, "1m", aggs={"n": "n"}), "n"),
    "tumbling, unknown column": (
        lambda g: windows.tumbling(g.clicks, "1m", aggs={"n": a.mean("mss")}),
        "mss",
    ),
    "tumbling, mean of a text": (
        lambda g: windows.tumbling(g.clicks, "1m", aggs={"n": a.mean("page")}),
        "a number",
    ),
    "tumbling, unknown by": (lambda g: windows.tumbling(g.clicks, "1m", by="pag", aggs=N), "pag"),
    "tumbling, by twice": (
        lambda g: windows.tumbling(g.clicks, "1m", by=["page", "page"], aggs=N),
        "more than once",
    ),
    "tumbling, by a Column": (
        lambda g: windows.tumbling(g.clicks, "1m", by=[F.col("page")], aggs=N),
        "column names",
    ),
    "tumbling, by a number": (lambda g: windows.tumbling(g.clicks, "1m", by=3, aggs=N), "by is 3"),
    "tumbling, size of zero": (lambda g: windows.tumbling(g.clicks, "0s", aggs=N), "positive"),
    "tumbling, size a number": (lambda g: windows.tumbling(g.clicks, 60, aggs=N), "size is 60"),
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
        "of type string",
    ),
    "tumbling, time a Column": (
        lambda g: windows.tumbling(g.clicks, "1m", time=F.col("event_time"), aggs=N),
        "time",
    ),
    "tumbling, no watermark": (lambda g: windows.tumbling(g.stream, "1m", aggs=N), "watermark"),
    "tumbling, events no frame": (
        lambda g: windows.tumbling([1, 2], "1m", aggs=N),
        "the rows are list",
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
    "session, gap negative": (lambda g: windows.session(g.clicks, "-1m", aggs=N), "gap is '-1m'"),
    "session, longest below gap": (
        lambda g: windows.session(g.clicks, "1h", longest="1m", aggs=N),
        "longest",
    ),
    "sliding, windows unknown": (
        lambda g: windows.sliding(g.clicks, "1m", windows="every", aggs=N),
        "windows is 'every'",
    ),
    "sliding, a bare Spark aggregate": (
        lambda g: windows.sliding(g.clicks, "1m", aggs={"n": F.count("*")}),
        "aggregate",
    ),
    "rolled_up, finer than the panes": (
        lambda g: windows.rolled_up(g.partials, "0 seconds", aggs=N),
        "positive",
    ),
    "rolled_up, finished results": (
        lambda g: windows.rolled_up(windows.tumbling(g.clicks, "1m", aggs=MEAN), "1h", aggs=MEAN),
        "partial",
    ),
    "rolled_up, no windows": (lambda g: windows.rolled_up(g.clicks, "1h", aggs=N), "window"),
    "rolled_up, a bare Spark aggregate": (
        lambda g: windows.rolled_up(g.partials, "1h", aggs={"n": F.sum("n")}),
        "whose partials merge",
    ),
    "Windowed, a window by name": (lambda g: windows.Windowed("tumbling", aggs=N), "window is"),
    "Windowed, no aggs": (lambda g: windows.Windowed(windows.Tumbling("1m")), "aggs is"),
    "Windowed, where no condition": (
        lambda g: windows.Windowed(windows.Tumbling("1m"), aggs=N, where="ms")(g.clicks),
        "of type bigint",
    ),
    "Windowed, where unreadable": (
        lambda g: windows.Windowed(windows.Tumbling("1m"), aggs=N, where="ms >")(g.clicks),
        "cannot be read",
    ),
    "Windowed, where of another column": (
        lambda g: windows.Windowed(windows.Tumbling("1m"), aggs=N, where="mss > 1")(g.clicks),
        "mss",
    ),
    "Windowed, where of all rows": (
        lambda g: windows.Windowed(windows.Tumbling("1m"), aggs=N, where="max(ms) > 1")(g.clicks),
        "asks for more than one row",
    ),
    "deduplicate, unknown key": (
        lambda g: windows.deduplicate(g.clicks, "id", "1h", hold="1m"),
        "id",
    ),
    "deduplicate, hold longer than horizon": (
        lambda g: windows.deduplicate(g.clicks, "page", "1m", hold="1h"),
        "hold",
    ),
}
AGGREGATES: dict[str, tuple[Call, str]] = {
    "quantile, at beyond 1": (lambda g: sketches.quantile("ms", 99), "0 to 1"),
    "quantile, at a text": (lambda g: sketches.quantile("ms", "0.99"), "at is '0.99'"),
    "quantile, swapped": (lambda g: sketches.quantile(0.99, "ms"), "at is 'ms'"),
    "quantile, k too small": (lambda g: sketches.quantile("ms", 0.5, k=1), "k is 1"),
    "top, swapped": (lambda g: sketches.top(10, "page"), "n is 'page'"),
    "top, none": (lambda g: sketches.top("page", 0), "n is 0"),
    "top, more than capacity": (lambda g: sketches.top("page", 20, capacity=10), "capacity"),
    "distinct, precision": (lambda g: sketches.distinct("page", precision=50), "precision is 50"),
    "distinct, precision a text": (
        lambda g: sketches.distinct("page", precision="12"),
        "precision is '12'",
    ),
    "theta, precision": (lambda g: sketches.theta("page", precision=2), "precision is 2"),
    "bloom, no keys": (lambda g: sketches.bloom("page", keys=0), "keys is 0"),
    "bloom, rate": (lambda g: sketches.bloom("page", keys=9, false_positives=2), "false_positives"),
    "mean, a number": (lambda g: a.mean(3), "value is 3"),
    "total, a list": (lambda g: a.total(["ms"]), "value is"),
    "rank_error, k": (lambda g: sketches.rank_error(0), "k is 0"),
    "count_error, capacity": (lambda g: sketches.count_error(0), "capacity is 0"),
    "near_duplicates, threshold": (
        lambda g: sketches.near_duplicates(g.clicks, "page", key="user", threshold=2, within="1h"),
        "threshold",
    ),
    "finished, no partials": (lambda g: a.finished(g.clicks, {"nn": a.count()}), "nn"),
    "merged, unknown by": (lambda g: a.merged(g.partials, "page", N), "page"),
}
