"""Wrong calls that mix up units, types, sides, kinds of frames, nulls and empty collections."""

# mypy: disable-error-code="arg-type, list-item, dict-item, call-overload"

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from pyspark.sql import functions as F

from tests.contract.wrong_calls.fixtures import APPEND, STORE, VERSIONS, VIEWS, Call, N, view
from tidegate import (
    Limits,
    Maintenance,
    changelogs,
    compare,
    erase,
    event_time,
    follow,
    formats,
    joins,
    merge_late_rows,
    patterns,
    replay,
    sinks,
    sketches,
    sources,
    spark_session,
    swap_tables,
    views,
    windows,
)
from tidegate import aggregates as a
from tidegate.stores import PostgresStore

STEP = patterns.step("a")
AT = datetime(2026, 1, 1, tzinfo=UTC)
FIELDS = patterns.SearchFields(text="page")
HOUR = {"within": ("0s", "1h"), "how": "inner"}

UNITS: dict[str, tuple[Call, str]] = {
    "tumbling, a size of nothing": (lambda g: windows.Tumbling(None), "invalid size: None"),
    "tumbling, a size in seconds": (lambda g: windows.Tumbling(60.0), "invalid size: 60.0"),
    "tumbling, a negative size": (lambda g: windows.Tumbling("-1 minute"), "invalid size"),
    "tumbling, a size as a Column": (lambda g: windows.Tumbling(F.lit("1 minute")), "invalid size"),
    "tumbling, an empty size": (lambda g: windows.Tumbling(""), "invalid size: ''"),
    "tumbling, an offset as a number": (lambda g: windows.Tumbling("1m", 5), "invalid offset: 5"),
    "tumbling, an abbreviated zone": (
        lambda g: windows.Tumbling("1 day", zone="CEST"),
        "zone='Europe/",
    ),
    "tumbling, a zone as an offset": (
        lambda g: windows.Tumbling("1 day", zone="+02:00"),
        "invalid zone: '+02:00'",
    ),
    "tumbling, a zone as a number": (
        lambda g: windows.Tumbling("1 day", zone=2),
        "invalid zone: 2",
    ),
    "tumbling, an empty zone": (lambda g: windows.Tumbling("1 day", zone=""), "invalid zone: ''"),
    "tumbling, a size of fractions": (lambda g: windows.Tumbling("1.5 hours"), "'1.5 hours'"),
    "hopping, size and hop swapped": (lambda g: windows.Hopping("1m", "1h"), "invalid hop: '1h'"),
    "hopping, a negative hop": (lambda g: windows.Hopping("1m", "-1s"), "invalid hop: '-1s'"),
    "hopping, too many windows": (
        lambda g: windows.Hopping("1 day", timedelta(milliseconds=1)),
        "86,400,000 windows",
    ),
    "cumulative, step and size swapped": (
        lambda g: windows.Cumulative("1 day", "1 hour"),
        "invalid step: '1 day'",
    ),
    "cumulative, too many windows": (
        lambda g: windows.Cumulative("1 ms", "1 day"),
        "86,400,000 windows",
    ),
    "cumulative, too many windows in a zone": (
        lambda g: windows.Cumulative("1 ms", "1 day", zone="UTC"),
        "windows",
    ),
    "session, a gap of zero": (lambda g: windows.Session("0s"), "invalid gap: '0s'"),
    "session, a gap of nothing": (lambda g: windows.Session(None), "invalid gap: None"),
    "session, a gap as a number": (lambda g: windows.Session(30), "invalid gap: 30"),
    "session, a gap column of a number": (
        lambda g: windows.session(g.clicks, F.col("ms"), aggs=N),
        "gap",
    ),
    "session, max_duration a number": (
        lambda g: windows.Session("1m", max_duration=5),
        "invalid max_duration: 5",
    ),
    "sliding, a size of zero": (lambda g: windows.Sliding("0s"), "invalid size: '0s'"),
    "roll_up, a size of nothing": (
        lambda g: windows.roll_up(g.partials, None, aggs=N),
        "invalid size: None",
    ),
    "deduplicate, within of zero": (
        lambda g: windows.Deduplication("page", "0s", max_delay="1s"),
        "invalid within: '0s'",
    ),
    "deduplicate, max_delay of nothing": (
        lambda g: windows.Deduplication("page", "1h", max_delay=None),
        "invalid max_delay: None",
    ),
    "deduplicate, max_delay too short": (
        lambda g: windows.Deduplication("page", "1 day", max_delay="1 second"),
        "max_delay='6 hours'",
    ),
    "deduplicate, key and within swapped": (
        lambda g: windows.deduplicate(g.clicks, "1h", "page", max_delay="1m"),
        "invalid within: 'page'",
    ),
    "join, both bounds of SQL": (
        lambda g: joins.IntervalJoin("user", within=("-1 hour", "1 hour"), how="inner"),
        "within=('1 hour', '1 hour')",
    ),
    "join, both bounds of SQL as durations": (
        lambda g: joins.IntervalJoin(
            "user", within=(timedelta(hours=-1), timedelta(hours=1)), how="inner"
        ),
        "single instant",
    ),
    "join, both bounds of SQL, swapped": (
        lambda g: joins.IntervalJoin("user", within=("1 hour", "-1 hour"), how="inner"),
        "single instant",
    ),
    "join, bounds as numbers": (
        lambda g: joins.IntervalJoin("user", within=(0, 3600), how="inner"),
        "invalid within: 0",
    ),
    "join, one bound": (
        lambda g: joins.IntervalJoin("user", within=("1h",), how="inner"),
        "invalid within: ('1h',)",
    ),
    "join, a bound of nothing": (
        lambda g: joins.IntervalJoin("user", within=(None, "1h"), how="inner"),
        "invalid within: None",
    ),
    "clock_offsets, every of zero": (
        lambda g: event_time.clock_offsets(
            g.clicks, device="user", sent="event_time", received="event_time", every="0s"
        ),
        "invalid every: '0s'",
    ),
    "clock_offsets, messages of nothing": (
        lambda g: event_time.clock_offsets(
            g.clicks, device="user", sent="event_time", received="event_time", messages=0
        ),
        "invalid messages: 0",
    ),
    "correct_event_time, a negative delay": (
        lambda g: event_time.correct_event_time("a", "b", "c", max_delay="-1s"),
        "invalid max_delay: '-1s'",
    ),
    "epoch_to_timestamp, the unit first": (
        lambda g: event_time.epoch_to_timestamp("milliseconds", F.col("at")),
        "invalid unit",
    ),
    "exceeds_future_tolerance, a number": (
        lambda g: event_time.exceeds_future_tolerance(F.col("a"), F.col("b"), 5),
        "invalid tolerance: 5",
    ),
    "Input, a delay of nothing": (
        lambda g: g.input(watermark_delay=None),
        "invalid watermark_delay: None",
    ),
    "Input, a delay with a sign": (
        lambda g: g.input(watermark_delay=timedelta(seconds=-1)),
        "invalid watermark_delay",
    ),
    "Input, future_tolerance a number": (
        lambda g: g.input(future_tolerance=3600),
        "invalid future_tolerance: 3600",
    ),
    "Input, max_value_bytes negative": (
        lambda g: g.input(max_value_bytes=-1),
        "invalid max_value_bytes: -1",
    ),
    "Input, max_value_bytes a text": (
        lambda g: g.input(max_value_bytes="64k"),
        "invalid max_value_bytes: '64k'",
    ),
    "PastWindows, no window": (lambda g: patterns.PastWindows(0), "invalid count: 0"),
    "PastWindows, count a text": (lambda g: patterns.PastWindows("4"), "invalid count: '4'"),
    "PastWindows, every a number": (
        lambda g: patterns.PastWindows(4, every=7),
        "invalid every: 7",
    ),
    "PastWindows, every of zero": (
        lambda g: patterns.PastWindows(4, every="0s"),
        "invalid every: '0s'",
    ),
    "PastWindows, skip a day": (
        lambda g: patterns.PastWindows(4, skip=date(2026, 1, 1)),
        "invalid skip",
    ),
    "DeviationRule, a ratio of a drop": (
        lambda g: patterns.DeviationRule("n", patterns.PastWindows(4), ratio=0.5),
        'ratio=2, direction="below"',
    ),
    "DeviationRule, a ratio as a text": (
        lambda g: patterns.DeviationRule("n", patterns.PastWindows(4), ratio="2"),
        "invalid ratio: '2'",
    ),
    "DeviationRule, absolute negative": (
        lambda g: patterns.DeviationRule("n", patterns.PastWindows(4), absolute=-5),
        "invalid absolute: -5",
    ),
    "DeviationRule, per a number": (
        lambda g: patterns.DeviationRule("n", patterns.PastWindows(4), ratio=2, per=60),
        "invalid per: 60",
    ),
    "DeviationRule, a count of past windows": (
        lambda g: patterns.DeviationRule("n", 4, ratio=2),
        "invalid past: 4",
    ),
    "sequence, within a number": (
        lambda g: patterns.sequence(STEP, within=60),
        "invalid within: 60",
    ),
    "sequence, within negative": (
        lambda g: patterns.sequence(STEP, within="-1m"),
        "invalid within: '-1m'",
    ),
    "near_duplicates, threshold a percentage": (
        lambda g: sketches.NearDuplicates("page", key="user", threshold=80, within="1h"),
        "invalid threshold: 80",
    ),
    "near_duplicates, threshold a text": (
        lambda g: sketches.NearDuplicates("page", key="user", threshold="0.8", within="1h"),
        "invalid threshold: '0.8'",
    ),
    "near_duplicates, within a number": (
        lambda g: sketches.NearDuplicates("page", key="user", threshold=0.8, within=60),
        "invalid within: 60",
    ),
    "near_duplicates, recall of 1": (
        lambda g: sketches.NearDuplicates(
            "page", key="user", threshold=0.8, within="1h", recall=1.5
        ),
        "invalid recall: 1.5",
    ),
    "near_duplicates, no shingles": (
        lambda g: sketches.NearDuplicates(
            "page", key="user", threshold=0.8, within="1h", shingle_size=0
        ),
        "invalid shingle_size: 0",
    ),
    "minhash, no permutations": (
        lambda g: sketches.minhash("page", permutations=0),
        "invalid permutations: 0",
    ),
    "bloom_filter, a percentage": (
        lambda g: sketches.bloom_filter("page", expected_items=9, fpp=1),
        "invalid fpp: 1",
    ),
    "bloom_filter, a rate of zero": (
        lambda g: sketches.bloom_filter("page", expected_items=9, fpp=0),
        "invalid fpp: 0",
    ),
    "bloom_filter, items as a text": (
        lambda g: sketches.bloom_filter("page", expected_items="9"),
        "invalid expected_items: '9'",
    ),
    "approx_quantile, a percentage": (
        lambda g: sketches.approx_quantile("ms", [0.5, 99]),
        "0 to 1",
    ),
    "approx_quantile, no probabilities": (
        lambda g: sketches.approx_quantile("ms", []),
        "invalid probabilities: []",
    ),
    "approx_quantile, a probability of nothing": (
        lambda g: sketches.approx_quantile("ms", None),
        "invalid probabilities: None",
    ),
    "approx_top_k, a negative n": (lambda g: sketches.approx_top_k("page", -3), "invalid n: -3"),
    "approx_top_k, n a text": (lambda g: sketches.approx_top_k("page", "10"), "invalid n: '10'"),
    "approx_top_k, n a fraction": (lambda g: sketches.approx_top_k("page", 0.1), "invalid n: 0.1"),
    "hll_bounds, std_devs": (
        lambda g: sketches.hll_bounds("x", std_devs=7),
        "invalid std_devs: 7",
    ),
    "theta_union, precision": (
        lambda g: sketches.theta_union("x", "y", precision=99),
        "invalid precision: 99",
    ),
    "quantile_bounds, a percentage": (
        lambda g: sketches.quantile_bounds("x", 99),
        "invalid probabilities: 99",
    ),
    "CurrentTable, delete_retention a number": (
        lambda g: sinks.CurrentTable("/t", delete_retention=30),
        "invalid delete_retention: 30",
    ),
    "CurrentTable, delete_retention negative": (
        lambda g: sinks.CurrentTable("/t", delete_retention="-1 day"),
        "invalid delete_retention: '-1 day'",
    ),
    "VersionedTable, retention a number": (
        lambda g: sinks.VersionedTable("/t", key="id", order=["offset"], retention=30),
        "invalid retention: 30",
    ),
    "TemporalJoin, retry_for negative": (
        lambda g: sinks.TemporalJoin(
            "/t", versions=VERSIONS, pending_table="/w", watermark_delay="1s", retry_for="-1s"
        ),
        "invalid retry_for: '-1s'",
    ),
    "TemporalJoin, watermark_delay a number": (
        lambda g: sinks.TemporalJoin(
            "/t", versions=VERSIONS, pending_table="/w", watermark_delay=1
        ),
        "invalid watermark_delay: 1",
    ),
    "Webhook, timeout a number": (
        lambda g: sinks.Webhook("/t", url="https://a.b", timeout=10),
        "invalid timeout: 10",
    ),
    "Webhook, attempts": (
        lambda g: sinks.Webhook("/t", url="https://a.b", attempts=0),
        "invalid attempts: 0",
    ),
    "SchemaRegistry, timeout a number": (
        lambda g: formats.SchemaRegistry("http://localhost", timeout=10),
        "invalid timeout: 10",
    ),
    "PostgresStore, timeout a text": (
        lambda g: PostgresStore("t", timeout="10s"),
        "invalid timeout: '10s'",
    ),
    "PostgresStore, port a text": (
        lambda g: PostgresStore("t", port="5432"),
        "invalid port: '5432'",
    ),
    "Projection, snapshot_every": (
        lambda g: sinks.Projection("/t", fold=None, snapshot_every=0),
        "invalid",
    ),
    "View, compact_every": (
        lambda g: views.View("/v", left=view("a"), right=view("b"), on="id", compact_every=0),
        "invalid compact_every: 0",
    ),
    "AppendUnique, a factor below 1": (
        lambda g: sinks.AppendUnique(
            "/t",
            duplicates="/d",
            filter_path="/f",
            keys_table=sketches.BloomTable(key="page", expected_items=9),
            max_fpp_factor=0.5,
        ),
        "invalid max_fpp_factor: 0.5",
    ),
    "Limits, a negative share": (lambda g: Limits(late_ratio=-0.1), "invalid late_ratio: -0.1"),
    "Limits, rows as a text": (lambda g: Limits(dead_rows="10"), "invalid dead_rows: '10'"),
    "Limits, rows as a share": (lambda g: Limits(dead_rows=0.1), "invalid dead_rows: 0.1"),
    "Limits, a share as a text": (lambda g: Limits(dead_ratio="10%"), "invalid dead_ratio: '10%'"),
    "Maintenance, a duration": (
        lambda g: Maintenance(compact_every="1 hour"),
        "invalid compact_every: '1 hour'",
    ),
    "Maintenance, never": (lambda g: Maintenance(vacuum_every=0), "invalid vacuum_every: 0"),
    "Job, every negative": (lambda g: g.job(every="-1s"), "invalid every: '-1s'"),
    "Job, allowed_lateness a number": (
        lambda g: g.job(transform=VIEWS, allowed_lateness=60),
        "allowed_lateness",
    ),
    "Job, threshold negative": (
        lambda g: g.job(backfill_threshold=-1),
        "invalid backfill_threshold: -1",
    ),
    "Job, threshold a text": (
        lambda g: g.job(backfill_threshold="all"),
        "invalid backfill_threshold: 'all'",
    ),
    "Job, port a text": (lambda g: g.job(metrics_port="9108"), "invalid metrics_port: '9108'"),
    "KafkaSource, a batch of fractions": (
        lambda g: sources.KafkaSource("h:1", "c", max_records_per_batch=1e6),
        "invalid max_records_per_batch: 1000000.0",
    ),
    "KafkaSource, start a timestamp": (
        lambda g: sources.KafkaSource("h:1", "c", start=1_700_000_000),
        "invalid start: 1700000000",
    ),
    "spark_session, an unknown preset": (
        lambda g: spark_session("views", preset="big"),
        "invalid preset: 'big'",
    ),
    "spark_session, a preset in capitals": (
        lambda g: spark_session("views", preset="Small"),
        "preset='small'",
    ),
    "spark_session, no partitions": (
        lambda g: spark_session("views", partitions=0),
        "invalid partitions: 0",
    ),
    "spark_session, conf a text": (
        lambda g: spark_session("views", conf="spark.ui.enabled=false"),
        "invalid conf",
    ),
    "spark_session, no name": (lambda g: spark_session(None), "invalid name: None"),
}

