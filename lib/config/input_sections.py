"""[input] and [registry]: topics, value formats, event time and the schema registry."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from ..columns import closest_name
from ..errors import ConfigError
from ..event_time.timestamps import TimeUnit
from ..formats import (
    Format,
    SchemaRegistry,
    avro_format,
    json_format,
    protobuf_format,
    with_schema_header,
)
from ..offsets import Offsets
from ..secrets import resolve_secrets
from ..sources import Input, KafkaSource
from ..sources.input import Watermarks
from ..sources.row_checks import OnError, Rule
from .config_types import (
    Duration,
    Names,
    NonNegativeDuration,
    OptionValue,
    Section,
    ZonedDatetime,
    config_errors,
    matching_arguments,
)
from .sections import BrokerSection


class RegistrySection(Section):
    """[registry]: the schema registry and its credentials, which are secret references.

    >>> RegistrySection(url="http://localhost:8081").attempts
    5
    """

    url: str = Field(description="base URL, with its path if it has one")
    user: OptionValue | None = Field(default=None, description="user of basic authentication")
    password: OptionValue | None = Field(
        default=None, description="password, as `env:NAME` or `file:PATH`"
    )
    token: OptionValue | None = Field(
        default=None, description="bearer token, as `env:NAME` or `file:PATH`"
    )
    certificates: str | None = Field(
        default=None, description="PEM file of the certificate authorities for https"
    )
    timeout: Duration = Field(default="10 seconds", description="timeout of one request")
    attempts: int = Field(default=5, gt=0, le=100, description="attempts per request")
    retry_delay: NonNegativeDuration = Field(
        default="500 milliseconds",
        description="delay before the second attempt; each further delay is twice as long",
    )

    def to_registry(self) -> SchemaRegistry:
        """Return the registry, with its secrets resolved."""
        credentials = {key: getattr(self, key) for key in ("user", "password", "token")}
        references = {key: text for key, text in credentials.items() if text}
        secrets = resolve_secrets(references, "registry")
        with config_errors("registry"):
            return SchemaRegistry(**(dict(self) | secrets))


class RuleSection(Section):
    """One of [[input.rules]]: an expectation on the rows of an input; see `Rule`.

    >>> RuleSection(name="positive", condition="value > 0").to_rule().on_error
    'dead_letter'
    """

    name: str = Field(description="name in counts, metrics and dead letters")
    condition: str = Field(description="SQL condition that a row must satisfy")
    on_error: OnError = Field(
        default="dead_letter", description="action for a row that violates the rule"
    )

    def to_rule(self) -> Rule:
        """Return the rule."""
        with config_errors():
            return Rule(self.name, self.condition, on_error=self.on_error)


_DDL_TOKEN = re.compile(
    r"""`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[<>(),]|[^\s<>(),`'"]+"""
)


def declared_fields(schema: str) -> list[str] | None:
    """Return the top-level names of a schema in DDL, without Spark; None if Spark has to parse it.

    >>> declared_fields("page STRING, at struct<day: date, hour: int> COMMENT 'a, b', `the ms` INT")
    ['page', 'at', 'the ms']
    """
    names: list[str] = []
    depth, expects_name = 0, True
    for token in _DDL_TOKEN.findall(schema):
        if expects_name and token in ("<", ">", "(", ")", ","):
            return None
        if expects_name:
            is_quoted = token.startswith("`")
            names.append(token[1:-1].replace("``", "`") if is_quoted else token.partition(":")[0])
            expects_name = False
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(token, 0)
        expects_name = expects_name or (token == "," and depth == 0)
    is_one_type = re.match(r"\s*struct\s*<", schema, re.IGNORECASE)
    return None if expects_name or depth or is_one_type else names


