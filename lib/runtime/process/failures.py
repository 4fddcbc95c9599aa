"""What Spark throws, said in the library's own errors: which part failed, and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeGuard

from ...errors import (
    CheckpointError,
    ColumnError,
    ConfigError,
    RegistryError,
    SetupError,
    SourceError,
    TidegateError,
)
from ...jvm import LOST_ROWS, conditions, message
from .class_path import WITH_SUBMIT

_TOPIC = "the topic cannot be read"
_FULL = "a disk is full"
_CLOSED = "a folder cannot be written"
_LOST = "records that were not yet read are gone from the topic"
_CHECKPOINT_HINT = "restore it from a copy, or begin anew with a new checkpoint and new tables."


@dataclass(frozen=True)
class _Rule:
    """One kind of failure: by Spark's conditions, and by texts where Spark has none."""

    kind: type[TidegateError]
    what: str
    hint: str
    conditions: tuple[str, ...] = ()
    text: str = r"(?!)"

    def fits(self, named: list[str], text: str) -> bool:
        """Return whether the rule is of an error with these conditions and this text."""
        return any(name.startswith(self.conditions) for name in named) or bool(
            re.search(self.text, text)
        )


# Kafka's client, Hadoop and Java's file system have no conditions, and Spark has none for a data
# source that is missing: these are told by their texts.
# A disk comes first: what cannot be written makes many another part fail.
_RULES = (
    _Rule(
        SetupError,
        _FULL,
        "make room, then start the job again: it goes on where it was.",
        text=r"No space left on device|DiskSpace|Disk quota exceeded",
    ),
    _Rule(
        SetupError,
        _CLOSED,
        "let the job write there, then start it again: it goes on where it was.",
        text=r"Read-only file system|Permission denied|AccessControlException|Mkdirs failed",
    ),
    _Rule(
        SetupError,
        "rows that a batch kept were lost with their executors",
        "see why executors are lost, then start the job again: it goes on where it was.",
        conditions=(LOST_ROWS,),
    ),
    _Rule(
        SourceError,
        _TOPIC,
        "check the input's topics, and that they exist and may be read.",
        text=r"UnknownTopicOrPartition|does not host this topic-partition|TopicAuthorization"
        r"|InvalidTopic",
    ),
    _Rule(
        SourceError,
        _LOST,
        "see the topic's retention; read it again from a new start into new tables.",
        conditions=("KAFKA_DATA_LOSS",),
        text=r"OffsetOutOfRange|data may have been (lost|missed)",
    ),
    _Rule(
        SourceError,
        "the Kafka broker does not answer",
        "check the broker's address and the options of Kafka's client.",
        text=r"No resolvable bootstrap urls|Failed to construct kafka (consumer|admin)|UnknownHost"
        r"|org\.apache\.kafka\.common\.errors\.TimeoutException|Timed out waiting for a node"
        r"|SaslAuthentication",
    ),
    _Rule(
        CheckpointError,
        "the checkpoint is of another number of streams",
        "the inputs and the number of watermarks that it began with; where partitions were added "
        "to a topic with a watermark each, watermarks= the number that there were.",
        text=r"There are \[\d+\] sources in the checkpoint",
    ),
    _Rule(
        CheckpointError,
        "the checkpoint cannot be used",
        _CHECKPOINT_HINT,
        conditions=(
            "CANNOT_LOAD_STATE_STORE",
            "CONCURRENT_STREAM_LOG_UPDATE",
            "FAILED_TO_READ_STREAMING",
            "INVALID_STREAMING_",
            "STATE_STORE_",
            "STREAMING_CHECKPOINT",
            "STREAMING_STATEFUL_OPERATOR",
        ),
        text=r"concurrently using|Error reading (delta|snapshot)|Malformed log file"
        r"|Incomplete log file|cannot be parsed|assertion failed",
    ),
    _Rule(
        SetupError,
        "Spark runs without the jars of Delta or Kafka",
        f"spark_session(...) of tidegate.runtime brings them; {WITH_SUBMIT}",
        conditions=("CATALOG_PLUGIN_CLASS_NOT_FOUND", "DELTA_CONFIGURE_SPARK_SESSION"),
        text=r"(Failed to find (the )?data source|DATA_SOURCE_NOT_FOUND)[^\n]*(kafka|delta)"
        r"|ClassNotFoundException: (io\.delta|org\.apache\.spark\.sql\.(kafka|delta))",
    ),
    _Rule(
        ColumnError,
        "a column is not there",
        "see the names of the input's schema.",
        conditions=("UNRESOLVED_COLUMN",),
    ),
    _Rule(
        ConfigError,
        "a schema or an expression cannot be read",
        'a schema is written as "page string, ms double".',
        conditions=("PARSE_SYNTAX_ERROR", "UNSUPPORTED_DATATYPE"),
    ),
)
_TRACE = re.compile(r"^\s*(at [\w.$]+|\.\.\. \d+ more|File \"|Traceback|JVM stacktrace|===|\^)")
# Spark hands on what a task of Python raised as text alone.
_REGISTRY = re.compile(
    r"tidegate\.errors\.RegistryError: (.*)(?:\n +allowed: (.*))?(?:\n +instead: (.*))?"
)
_CALLED = re.compile(r"^An error occurred while calling \S+ : ")
_CLASSES = re.compile(r"^((?:[a-z][\w$]*\.)+[A-Z][\w$]*(?:Exception|Error): )+")
_NAMED = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]")


