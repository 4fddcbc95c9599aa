"""What Spark throws, said in the library's own errors: which part failed, and what to do."""

from __future__ import annotations

import re

from ...errors import CheckpointError, ConfigError, SetupError, SourceError, TidegateError
from ...jvm import message

_RULES: tuple[tuple[str, type[TidegateError], str, str], ...] = (
    (
        r"UnknownTopicOrPartition|does not host this "
        r"topic-partition|TopicAuthorization|InvalidTopic",
        SourceError,
        "the topic cannot be read",
        "check kafka.topics, and that the topic exists and may be read.",
    ),
    (
        r"OffsetOutOfRange|data may have been (lost|missed)|KAFKA_DATA_LOSS",
        SourceError,
        "records that were not yet read are gone from the topic",
        "see the topic's retention; read it again from a new start into new tables.",
    ),
    (
        r"No resolvable bootstrap urls|Failed to construct kafka (consumer|admin)|UnknownHost|"
        r"org\.apache\.kafka\.common\.errors\.TimeoutException|Timed out waiting for a node|SaslAuthentication",
        SourceError,
        "the Kafka broker does not answer",
        "check kafka.servers and kafka.options.",
    ),
    (
        r"CANNOT_LOAD_STATE_STORE|STREAMING_CHECKPOINT|STATE_STORE_|concurrently using|Error "
        r"reading (delta|snapshot)|"
        r"Malformed log file|Incomplete log file|FAILED_TO_READ_STREAMING|cannot be "
        r"parsed|STATE_SCHEMA",
        CheckpointError,
        "the checkpoint cannot be used",
        "restore it from a copy, or begin anew with a new checkpoint and new tables.",
    ),
    (
        r"(Failed to find the data source|DATA_SOURCE_NOT_FOUND)[^\n]*(kafka|delta)|CATALOG_PLUGIN_CLASS_NOT_FOUND|"
        r"ClassNotFoundException: (io\.delta|org\.apache\.spark\.sql\.(kafka|delta))|DELTA_CONFIGURE_SPARK_SESSION",
        SetupError,
        "Spark runs without the jars of Delta or Kafka",
        "spark-submit --properties-file conf/spark-defaults.conf --jars '.jars/spark/*.jar' ...",
    ),
    (
        r"PARSE_SYNTAX_ERROR|UNSUPPORTED_DATATYPE",
        ConfigError,
        "a schema or an expression cannot be read",
        'a schema is written as input.schema = "page string, ms double".',
    ),
    (
        r"No space left on device|DiskSpace",
        SetupError,
        "a disk is full",
        "make room, then start the job again.",
    ),
)
_TRACE = re.compile(r"^\s*(at [\w.$]+|\.\.\. \d+ more|File \"|Traceback|JVM stacktrace|===|\^)")


def plain(error: BaseException) -> TidegateError:
    """Return an error of the library for one of Spark's, with the sentence that matters and no
    stack trace."""
    text = "\n".join(map(_text, _chain(error)))
    sentence = _sentence(error)
    for pattern, kind, what, hint in _RULES:
        if re.search(pattern, text):
            return kind(f"{what}: {sentence}", hint=hint)
    return TidegateError(f"the job failed: {sentence}", hint="--verbose shows the whole trace.")


def _text(error: BaseException) -> str:
    return message(error) if isinstance(error, Exception) else str(error)


def _chain(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    step: BaseException | None = error
    while step is not None and step not in found:
        found.append(step)
        step = step.__cause__ or step.__context__
    return found


def _sentence(error: BaseException) -> str:
    lines = [
        line.strip()
        for line in _text(error).splitlines()
        if line.strip() and not _TRACE.match(line)
    ]
    return re.sub(r"\s+", " ", " ".join(lines[:3]))[:600] or type(error).__name__
