"""Kafka options, bootstrap servers and topic names: validation and defaults."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import SequenceMatcher

from ..errors import ArgumentError, ColumnTypeError

_ARGUMENT_BY_OPTION = {
    "kafka.bootstrap.servers": "bootstrap_servers",
    "subscribe": "topics",
    "subscribepattern": "pattern",
    "assign": "partitions",
    "startingoffsets": "start",
    "startingtimestamp": "start",
    "startingoffsetsbytimestamp": "start",
    "endingoffsets": "between()",
    "endingtimestamp": "between()",
    "endingoffsetsbytimestamp": "between()",
    "maxoffsetspertrigger": "max_records_per_batch",
    "includeheaders": "kafka_columns=['headers'] of Input",
    "failondataloss": "on_data_loss='stop' or 'record'",
}
"""The options of Spark's reader that an argument of KafkaSource sets, and the argument."""

_READER_OPTIONS = (
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
"""The other options of Spark's Kafka reader."""

_STREAM_ONLY = ("minoffsetspertrigger", "maxtriggerdelay", "startingoffsetsbytimestampstrategy")

# Kafka's default of 500 records per poll costs a tenth of the CPU time of a simple query. At the
# end of a topic, the broker delays its response by fetch.max.wait.ms (default 500), although no
# task reads beyond that end. Metrics take a third of the time to create a consumer.
_DEFAULTS = {
    "kafka.isolation.level": "read_committed",
    "kafka.max.poll.records": "5000",
    "kafka.fetch.max.wait.ms": "1",
    "kafka.enable.metrics.push": "false",
    "kafka.auto.include.jmx.reporter": "false",
}

_ADDRESS_PATTERN = re.compile(r"(?:\w+://)?(?:\[[0-9A-Fa-f:.%\w]+\]|[\w.-]+):(\d{1,5})")
_TOPIC_PATTERN = re.compile(r"[A-Za-z0-9._-]{1,249}")
_EXPECTED_SERVERS = "host:port, or several separated by commas"
_MAX_LISTED_TOPICS = 20


def require_bootstrap_servers(bootstrap_servers: object) -> None:
    """Raise an error for addresses that Kafka's client rejects, or retries for minutes."""
    if not isinstance(bootstrap_servers, str):
        raise ColumnTypeError(
            f"invalid bootstrap_servers: {bootstrap_servers!r}",
            f"a str: {_EXPECTED_SERVERS}",
            'bootstrap_servers="one:9092,two:9092"',
        )
    for server in bootstrap_servers.split(","):
        address = _ADDRESS_PATTERN.fullmatch(server.strip())
        if address is None or not 0 < int(address[1]) < 65_536:
            raise ArgumentError(
                f"invalid bootstrap_servers: {bootstrap_servers!r}",
                _EXPECTED_SERVERS,
                'bootstrap_servers="localhost:9092"',
            )


def parse_topic_names(topics: str | Iterable[str]) -> tuple[str, ...]:
    """Return topic names as a tuple; raise ArgumentError for invalid names.

    >>> parse_topic_names("clicks")
    ('clicks',)
    """
    names = (
        (topics,) if not isinstance(topics, Iterable) or isinstance(topics, str) else tuple(topics)
    )
    for name in names:
        if not isinstance(name, str) or not _TOPIC_PATTERN.fullmatch(name):
            raise ArgumentError(
                f"invalid topic name: {name!r}",
                "one name or a list of names, with letters, digits, '.', '_' and '-'",
                f"topics={[part for part in re.split(r'[ ,]+', str(name)) if part]}",
            )
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ArgumentError(f"invalid topics: repeated {', '.join(repeated)}", "each topic once")
    return names


def describe_similar_topics(name: str, existing: Iterable[str]) -> str:
    """Return the existing topics as the cause of an error about a missing topic.

    Topics with similar names come first.

    >>> describe_similar_topics("clics", ["orders", "clicks"])
    'the broker has the topics clicks, orders.'
    """
    by_similarity = sorted(existing, key=lambda topic: -SequenceMatcher(None, name, topic).ratio())
    if not by_similarity:
        return "the broker has no topics."
    more = ", ..." if len(by_similarity) > _MAX_LISTED_TOPICS else "."
    return f"the broker has the topics {', '.join(by_similarity[:_MAX_LISTED_TOPICS])}{more}"


def require_options(options: Mapping[str, str]) -> None:
    """Raise ArgumentError for options that an argument sets, or that Spark would ignore.

    Raises ColumnTypeError for options that are not a mapping, and for a name or a value without
    text.
    """
    if not isinstance(options, Mapping):
        raise ColumnTypeError(
            f"invalid options: {type(options).__name__}",
            "a mapping of names to values",
            'options={"kafka.security.protocol": "SSL"}',
        )
    for name, value in options.items():
        if not isinstance(name, str) or not isinstance(value, str | int | float | bool):
            raise ColumnTypeError(
                f"invalid option: {name!r} with a value of type {type(value).__name__}",
                "text, a number, True or False",
                'options={"kafka.security.protocol": "SSL"}',
            )
    reader_options = {option.lower() for option in _READER_OPTIONS}
    for name in options:
        if name.lower() in _ARGUMENT_BY_OPTION:
            raise ArgumentError(
                f"invalid option: {name!r}",
                "options that no argument sets",
                _ARGUMENT_BY_OPTION[name.lower()],
            )
        if not name.lower().startswith("kafka.") and name.lower() not in reader_options:
            raise ArgumentError(
                f"invalid option: {name!r}",
                f"kafka.* for Kafka's client, or {', '.join(_READER_OPTIONS)} for Spark's reader",
                f"'kafka.{name}'",
            )


def with_defaults(
    options: Mapping[str, str], bootstrap_servers: str, *, headers: bool
) -> dict[str, str]:
    """Return the options of a read: those of the caller, and defaults for the others."""
    set_names = {name.lower() for name in options}
    defaults = {name: value for name, value in _DEFAULTS.items() if name.lower() not in set_names}
    return {
        **defaults,
        **options,
        "kafka.bootstrap.servers": bootstrap_servers,
        "includeHeaders": str(headers).lower(),
    }


def without_stream_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options without those that Spark supports only for streams."""
    return {name: value for name, value in options.items() if name.lower() not in _STREAM_ONLY}