COLUMNS: dict[str, tuple[Call, str]] = {
    "tumbling, by one Column": (
        lambda g: windows.tumbling(g.clicks, "1m", by=F.col("page"), aggs=N),
        "invalid by: Column<'page'>",
    ),
    "tumbling, by nothing": (
        lambda g: windows.tumbling(g.clicks, "1m", by=None, aggs=N),
        "invalid by: None",
    ),
    "tumbling, by nearly a column": (
        lambda g: windows.tumbling(g.clicks, "1m", by="pages", aggs=N),
        "try: 'page'",
    ),
    "tumbling, by in capitals": (
        lambda g: windows.tumbling(g.clicks, "1m", by="PAGE", aggs=N),
        "try: 'page'",
    ),
    "tumbling, by a list of a list": (
        lambda g: windows.tumbling(g.clicks, "1m", by=[["page"]], aggs=N),
        "invalid by",
    ),
    "tumbling, aggregate of nearly a column": (
        lambda g: windows.tumbling(g.clicks, "1m", aggs={"n": a.avg("mss")}),
        "try: 'ms'",
    ),
    "tumbling, aggregate of nearly a Column": (
        lambda g: windows.tumbling(g.clicks, "1m", aggs={"n": a.avg(F.col("mss") * 2)}),
        "try: 'ms'",
    ),
    "tumbling, Spark aggregate of nearly a column": (
        lambda g: windows.tumbling(g.clicks, "1m", aggs={"n": F.stddev("mss")}),
        "try: 'ms'",
    ),
    "tumbling, time nearly a column": (
        lambda g: windows.tumbling(g.clicks, "1m", time="event_tim", aggs=N),
        "try: 'event_time'",
    ),
    "tumbling, time of nothing": (
        lambda g: windows.tumbling(g.clicks, "1m", time=None, aggs=N),
        "invalid time: None",
    ),
    "tumbling, aggs of nothing": (
        lambda g: windows.tumbling(g.clicks, "1m", aggs=None),
        "invalid aggs: None",
    ),
    "tumbling, an aggregate of nothing": (
        lambda g: windows.tumbling(g.clicks, "1m", aggs={"n": None}),
        "'n' is None",
    ),
    "tumbling, an aggregate not called": (
        lambda g: windows.tumbling(g.clicks, "1m", aggs={"n": a.count}),
        "'n' is <function",
    ),
    "tumbling, a name of an aggregate as a number": (
        lambda g: windows.tumbling(g.clicks, "1m", aggs={1: a.count()}),
        "invalid aggs",
    ),
    "tumbling, an empty name of an aggregate": (
        lambda g: windows.tumbling(g.clicks, "1m", aggs={"": a.count()}),
        "invalid aggs",
    ),
    "tumbling, frame and size swapped": (
        lambda g: windows.tumbling("1m", g.clicks, aggs=N),
        "invalid size",
    ),
    "tumbling, a group": (
        lambda g: windows.tumbling(g.clicks.groupBy("page"), "1m", aggs=N),
        "invalid frame: GroupedData",
    ),
    "tumbling, events of nothing": (
        lambda g: windows.tumbling(None, "1m", aggs=N),
        "invalid frame: NoneType",
    ),
    "tumbling, an aggregate of a column of no name": (lambda g: a.avg(""), "invalid value: ''"),
    "count, a number": (lambda g: a.count(1), "invalid value: 1"),
    "sum, nothing": (lambda g: a.sum(None), "invalid value: None"),
    "min, a list": (lambda g: a.min(["ms"]), "invalid value: ['ms']"),
    "max, an empty name": (lambda g: a.max(""), "invalid value: ''"),
    "first, a number": (lambda g: a.first(0), "invalid value: 0"),
    "last, nothing": (lambda g: a.last(None), "invalid value: None"),
    "approx_count_distinct, a number": (
        lambda g: sketches.approx_count_distinct(5),
        "invalid value: 5",
    ),
    "approx_top_k, a list": (
        lambda g: sketches.approx_top_k(["page"], 3),
        "invalid value: ['page']",
    ),
    "theta_sketch, nothing": (lambda g: sketches.theta_sketch(None), "invalid value: None"),
    "bloom_filter, no columns": (
        lambda g: sketches.bloom_filter([], expected_items=9),
        "invalid value: []",
    ),
    "minhash, a number": (lambda g: sketches.minhash(5), "invalid text: 5"),
    "hll_estimate, nothing": (lambda g: sketches.hll_estimate(None), "invalid stored: None"),
    "might_contain, swapped": (
        lambda g: sketches.might_contain(["a"], "page"),
        "invalid stored: ['a']",
    ),
    "merge_partials, aggs a list": (
        lambda g: a.merge_partials(g.partials, "window", [a.count()]),
        "invalid aggs",
    ),
    "finish, aggs of nothing": (lambda g: a.finish(g.partials, None), "invalid aggs: None"),
    "partials, a Column": (lambda g: a.partials({"n": F.count("*")}), "invalid aggs"),
    "partials, a list": (lambda g: a.partials([a.count()]), "invalid aggs"),
    "deduplicate, a key of nothing": (
        lambda g: windows.Deduplication(None, "1h", max_delay="1m"),
        "invalid key: None",
    ),
    "deduplicate, a key as a Column": (
        lambda g: windows.Deduplication(F.col("page"), "1h", max_delay="1m"),
        "invalid key: Column<'page'>",
    ),
    "deduplicate, no key": (
        lambda g: windows.Deduplication([], "1h", max_delay="1m"),
        "invalid key: no columns",
    ),
    "deduplicate, an order nearly a column": (
        lambda g: windows.deduplicate(g.clicks, "page", "1h", max_delay="10m", order="mss"),
        "try: 'ms'",
    ),
    "sliding, columns nearly a column": (
        lambda g: windows.sliding(g.clicks, "1m", aggs=N, columns="pag"),
        "try: 'page'",
    ),
    "WindowAggregation, a class": (
        lambda g: windows.WindowAggregation(windows.Tumbling, aggs=N),
        "invalid window",
    ),
    "WindowAggregation, a duration": (
        lambda g: windows.WindowAggregation("1 minute", aggs=N),
        "invalid window: '1 minute'",
    ),
    "Input, where True": (lambda g: g.input(where=True), "invalid where: True"),
    "WindowAggregation, time a Column": (
        lambda g: windows.WindowAggregation(windows.Tumbling("1m"), aggs=N, time=F.col("t")),
        "invalid time",
    ),
    "join, on a Column": (
        lambda g: joins.IntervalJoin(F.col("user"), **HOUR),
        "invalid on: Column<'user'>",
    ),
    "join, on a condition": (
        lambda g: joins.stream_stream(g.clicks, g.clicks, "left.user = right.user", **HOUR),
        "no column 'left.user = right.user'",
    ),
    "join, on nearly a column": (
        lambda g: joins.stream_stream(g.clicks, g.clicks, "users", **HOUR),
        "try: 'user'",
    ),
    "join, on nothing": (lambda g: joins.IntervalJoin(None, **HOUR), "invalid on: None"),
    "join, how a Column": (
        lambda g: joins.IntervalJoin("user", within=("0s", "1h"), how=F.lit("left")),
        "invalid how",
    ),
    "join, how in capitals": (
        lambda g: joins.IntervalJoin("user", within=("0s", "1h"), how="LEFT"),
        "how='left'",
    ),
    "join, how of nothing": (
        lambda g: joins.IntervalJoin("user", within=("0s", "1h"), how=None),
        "invalid how: None",
    ),
    "join, emit unknown": (
        lambda g: joins.IntervalJoin("user", emit="append", **HOUR),
        "invalid emit: 'append'",
    ),
    "join, suffixes a text": (
        lambda g: joins.IntervalJoin("user", suffixes="_r", **HOUR)(g.clicks, g.clicks),
        "invalid suffixes: '_r'",
    ),
    "join, time a number": (
        lambda g: joins.IntervalJoin("user", time=5, **HOUR)(g.clicks, g.clicks),
        "invalid time: 5",
    ),
    "join, a table as the right side": (
        lambda g: joins.stream_stream(
            g.stream.withWatermark("event_time", "1 second").withColumn("user", F.lit("u")),
            g.clicks,
            "user",
            **HOUR,
        ),
        "left is a stream and right is a batch",
    ),
    "join, sides of nothing": (
        lambda g: joins.stream_stream(g.clicks, None, "user", **HOUR),
        "invalid frame: NoneType",
    ),
    "join, a path as the right side": (
        lambda g: joins.stream_stream(g.clicks, "/tables/orders", "user", **HOUR),
        "invalid frame: str",
    ),
    "stream_table, a path as the table": (
        lambda g: joins.stream_table(g.clicks, "/tables/users", "user"),
        "invalid",
    ),
    "stream_table, sides swapped": (
        lambda g: joins.stream_table(g.clicks.select("user"), g.stream, "user"),
        "invalid table: a stream",
    ),
    "stream_table, as_of a Column": (
        lambda g: joins.LookupJoin("user", as_of=F.col("event_time")),
        "invalid as_of",
    ),
    "stream_table, how a Column": (
        lambda g: joins.LookupJoin("user", how=F.lit("left")),
        "invalid how",
    ),
    "stream_table, no on": (lambda g: joins.LookupJoin([]), "invalid on"),
    "table_table, no on": (
        lambda g: joins.table_table(g.clicks, g.clicks, on=[]),
        "invalid on",
    ),
    "table_table, a stream": (
        lambda g: joins.table_table(
            g.stream, g.clicks.select(F.col("ms").alias("value")), on="value"
        ),
        "stream",
    ),
    "validity_periods, deleted nearly a column": (
        lambda g: joins.validity_periods(g.clicks, deleted="delete"),
        "delete",
    ),
    "clock_offsets, an unknown device": (
        lambda g: event_time.clock_offsets(
            g.clicks, device="users", sent="event_time", received="event_time"
        ),
        "try: 'user'",
    ),
    "clock_offsets, sent a text": (
        lambda g: event_time.clock_offsets(
            g.clicks, device="user", sent="page", received="event_time"
        ),
        "has type string",
    ),
    "near_duplicates, an unknown text": (
        lambda g: sketches.near_duplicates(g.clicks, "pag", key="user", threshold=0.8, within="1h"),
        "try: 'page'",
    ),
    "near_duplicates, a number as the text": (
        lambda g: sketches.near_duplicates(g.clicks, "ms", key="user", threshold=0.8, within="1h"),
        "'ms' has type bigint",
    ),
    "match_sequence, by nearly a column": (
        lambda g: patterns.match_sequence(
            g.clicks, patterns.sequence(STEP, within="1m"), by="users"
        ),
        "try: 'user'",
    ),
    "match_sequence, pattern and events swapped": (
        lambda g: patterns.match_sequence(patterns.sequence(STEP, within="1m"), g.clicks),
        "invalid pattern",
    ),
    "match_sequence, measures a list": (
        lambda g: patterns.MatchSequence(
            patterns.sequence(STEP, within="1m"), measures=[patterns.events_of("a").count()]
        ),
        "invalid measures",
    ),
    "match_sequence, timeouts a text": (
        lambda g: patterns.MatchSequence(patterns.sequence(STEP, within="1m"), timeouts="yes"),
        "invalid timeouts: 'yes'",
    ),
    "step, name a Column": (lambda g: patterns.step(F.col("a")), "invalid name"),
    "step, times negative": (
        lambda g: patterns.step("a", times=-1),
        "invalid times of step 'a': -1",
    ),
    "followed_by, a text": (lambda g: patterns.followed_by("b"), "'b'"),
    "next_, a condition": (lambda g: patterns.next_("ms > 1"), "'ms > 1'"),
    "events_of, a number": (lambda g: patterns.events_of(1), "invalid step: 1"),
    "compare, earlier a number": (
        lambda g: patterns.compare("ms", ">", 5),
        "invalid earlier_value: 5",
    ),
    "deviations, rules a list": (
        lambda g: patterns.DeviationDetection("1m", rules=[]),
        "invalid rules: []",
    ),
    "deviations, no rules": (
        lambda g: patterns.DeviationDetection("1m", rules={}),
        "invalid rules: {}",
    ),
    "deviations, until without a zone": (
        lambda g: patterns.deviations(
            windows.tumbling(g.clicks, "1m", aggs=N),
            "1m",
            rules={"r": patterns.DeviationRule("n", patterns.PastWindows(2), ratio=2)},
            until=datetime(2026, 1, 1),
        ),
        "invalid until",
    ),
    "deviations, events instead of windows": (
        lambda g: patterns.deviations(
            g.clicks,
            "1m",
            rules={"r": patterns.DeviationRule("ms", patterns.PastWindows(2), ratio=2)},
        ),
        "no column 'window'",
    ),
    "percolate, queries a list": (
        lambda g: patterns.percolate(g.clicks, ["page:a"], FIELDS),
        "invalid queries: list",
    ),
    "percolate, fields a text": (
        lambda g: patterns.percolate(g.clicks, g.clicks, "page"),
        "invalid fields: 'page'",
    ),
    "parse_query, swapped": (
        lambda g: patterns.parse_query(FIELDS, "page:a"),
        "invalid",
    ),
    "snapshot_as_changes, no key": (
        lambda g: changelogs.snapshot_as_changes(g.clicks, key=[], position=[1], snapshot_time=AT),
        "invalid key",
    ),
    "snapshot_as_changes, a stream": (
        lambda g: changelogs.snapshot_as_changes(
            g.stream, key="value", position=[1], snapshot_time=AT
        ),
        "stream",
    ),
    "snapshot_as_changes, time a text": (
        lambda g: changelogs.snapshot_as_changes(
            g.clicks, key="page", position=[1], snapshot_time="2026-01-01"
        ),
        "invalid snapshot_time: '2026-01-01'",
    ),
    "latest_changes, nothing": (
        lambda g: changelogs.latest_changes(None),
        "invalid frame: NoneType",
    ),
    "fold_events, no fold": (
        lambda g: changelogs.fold_events(g.clicks, None),
        "invalid fold: None",
    ),
    "decide, no decider": (lambda g: changelogs.decide(g.clicks, None), "invalid decider: None"),
}