def plain(error: BaseException) -> TidegateError:
    """Return an error of the library for one of Spark's.

    It has the sentence that matters, and no stack trace.
    """
    chain = list(_chain(error))
    text = "\n".join(map(_text, chain))
    # Of a failure inside a batch Spark hands on the text alone, which begins with the condition.
    named = [name for step in chain for name in conditions(step)] + _NAMED.findall(text)
    sentence = _sentence(error)
    registry = _REGISTRY.search(text)
    if registry is not None:
        return RegistryError(*map(str.strip, registry.groups(default="")))
    for rule in _RULES:
        if rule.fits(named, text):
            return rule.kind(f"{rule.what}: {sentence}", hint=rule.hint)
    return TidegateError(f"the job failed: {sentence}", hint="--verbose shows the whole trace.")


def is_of_a_topic(error: TidegateError) -> bool:
    """Return whether a topic is missing, or may not be read."""
    return isinstance(error, SourceError) and error.given.startswith(_TOPIC)


def is_of_a_disk(error: TidegateError) -> TypeGuard[SetupError]:
    """Return whether there was no room, or no leave, to write."""
    return isinstance(error, SetupError) and error.given.startswith((_FULL, _CLOSED))


def is_of_lost_records(error: TidegateError) -> bool:
    """Return whether a topic has lost records before they were read."""
    return isinstance(error, SourceError) and error.given.startswith(_LOST)


def _text(error: BaseException) -> str:
    return message(error) if isinstance(error, Exception) else str(error)


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: list[BaseException] = []
    step: BaseException | None = error
    while step is not None and step not in seen:
        yield step
        seen.append(step)
        step = step.__cause__ or step.__context__


def _sentence(error: BaseException) -> str:
    lines = [
        line.strip()
        for line in _text(error).splitlines()
        if line.strip() and not _TRACE.match(line)
    ]
    text = " ".join(lines[:3])
    # py4j puts a line of its own before what the JVM said, which begins with its classes' names.
    text = _CALLED.sub("", re.sub(r"\s+", " ", text))
    return _CLASSES.sub("", text)[:600] or type(error).__name__


def cause(failure: Exception | None, told: Exception) -> TidegateError:
    """Return the library's error for a failure inside a batch.

    Without one it is made of what Spark told of the query.
    """
    return failure if isinstance(failure, TidegateError) else plain(failure or told)
