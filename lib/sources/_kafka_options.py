"""Kafka's options: what is the source's own to set, and what a caller may add."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ..errors import ArgumentError, ColumnTypeError

_OURS = {
    "kafka.bootstrap.servers": "servers",
    "subscribe": "topics",
    "subscribepattern": "pattern",
    "assign": "partitions",
    "startingoffsets": "start",
    "startingtimestamp": "start",
    "startingoffsetsbytimestamp": "start",
    "endingoffsets": "between()",
    "endingtimestamp": "between()",
    "endingoffsetsbytimestamp": "between()",
    "maxoffsetspertrigger": "max_rows",
    "includeheaders": "keep=['headers'] of the Reading",
    "failondataloss": "on_data_loss, 'stop' or 'record'",
}
"""The reader's options that an argument of the source sets, and the argument."""

_READER = (
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "maxRecordsPerPartition",
    "maxTriggerDelay",
    "minOffsetsPerTrigger",
    "minPartitions",
    "startingOffsetsByTimestampStrategy",
)
"""The other options of Spark's reader."""

_STREAM_ONLY = ("minoffsetspertrigger", "maxtriggerdelay", "startingoffsetsbytimestampstrategy")

# With Kafka's own 500 records a poll, Spark asks so often that it costs a tenth of a simple query's
# CPU time. And at a topic's end the broker holds back an answer for so many milliseconds (Kafka's
# own 500), which a task has to wait for before it is told anything else; no task reads further.
# Most tasks have a consumer of their own, and a third of what it takes to make one is its metrics:
# beans of the JVM, and names by which the broker could ask for them.
_DEFAULTS = {
    "kafka.isolation.level": "read_committed",
    "kafka.max.poll.records": "5000",
    "kafka.fetch.max.wait.ms": "1",
    "kafka.enable.metrics.push": "false",
    "kafka.auto.include.jmx.reporter": "false",
}

_SERVER = re.compile(r"(?:\w+://)?(?:\[[0-9A-Fa-f:.%\w]+\]|[\w.-]+):(\d{1,5})")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_ALLOWED = "host:port, several joined by commas."


def require_servers(servers: object) -> None:
    """Refuse addresses that Kafka's client would refuse, or would try for minutes."""
    if not isinstance(servers, str):
        raise ColumnTypeError(
            f"servers is {servers!r}, a {type(servers).__name__}.",
            f"text: {_ALLOWED}",
            'servers="one:9092,two:9092"',
        )
    for server in servers.split(","):
        found = _SERVER.fullmatch(server.strip())
        if found is None or not 0 < int(found[1]) < 65_536:
            what = f"servers is {servers!r}" if server.strip() else "servers has an empty address"
            raise ArgumentError(f"{what}.", _ALLOWED, 'servers="localhost:9092"')


def topic_names(topics: str | Iterable[str]) -> tuple[str, ...]:
    """Return the names of topics, and refuse what no topic can be called."""
    given = (topics,) if isinstance(topics, str) else tuple(topics)
    for name in given:
        if not isinstance(name, str) or not _TOPIC.fullmatch(name):
            raise ArgumentError(
                f"topics is {topics!r}, and no topic can be called {name!r}.",
                "one name, or a list of names, of letters, digits, '.', '_' and '-'.",
                f"topics={[part for part in re.split(r'[ ,]+', str(name)) if part]}",
            )
    return given


def require_options(names: Iterable[str]) -> None:
    """Refuse options that an argument sets already, or that Spark would silently ignore."""
    reader = {option.lower() for option in _READER}
    for name in names:
        if name.lower() in _OURS:
            raise ArgumentError(f"options holds {name!r}.", hint=f"use {_OURS[name.lower()]}.")
        if not name.lower().startswith("kafka.") and name.lower() not in reader:
            raise ArgumentError(
                f"options holds {name!r}, which neither Kafka's client nor Spark would get.",
                f"kafka.* for Kafka's client; of Spark's reader {', '.join(_READER)}.",
                f"'kafka.{name}'",
            )


def with_defaults(options: Mapping[str, str], servers: str, *, headers: bool) -> dict[str, str]:
    """Return the options of every read: the caller's, and ours where the caller has none."""
    given = {name.lower() for name in options}
    defaults = {name: value for name, value in _DEFAULTS.items() if name.lower() not in given}
    ours = {"kafka.bootstrap.servers": servers, "includeHeaders": str(headers).lower()}
    return {**defaults, **options, **ours}


def for_a_batch(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options without those that Spark takes for streams alone."""
    return {name: value for name, value in options.items() if name.lower() not in _STREAM_ONLY}