PARTS: dict[str, tuple[Call, str]] = {
    "KafkaSource, servers of nothing": (
        lambda g: sources.KafkaSource(None, "c"),
        "invalid bootstrap_servers: None",
    ),
    "KafkaSource, servers and topic swapped": (
        lambda g: sources.KafkaSource("clicks", "localhost:9092"),
        "invalid bootstrap_servers: 'clicks'",
    ),
    "KafkaSource, a topic as a number": (lambda g: sources.KafkaSource("h:1", 5), "5"),
    "KafkaSource, a list of nothing": (
        lambda g: sources.KafkaSource("h:1", [None]),
        "None",
    ),
    "KafkaSource, a topic twice": (lambda g: sources.KafkaSource("h:1", ["c", "c"]), "repeated"),
    "KafkaSource, an empty topic": (
        lambda g: sources.KafkaSource("h:1", ""),
        "invalid topic name: ''",
    ),
    "KafkaSource, partitions a list": (
        lambda g: sources.KafkaSource("h:1", partitions=[0, 1]),
        "invalid partitions",
    ),
    "KafkaSource, a negative partition": (
        lambda g: sources.KafkaSource("h:1", partitions={"c": [-1]}),
        "invalid partitions",
    ),
    "KafkaSource, no partitions": (
        lambda g: sources.KafkaSource("h:1", partitions={"c": []}),
        "invalid partitions",
    ),
    "KafkaSource, a broken pattern": (
        lambda g: sources.KafkaSource("h:1", pattern="c("),
        "invalid pattern: 'c('",
    ),
    "KafkaSource, on_data_loss unknown": (
        lambda g: sources.KafkaSource("h:1", "c", on_data_loss="ignore"),
        "invalid on_data_loss: 'ignore'",
    ),
    "KafkaSource, options a list": (
        lambda g: sources.KafkaSource("h:1", "c", options=["kafka.client.id=a"]),
        "invalid options",
    ),
    "KafkaSource, an option of nothing": (
        lambda g: sources.KafkaSource("h:1", "c", options={"kafka.client.id": None}),
        "kafka.client.id",
    ),
    "json_format, nothing at all": (lambda g: formats.json_format(None), "invalid schema: None"),
    "json_format, a mapping": (
        lambda g: formats.json_format({"page": "string"}),
        "invalid schema",
    ),
    "json_format, parser unknown": (
        lambda g: formats.json_format("a int", parser="fast"),
        "invalid parser: 'fast'",
    ),
    "avro_format, nothing": (lambda g: formats.avro_format(None), "invalid schema: None"),
    "avro_format, broken JSON": (lambda g: formats.avro_format("{"), "invalid"),
    "avro_format, a missing file": (
        lambda g: formats.avro_format(Path("/nowhere/a.avsc")),
        "/nowhere/a.avsc",
    ),
    "protobuf_format, a missing file": (
        lambda g: formats.protobuf_format(Path("/nowhere/a.desc"), "A"),
        "/nowhere/a.desc",
    ),
    "debezium_format, no key": (lambda g: formats.debezium_format("id int", key=[]), "invalid key"),
    "debezium_format, an unknown key": (
        lambda g: formats.debezium_format("id int", key="ids"),
        "ids",
    ),
    "debezium_format, key a Column": (
        lambda g: formats.debezium_format("id int", key=F.col("id")),
        "invalid key",
    ),
    "debezium_format, shape unknown": (
        lambda g: formats.debezium_format("id int", key="id", shape="flat"),
        "invalid shape: 'flat'",
    ),
    "maxwell_format, columns a list": (
        lambda g: formats.maxwell_format(["id"], key="id"),
        "invalid columns: ['id']",
    ),
    "upsert_json_format, key a list": (
        lambda g: formats.upsert_json_format("a string", key=["a"]),
        "invalid key: ['a']",
    ),
    "Input, time nearly a field": (lambda g: g.input(time="event_tim"), "try: 'event_time'"),
    "Input, time of nothing": (lambda g: g.input(time=None), "invalid time: None"),
    "Input, time a digit": (lambda g: g.input(time=5), "invalid time: 5"),
    "Input, kafka_columns a text": (
        lambda g: g.input(kafka_columns="key"),
        "invalid kafka_columns: 'key'",
    ),
    "Input, kafka_columns of nothing": (
        lambda g: g.input(kafka_columns=None),
        "invalid kafka_columns: None",
    ),
    "Input, where a Column": (lambda g: g.input(where=F.col("page") == "a"), "invalid where"),
    "Input, where nearly a column": (
        lambda g: g.input(where="pages = 'a'").good_rows(g.spark, {}, {}),
        "try: 'page'",
    ),
    "Input, on_future a flag": (lambda g: g.input(on_future=True), "invalid on_future: True"),
    "Input, watermarks in capitals": (
        lambda g: g.input(watermarks="Global"),
        "watermarks='global'",
    ),
    "Input, a class as format": (
        lambda g: sources.Input(
            g.kafka, formats.json_format, time="event_time", watermark_delay="1s"
        ),
        "invalid format",
    ),
    "Input, format and source swapped": (
        lambda g: sources.Input(g.json, g.kafka, time="event_time", watermark_delay="1s"),
        "invalid source",
    ),
    "DeltaChangeFeed, a Path": (
        lambda g: sources.DeltaChangeFeed(Path("/t"), key="id"),
        "invalid path",
    ),
    "DeltaChangeFeed, where a Column": (
        lambda g: sources.DeltaChangeFeed("/t", key="id", where=F.col("id") > 1),
        "invalid where",
    ),
    "DeltaChangeFeed, key a Column": (
        lambda g: sources.DeltaChangeFeed("/t", key=F.col("id")),
        "invalid key",
    ),
    "Append, nothing": (lambda g: sinks.Append(None), "invalid path: None"),
    "Append, evolve a text": (lambda g: sinks.Append("/t", evolve="yes"), "invalid evolve: 'yes'"),
    "Append, layout of nothing": (
        lambda g: sinks.Append("/t", layout=None),
        "invalid layout: None",
    ),
    "Append, output of nothing": (
        lambda g: sinks.Append("/t", output=None),
        "invalid output: None",
    ),
    "TableLayout, cluster_by a text": (
        lambda g: sinks.TableLayout(cluster_by="page"),
        "invalid cluster_by: 'page'",
    ),
    "TableLayout, a Column": (
        lambda g: sinks.TableLayout(partition_by=[F.col("day")]),
        "invalid partition_by",
    ),
    "TableLayout, partition_by of nothing": (
        lambda g: sinks.TableLayout(partition_by=None),
        "invalid partition_by: None",
    ),
    "Upsert, keys of nothing": (lambda g: sinks.Upsert("/t", keys=None), "invalid keys: None"),
    "Upsert, a Column as key": (
        lambda g: sinks.Upsert("/t", keys=[F.col("page")]),
        "invalid keys",
    ),
    "Upsert, aggs a list": (
        lambda g: sinks.Upsert("/t", keys=["page"], aggs=[a.count()]),
        "invalid aggs",
    ),
    "Upsert, a Spark aggregate": (
        lambda g: sinks.Upsert("/t", keys=["page"], aggs={"n": F.count("*")}),
        "invalid aggs",
    ),
    "Upsert, no aggs": (lambda g: sinks.Upsert("/t", keys=["page"], aggs={}), "invalid aggs: {}"),
    "CorrectedWindows, log a flag": (
        lambda g: sinks.CorrectedWindows("/t", aggregation=VIEWS, log=True),
        "invalid log: True",
    ),
    "FanOut, a path": (lambda g: sinks.FanOut("/t", other_sinks=[]), "'/t'"),
    "FanOut, other_sinks one sink": (
        lambda g: sinks.FanOut(APPEND, other_sinks=sinks.Append("/o", output="o")),
        "invalid other_sinks",
    ),
    "FanOut, a path among the others": (
        lambda g: sinks.FanOut(APPEND, other_sinks=["/o"]),
        "'/o'",
    ),
    "MapRows, no function": (
        lambda g: sinks.MapRows(sink=APPEND, rows="upper"),
        "invalid rows: 'upper'",
    ),
    "MapRows, no sink": (lambda g: sinks.MapRows(sink="/t", rows=lambda rows: rows), "'/t'"),
    "SnapshotJoin, no join": (
        lambda g: sinks.SnapshotJoin(sink=APPEND, table="/t", join="user"),
        "invalid join: 'user'",
    ),
    "SnapshotJoin, a frame as the table": (
        lambda g: sinks.SnapshotJoin(sink=APPEND, table=g.clicks, join=joins.LookupJoin("user")),
        "invalid table",
    ),
    "Mirror, a path as store": (
        lambda g: sinks.Mirror("/t", store="postgres", key="id"),
        "invalid store: 'postgres'",
    ),
    "Mirror, key a Column": (
        lambda g: sinks.Mirror("/t", store=STORE, key=F.col("id")),
        "invalid key",
    ),
    "KafkaSink, key a Column": (
        lambda g: sinks.KafkaSink("/t", bootstrap_servers="a:1", topic="t", key=F.col("id")),
        "invalid key",
    ),
    "KafkaSink, no topic": (
        lambda g: sinks.KafkaSink("/t", bootstrap_servers="a:1", topic="", key="id"),
        "topic",
    ),
    "KafkaSink, topic a list": (
        lambda g: sinks.KafkaSink("/t", bootstrap_servers="a:1", topic=["t"], key="id"),
        "topic",
    ),
    "KafkaSink, headers a text": (
        lambda g: sinks.KafkaSink(
            "/t", bootstrap_servers="a:1", topic="t", key="id", headers="trace"
        ),
        "invalid headers: 'trace'",
    ),
    "KafkaSink, value a text": (
        lambda g: sinks.KafkaSink("/t", bootstrap_servers="a:1", topic="t", key="id", value="json"),
        "invalid value: 'json'",
    ),
    "DeadLetterTopic, no server": (
        lambda g: sinks.DeadLetterTopic(None, topic="t"),
        "invalid bootstrap_servers: None",
    ),
    "Webhook, url of nothing": (lambda g: sinks.Webhook("/t", url=None), "invalid url: None"),
    "Webhook, headers a text": (
        lambda g: sinks.Webhook("/t", url="https://a.b", headers="token"),
        "invalid headers",
    ),
    "VersionedTable, no order": (
        lambda g: sinks.VersionedTable("/t", key="id", order=[]),
        "invalid order: []",
    ),
    "VersionedTable, order a text": (
        lambda g: sinks.VersionedTable("/t", key="id", order="offset"),
        "invalid order: 'offset'",
    ),
    "TemporalJoin, a path as versions": (
        lambda g: sinks.TemporalJoin("/t", versions="/v", pending_table="/w", watermark_delay="1s"),
        "invalid versions: '/v'",
    ),
    "Alarms, no windows": (
        lambda g: sinks.Alarms("/t", windows=VIEWS, deviations=None),
        "invalid windows",
    ),
    "Projection, a fold as a mapping": (
        lambda g: sinks.Projection("/t", fold={"key": "id"}),
        "a Fold",
    ),
    "IdempotentReceiver, no sink": (
        lambda g: sinks.IdempotentReceiver(sink=None, seen_ids="/s"),
        "invalid sink: None",
    ),
    "View, a path as a side": (
        lambda g: views.View("/v", left="/a", right=view("b"), on="id"),
        "invalid left: '/a'",
    ),
    "View, on of nothing": (
        lambda g: views.View("/v", left=view("a"), right=view("b"), on=[]),
        "invalid on",
    ),
    "read_view, an unknown column": (lambda g: views.read_view(g.clicks, users=1), "users"),
    "PostgresStore, no table": (lambda g: PostgresStore(""), "invalid table: ''"),
    "PostgresStore, a table of nothing": (lambda g: PostgresStore(None), "invalid table: None"),
    "Job, name of nothing": (lambda g: g.job(name=None), "invalid name: None"),
    "Job, name with a space": (lambda g: g.job(name="page views"), "invalid name: 'page views'"),
    "Job, inputs a list": (lambda g: g.job(inputs=[g.clicks_input]), "invalid inputs"),
    "Job, an input of nothing": (lambda g: g.job(inputs={"clicks": None}), "inputs['clicks']"),
    "Job, a source as input": (lambda g: g.job(inputs={"clicks": g.kafka}), "inputs['clicks']"),
    "Job, sink a class": (lambda g: g.job(sink=sinks.Append), "invalid sink"),
    "Job, sink of nothing": (lambda g: g.job(sink=None), "invalid sink: None"),
    "Job, transform a class": (
        lambda g: g.job(transform=windows.Tumbling("1m")),
        "invalid transform",
    ),
    "Job, emit unknown": (lambda g: g.job(emit="update"), "invalid emit: 'update'"),
    "Job, checkpoint a Path": (lambda g: g.job(checkpoint=Path("/c")), "invalid checkpoint"),
    "Job, checkpoint empty": (lambda g: g.job(checkpoint=""), "invalid checkpoint: ''"),
    "Job, dead_letters a Path": (lambda g: g.job(dead_letters=Path("/d")), "invalid dead_letters"),
    "Job, late_rows of another input": (
        lambda g: g.job(transform=VIEWS, late_rows={"orders": "/l"}),
        "late_rows",
    ),
    "Job, late_rows a number": (lambda g: g.job(transform=VIEWS, late_rows=5), "invalid late_rows"),
    "Job, offset_gaps a number": (lambda g: g.job(offset_gaps=5), "invalid offset_gaps"),
    "Job, limits a mapping": (lambda g: g.job(limits={"dead_rows": 5}), "invalid limits"),
    "Job, limits of nothing": (lambda g: g.job(limits=None), "invalid limits: None"),
    "Job, maintenance a number": (lambda g: g.job(maintenance=200), "invalid maintenance: 200"),
    "Job, a text as dead letter topic": (
        lambda g: g.job(dead_letter_topic="dead"),
        "invalid dead_letter_topic: 'dead'",
    ),
    "Job, side_table_layout a list": (
        lambda g: g.job(side_table_layout=["topic"]),
        "invalid side_table_layout",
    ),
    "Job, metrics_address a number": (
        lambda g: g.job(metrics_port=9108, metrics_address=0),
        "invalid metrics_address: 0",
    ),
    "Job, report a flag": (lambda g: g.job(report=True), "invalid report: True"),
    "Job, revision a list": (lambda g: g.job(revision=[1]), "invalid revision: [1]"),
    "Job, catalog of a number": (lambda g: g.job(catalog=5), "invalid catalog: 5"),
    "replay, no job": (lambda g: replay("views", g.spark), "invalid job: 'views'"),
    "compare, no job": (lambda g: compare("views", g.spark), "invalid job: 'views'"),
    "swap_tables, no job": (lambda g: swap_tables(None, g.spark), "invalid job: None"),
    "merge_late_rows, no job": (lambda g: merge_late_rows(None, g.spark), "invalid job: None"),
    "erase, a root as a text": (lambda g: erase(g.spark, "/data", ["user=a"]), "invalid roots"),
    "follow, a path": (
        lambda g: follow("/t", APPEND, g.spark, job="j"),
        "invalid change_feed: '/t'",
    ),
}