def require_declared(section: FormatSection, names: Sequence[str], key: str) -> None:
    """Raise ConfigError, before Spark starts, for columns that the schema of an input lacks."""
    fields = declared_fields(section.event_schema)
    unknown = [name for name in names if fields is not None and name not in fields]
    if unknown:
        raise ConfigError(
            f"invalid {key}: unknown columns {', '.join(unknown)}",
            f"fields of the input: {', '.join(fields or ())}",
            closest_name(unknown[0], fields or ()),
        )


class FormatSection(Section):
    """The format of an input's values, and the fields to read."""

    event_schema: str = Field(alias="schema", description="fields to read and their types, as DDL")
    format: Literal["json", "avro", "protobuf"] = Field(
        default="json", description="format of the values"
    )
    schema_header: bool = Field(
        default=False,
        description="whether values start with the five-byte header of a schema registry",
    )
    writer: str | None = Field(
        default=None, description="file of the Avro schema of values without a header"
    )
    descriptor: str | None = Field(
        default=None, description="file of a Protobuf descriptor set, as protoc writes it"
    )
    message: str | None = Field(default=None, description="full name of the Protobuf message")

    @model_validator(mode="after")
    def _require_format_options(self) -> FormatSection:
        if self.format == "avro" and self.schema_header == (self.writer is not None):
            raise ConfigError(
                f"invalid format: 'avro' with schema_header = {str(self.schema_header).lower()} "
                f"and writer = {self.writer!r}",
                "schema_header = true and a [registry], or a writer for values without a header",
                'writer = "click.avsc"',
            )
        if self.format == "protobuf" and not (self.descriptor and self.message):
            raise ConfigError(
                f"invalid format: 'protobuf' with descriptor = {self.descriptor!r} and "
                f"message = {self.message!r}",
                "a descriptor set and the name of a message in it",
                'descriptor = "clicks.desc", message = "shop.Click"',
            )
        formats = {"writer": "avro", "descriptor": "protobuf", "message": "protobuf"}
        for key, format_name in formats.items():
            value = getattr(self, key)
            if value is not None and self.format != format_name:
                raise ConfigError(
                    f"invalid {key}: {value!r} with format = {self.format!r}",
                    f"format = {format_name!r}",
                    f'format = "{format_name}"',
                )
        return self

    def to_format(self, registry: RegistrySection | None) -> Format:
        """Return the format of the values."""
        if self.format == "json":
            json = json_format(self.event_schema)
            return with_schema_header(json) if self.schema_header else json
        if self.schema_header and registry is None:
            raise ConfigError(
                f"missing section: [registry], for schema_header = true and format {self.format!r}",
                "the URL of the schema registry",
                "--set registry.url=http://localhost:8081",
            )
        schema_registry = registry.to_registry() if registry and self.schema_header else None
        if self.format == "protobuf":
            descriptor, message = Path(self.descriptor or ""), self.message or ""
            return protobuf_format(
                descriptor, message, columns=self.event_schema, registry=schema_registry
            )
        writer = None if self.writer is None else Path(self.writer)
        return avro_format(self.event_schema, writer=writer, registry=schema_registry)


