"""One continuous query in Flink SQL: QUERY SERVERS TOPIC OUTPUT FOLDER CONNECTOR.

It runs in the virtual environment of Flink, and writes exactly once to the topic OUTPUT. The column
`known` of a row is the time of its last input, in milliseconds."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.peers.flink_sql import PROFILES, SOURCE, SOURCES, create_sink, environment

LIVE = {
    # A result is readable once its checkpoint is complete.
    "execution.checkpointing.interval": "500 ms",
    # A table without changes must not delay the join.
    "table.exec.source.idle-timeout": "1 s",
    "table.exec.state.ttl": "60 s",
}
WATERMARK_DELAY_SECONDS = 2
QUERIES = {
    # A temporal join waits for the watermark, so it has no watermark delay.
    "enrichment": (
        "known BIGINT, page STRING, `user` STRING, ms INT, `plan` STRING",
        """SELECT clicks.ts, page, clicks.`user`, ms, `plan` FROM clicks
        LEFT JOIN profiles FOR SYSTEM_TIME AS OF clicks.event_time
        ON clicks.`user` = profiles.`user`""",
        0,
    ),
    "updates": (
        "page STRING, slot BIGINT, `views` BIGINT, known BIGINT",
        "SELECT page, ts / 10000, COUNT(*), MAX(ts) FROM clicks GROUP BY page, ts / 10000",
        WATERMARK_DELAY_SECONDS,
    ),
    "final windows": (
        "page STRING, `views` BIGINT, known BIGINT",
        f"""SELECT page, COUNT(*),
        UNIX_TIMESTAMP(CAST(window_end AS STRING)) * 1000 + {WATERMARK_DELAY_SECONDS * 1_000}
        FROM TUMBLE(TABLE clicks, DESCRIPTOR(event_time), INTERVAL '10' SECONDS)
        GROUP BY window_start, window_end, page""",
        WATERMARK_DELAY_SECONDS,
    ),
    "join": (
        "id STRING, ts BIGINT, click_ts BIGINT, known BIGINT",
        """SELECT seen.id, seen.ts, click.ts, GREATEST(seen.ts, click.ts)
        FROM `clicks-impressions` seen JOIN `clicks-clicks` click
        ON seen.id = click.id AND click.event_time
        BETWEEN seen.event_time AND seen.event_time + INTERVAL '5' SECONDS""",
        WATERMARK_DELAY_SECONDS,
    ),
}
"""By name: the columns of the result, the query and the watermark delay in seconds."""
KEYS = {"updates": "page, slot"}
"""The key of a result whose rows change."""


def main(query: str, servers: str, topic: str, output: str, folder: str, connector: str) -> None:
    """Run a query until the process is killed."""
    tables = environment(connector, Path(folder), **LIVE)
    columns, select, delay = QUERIES[query]
    for name, fields in SOURCES.items():
        options = {"name": name, "topic": name.replace("clicks", topic, 1), "columns": fields}
        tables.execute_sql(SOURCE.format(**options, servers=servers, delay=delay, until=""))
    tables.execute_sql(PROFILES.format(servers=servers, until=""))
    create_sink(tables, output, columns, servers, KEYS.get(query))
    tables.execute_sql(f"INSERT INTO answers {select}").wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
