"""One query in Flink SQL, several times in one JVM.

Command line: QUERY SERVERS LABEL RUNS TOLERANCE FOLDER CONNECTOR. It runs at most RUNS times, until
two consecutive times agree within TOLERANCE.

It runs in the virtual environment of Flink. Each run is a streaming job over the records at its
start, and writes exactly once to its own topic LABEL-NUMBER. FOLDER/LABEL.runs has the start and
end of each run in milliseconds."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from pyflink.table import EnvironmentSettings, TableEnvironment

from benchmarks.peers.marks import run_and_record
from benchmarks.support.order_table import COLUMNS, KEY, changes_topic

SETTINGS = {
    "parallelism.default": "2",
    "pipeline.object-reuse": "true",
    "execution.checkpointing.interval": "2 s",
    "execution.checkpointing.mode": "EXACTLY_ONCE",
    "execution.checkpointing.storage": "filesystem",
    "restart-strategy.type": "none",
    # Debezium may send changes again, so the current row of each key is in the state.
    "table.exec.source.cdc-events-duplicate": "true",
    "table.local-time-zone": "UTC",
}
SOURCE = """
CREATE TABLE `{name}` (
  {columns}, event_time AS TO_TIMESTAMP_LTZ(ts, 3),
  WATERMARK FOR event_time AS event_time - INTERVAL '{delay}' SECONDS
) WITH (
  'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{servers}',
  'scan.startup.mode' = 'earliest-offset', {until} 'format' = 'json'
)"""
BOUNDED = "'scan.bounded.mode' = 'latest-offset',"
PROFILES = """
CREATE TABLE profiles (
  `user` STRING, `plan` STRING, ts BIGINT, event_time AS TO_TIMESTAMP_LTZ(ts, 3),
  WATERMARK FOR event_time AS event_time, PRIMARY KEY (`user`) NOT ENFORCED
) WITH (
  'connector' = 'upsert-kafka', 'topic' = 'profiles', 'properties.bootstrap.servers' = '{servers}',
  {until} 'key.format' = 'raw', 'value.format' = 'json'
)"""
SINK = """
CREATE TABLE answers ({columns}) WITH (
  'connector' = 'kafka', 'topic' = '{name}', 'properties.bootstrap.servers' = '{servers}',
  'format' = 'json', 'sink.delivery-guarantee' = 'exactly-once',
  'sink.transactional-id-prefix' = '{name}', 'properties.transaction.timeout.ms' = '600000'
)"""
CHANGES = """
CREATE TABLE orders ({columns}, PRIMARY KEY ({key}) NOT ENFORCED) WITH (
  'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{servers}',
  'scan.startup.mode' = 'earliest-offset', {until} 'format' = 'debezium-json'
)"""
KEYED_SINK = """
CREATE TABLE answers ({columns}, PRIMARY KEY ({key}) NOT ENFORCED) WITH (
  'connector' = 'upsert-kafka', 'topic' = '{name}', 'properties.bootstrap.servers' = '{servers}',
  'key.format' = 'json', 'value.format' = 'json', 'sink.delivery-guarantee' = 'exactly-once',
  'sink.transactional-id-prefix' = '{name}', 'properties.transaction.timeout.ms' = '600000'
)"""
SOURCES = {
    "clicks": "ts BIGINT, page STRING, `user` STRING, ms INT, `bytes` INT",
    "clicks-impressions": "ts BIGINT, id STRING, page STRING, `user` STRING",
    "clicks-clicks": "ts BIGINT, id STRING, `position` INT, ms INT",
}
SUMS = """SELECT {key}, window_start, window_end, COUNT(*), SUM(CAST(ms AS BIGINT))
FROM {window} GROUP BY window_start, window_end, {key}"""
SUMMED = "`key` STRING, `start` TIMESTAMP(3), `end` TIMESTAMP(3), `views` BIGINT, total_ms BIGINT"
TUMBLE = "TUMBLE(TABLE clicks, DESCRIPTOR(event_time), INTERVAL '10' SECONDS)"
HOP = "HOP(TABLE clicks, DESCRIPTOR(event_time), INTERVAL '10' SECONDS, INTERVAL '60' SECONDS)"
SESSION = "SESSION(TABLE clicks PARTITION BY `user`, DESCRIPTOR(event_time), INTERVAL '30' SECONDS)"
QUERIES = {
    "tumbling": (SUMMED, SUMS.format(key="page", window=TUMBLE)),
    "hopping": (SUMMED, SUMS.format(key="page", window=HOP)),
    "session": (SUMMED, SUMS.format(key="`user`", window=SESSION)),
    "distinct": (
        "`key` STRING, `start` TIMESTAMP(3), `users` BIGINT",
        f"""SELECT page, window_start, COUNT(DISTINCT `user`)
        FROM {TUMBLE} GROUP BY window_start, window_end, page""",
    ),
    "join": (
        "id STRING, ts BIGINT, click_ts BIGINT, `position` INT, ms INT",
        """SELECT seen.id, seen.ts, click.ts, click.`position`, click.ms
        FROM `clicks-impressions` seen JOIN `clicks-clicks` click
        ON seen.id = click.id AND click.event_time
        BETWEEN seen.event_time AND seen.event_time + INTERVAL '60' SECONDS""",
    ),
    "enrichment": (
        "ts BIGINT, page STRING, `user` STRING, ms INT, `plan` STRING",
        """SELECT clicks.ts, page, clicks.`user`, ms, `plan` FROM clicks
        LEFT JOIN profiles FOR SYSTEM_TIME AS OF clicks.event_time
        ON clicks.`user` = profiles.`user`""",
    ),
    "sequence": (
        "`key` STRING, `start` BIGINT, `end` BIGINT, ms INT, slower INT",
        """SELECT * FROM clicks MATCH_RECOGNIZE (
          PARTITION BY `user` ORDER BY event_time, ms
          MEASURES a.ts AS `start`, b.ts AS `end`, a.ms AS ms, b.ms AS slower
          ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW
          PATTERN (a x* b) WITHIN INTERVAL '60' SECOND
          DEFINE a AS a.ms > 200, x AS x.ms <= a.ms, b AS b.ms > a.ms
        )""",
    ),
    "changelog": (COLUMNS, "SELECT * FROM orders"),
}
"""By name: the columns of the result, and the query."""
KEYS = {"changelog": KEY}
"""The key of a result whose rows change."""


def environment(connector: str, checkpoints: Path, **more: str) -> TableEnvironment:
    """Return a streaming environment with the connector and a checkpoint folder."""
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    places = {
        "pipeline.jars": Path(connector).as_uri(),
        "execution.checkpointing.dir": checkpoints.as_uri(),
    }
    for name, value in {**SETTINGS, **places, **more}.items():
        tables.get_config().set(name, value)
    return tables


def create_sink(
    tables: TableEnvironment, name: str, columns: str, servers: str, key: str | None
) -> None:
    """Create the table `answers` over a topic; with a key, its records are upserts."""
    sink = SINK if key is None else KEYED_SINK
    tables.execute_sql(sink.format(name=name, columns=columns, servers=servers, key=key))


def run(query: str, servers: str, output: str, folder: str, connector: str) -> tuple[int, int]:
    """Run a query to its end, and return its start and end."""
    tables = environment(connector, Path(folder) / output)
    for name, columns in SOURCES.items():
        options = {"name": name, "topic": name, "columns": columns, "servers": servers}
        tables.execute_sql(SOURCE.format(**options, delay=10, until=BOUNDED))
    tables.execute_sql(PROFILES.format(servers=servers, until=BOUNDED))
    changes = {"topic": changes_topic("clicks"), "columns": COLUMNS, "key": KEY}
    tables.execute_sql(CHANGES.format(**changes, servers=servers, until=BOUNDED))
    columns, select = QUERIES[query]
    create_sink(tables, output, columns, servers, KEYS.get(query))
    started_at = time.time_ns()
    tables.execute_sql(f"INSERT INTO answers {select}").wait()
    return started_at // 1_000_000, time.time_ns() // 1_000_000


def main(
    query: str, servers: str, label: str, runs: str, tolerance: str, folder: str, connector: str
) -> None:
    """Run a query until it is warm, and record the start and end of each run."""

    def one(output: str) -> tuple[int, int]:
        return run(query, servers, output, folder, connector)

    run_and_record(one, label, runs, tolerance, folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