class InputSection(FormatSection):
    """An input of a job: topics, the schema of their values (DDL), and the event time.

    >>> section = InputSection(
    ...     topics="clicks", schema="event_time timestamp", watermark_delay="10 seconds"
    ... )
    >>> section.to_input(BrokerSection()).source.topics
    ('clicks',)
    """

    topics: Names = Field(
        default=[], description="topics; exactly one of topics, pattern, partitions is required"
    )
    pattern: str | None = Field(
        default=None, description="regular expression of the topics' names: `clicks-.*`"
    )
    partitions: dict[str, list[int]] | None = Field(
        default=None, description="single partitions of topics: `{ clicks = [0, 1] }`"
    )
    time: str = Field(default="event_time", description="the event-time field")
    time_unit: TimeUnit | None = Field(
        default=None, description="unit of an integer event time since 1970"
    )
    watermark_delay: NonNegativeDuration = Field(
        description="how far behind the latest event time a row may be"
    )
    start: Literal["earliest", "latest"] | ZonedDatetime | Offsets = Field(
        default="earliest",
        description="where a new checkpoint starts: `2026-03-02T09:00:00Z`, "
        "`{ clicks = { 0 = 17, 1 = 0 } }`",
    )
    max_records_per_batch: int | None = Field(
        default=1_000_000, gt=0, description="maximum number of records per micro-batch"
    )
    future_tolerance: Duration | None = Field(
        default="1 hour",
        description="how far an event time may be ahead of the record's timestamp",
    )
    on_future: Literal["reject", "clamp"] = Field(
        default="reject",
        description="a record beyond `future_tolerance` is a dead letter, or its event time is "
        "set to the limit",
    )
    watermarks: Watermarks = Field(
        default="global",
        description="one watermark; or the minimum over the partitions; or deterministic "
        "lateness: [Late data](../concepts/late-data.md)",
    )
    idle_timeout: Duration | None = Field(
        default=None,
        description="after this time without records, the watermark follows the clock; continuous "
        "jobs only",
    )
    on_data_loss: Literal["stop", "record"] = Field(
        default="stop",
        description="stop if the topic has deleted unread records; or write their offsets to the "
        "gap table and continue",
    )
    on_error: OnError = Field(
        default="dead_letter", description="action for a record that cannot be used"
    )
    rules: list[RuleSection] = Field(
        default=[],
        description="conditions that each row must satisfy: "
        "[Dead letters and rules](../guides/dead-letters.md)",
    )
    max_value_bytes: int = Field(
        default=65_536, gt=0, description="maximum number of bytes of a value in a dead letter"
    )

    @model_validator(mode="after")
    def _require_valid_topics(self) -> InputSection:
        topic_keys = [key for key in ("topics", "pattern", "partitions") if getattr(self, key)]
        if len(topic_keys) != 1:
            raise ConfigError(
                f"invalid topic choice: {' and '.join(topic_keys) or 'none'}",
                "exactly one of topics, pattern, partitions",
                'topics = ["clicks"]',
            )
        if self.watermarks != "global" and self.pattern:
            raise ConfigError(
                f"invalid watermarks: {self.watermarks!r} with pattern",
                "'global', or topics or partitions instead of pattern",
            )
        return self

    def to_input(
        self,
        broker: BrokerSection,
        registry: RegistrySection | None = None,
        *,
        format: Format | None = None,
        kafka_columns: Sequence[str] = (),
    ) -> Input:
        """Return the input, with the Kafka client's secrets resolved.

        registry: the schema registry of values with a header.
        format: replaces the section's format; its event time is the column `event_time`.
        kafka_columns: Kafka columns to add to the rows; see `Input`.
        """
        if format is not None and self.time_unit is not None:
            raise ConfigError(
                f"invalid time_unit: {self.time_unit!r} in a section of changes",
                "a timestamp as event time, without time_unit",
            )
        if format is not None and (self.format in ("avro", "protobuf") or self.schema_header):
            raise ConfigError(
                f"invalid format: {self.format!r} in a section of changes",
                "JSON without a schema header",
            )
        source = KafkaSource(
            bootstrap_servers=broker.bootstrap_servers,
            options=resolve_secrets(broker.options),
            **matching_arguments(self, KafkaSource),
        )
        arguments = matching_arguments(self, Input) | {
            "kafka_columns": kafka_columns,
            "rules": [rule.to_rule() for rule in self.rules],
        }
        if format is None:
            arguments["format"] = self.to_format(registry)
        else:
            arguments |= {"format": format, "time": "event_time", "time_unit": None}
        return Input(source, **arguments)


class FilteredInputSection(InputSection):
    """An input of a job whose rows can be filtered by an SQL condition."""

    where: str | None = Field(
        default=None,
        description="SQL condition on the input; other rows are filtered out",
    )
