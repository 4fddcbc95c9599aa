"""Translation of Spark's exceptions to the library's errors, with cause, fix and disk space."""

from __future__ import annotations

import re
import shutil
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from ..errors import (
    CheckpointError,
    ColumnError,
    ConfigError,
    ConflictError,
    DataError,
    RegistryError,
    RunTimeError,
    SetupError,
    SourceError,
    TidegateError,
)
from ..jvm import JVM_ENDED, LOST_ROWS_CONDITION, cause_texts, condition_names, error_text
from ..paths import local_path
from .jars import SPARK_SUBMIT_HINT

_TOPIC_UNREADABLE = "the topic cannot be read"
_DISK_FULL = "a disk is full"
_FOLDER_UNWRITABLE = "a folder is not writable"
_RECORDS_LOST = "the topic has lost unread records"
_FREE_SPACE = "bytes are free under"
_PLAN_CONFLICT = "another driver has planned the same batch of the checkpoint"
_TRACE_HINT = (
    "correct what the cause names; --verbose of a command, or the level DEBUG of the logger "
    "'tidegate' in a script, shows the stack trace"
)
_CHECKPOINT_HINT = "restore it from a copy, or start with a new checkpoint and new tables"


@dataclass(frozen=True)
class _Rule:
    """A kind of failure, detected by Spark's error conditions or by the text of the message."""

    error_type: type[TidegateError]
    description: str
    hint: str
    conditions: tuple[str, ...] = ()
    text_pattern: str = r"(?!)"

    def matches(self, error_conditions: list[str], text: str) -> bool:
        has_condition = any(name.startswith(self.conditions) for name in error_conditions)
        return has_condition or re.search(self.text_pattern, text) is not None


# Kafka's client, Hadoop, Java's file system and missing data sources have no error conditions.
# Disk failures come first, because they cause many other failures.
_RULES = (
    _Rule(
        SetupError,
        _DISK_FULL,
        "free disk space, then restart the job or the command; it resumes",
        text_pattern=r"No space left on device|DiskSpace|Disk quota exceeded",
    ),
    _Rule(
        SetupError,
        _FOLDER_UNWRITABLE,
        "grant write access, then restart the job or the command; it resumes",
        conditions=("DELTA_CANNOT_CREATE_LOG_PATH",),
        text_pattern=r"Read-only file system|Permission denied|AccessControlException"
        r"|Mkdirs failed",
    ),
    _Rule(
        SetupError,
        "Spark ran out of memory",
        "raise spark.executor.memory, or spark.driver.memory for a local master, or read fewer "
        "records per batch (max_records_per_batch), then restart the job; it resumes",
        conditions=("UNABLE_TO_ACQUIRE_MEMORY",),
        # A JVM without memory ends with 52; the operating system kills it with 137.
        text_pattern=r"java\.lang\.OutOfMemoryError|exceeding (physical |virtual )?memory limits"
        rf"|(ExecutorLostFailure|{JVM_ENDED})[^\n]*\b(code|status:?) (52|137)\b",
    ),
    _Rule(
        RunTimeError,
        "Spark has ended during the run",
        "find the reason at the end of its log, then restart the job; it resumes",
        text_pattern=JVM_ENDED,
    ),
    _Rule(
        SetupError,
        "cached rows of a batch were lost with their executors",
        "find out why executors are lost, then restart the job; it resumes",
        conditions=(LOST_ROWS_CONDITION,),
    ),
    _Rule(
        SourceError,
        _TOPIC_UNREADABLE,
        "check that the input's topics exist and the user may read them",
        text_pattern=r"UnknownTopicOrPartition|does not host this topic-partition"
        r"|TopicAuthorization|InvalidTopic",
    ),
    _Rule(
        SourceError,
        _RECORDS_LOST,
        "increase the topic's retention; read it with a new start into new tables",
        conditions=("KAFKA_DATA_LOSS",),
        text_pattern=r"OffsetOutOfRange|data may have been (lost|missed)",
    ),
    _Rule(
        SourceError,
        "the Kafka broker does not respond",
        "check the bootstrap servers and the options of the Kafka client",
        text_pattern=r"No resolvable bootstrap urls|Failed to construct kafka (consumer|admin)"
        r"|UnknownHost|org\.apache\.kafka\.common\.errors\.TimeoutException"
        r"|Timed out waiting for a node|SaslAuthentication",
    ),
    _Rule(
        CheckpointError,
        "the checkpoint has another number of streams",
        "use the inputs, watermarks= and idle_timeout= of the checkpoint's first start",
        text_pattern=r"There are \[\d+\] sources in the checkpoint",
    ),
    _Rule(
        ConflictError,
        "another thread of this process has started the same query",
        "start the job again in a new process: Spark does not start the query again in this one",
        conditions=("CONCURRENT_QUERY",),
    ),
    _Rule(
        ConflictError,
        _PLAN_CONFLICT,
        "run one driver, and start it again; if no other driver runs, tidegate doctor JOB names "
        "checksum files that a killed driver has left",
        conditions=("CONCURRENT_STREAM_LOG_UPDATE",),
        text_pattern="concurrently using",
    ),
    _Rule(
        CheckpointError,
        "the checkpoint cannot be used",
        _CHECKPOINT_HINT,
        conditions=(
            "CANNOT_LOAD_STATE_STORE",
            "FAILED_TO_READ_STREAMING",
            "INVALID_STREAMING_",
            "STATE_STORE_",
            "STREAMING_CHECKPOINT",
            "STREAMING_STATEFUL_OPERATOR",
        ),
        text_pattern=r"Error reading (delta|snapshot)|Malformed log file"
        r"|Incomplete log file|cannot be parsed|assertion failed",
    ),
    _Rule(
        DataError,
        "a file of a table is damaged or missing",
        "restore the file from a copy, or the table by RESTORE TABLE, then start the job again",
        conditions=("CANNOT_READ_FILE_FOOTER", "FAILED_READ_FILE.FILE_NOT_EXIST"),
        text_pattern=r"is not a Parquet file|[Cc]ould not read footer|fs\.ChecksumException",
    ),
    _Rule(
        DataError,
        "a row of the batch cannot be computed or stored",
        "correct the expression, or the constraint of the table, that the cause names, then start "
        "the job again, which runs the batch again; if the checkpoint refuses the correction, run "
        "tidegate replay JOB",
        conditions=(
            "ARITHMETIC_OVERFLOW",
            "BINARY_ARITHMETIC_OVERFLOW",
            "CANNOT_PARSE_",
            "CAST_INVALID_INPUT",
            "CAST_OVERFLOW",
            "DATETIME_OVERFLOW",
            "DELTA_EXCEED_CHAR_VARCHAR_LIMIT",
            "DELTA_NOT_NULL_CONSTRAINT_VIOLATED",
            "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES",
            "DIVIDE_BY_ZERO",
            "INVALID_ARRAY_INDEX",
            "NOT_NULL_ASSERT_VIOLATION",
            "NUMERIC_OUT_OF_SUPPORTED_RANGE",
            "NUMERIC_VALUE_OUT_OF_RANGE",
            "REMAINDER_BY_ZERO",
            "USER_RAISED_EXCEPTION",
        ),
    ),
    _Rule(
        SetupError,
        "Spark runs without the jars of Delta or Kafka",
        f"tidegate.spark_session(...) adds them; {SPARK_SUBMIT_HINT}",
        conditions=("CATALOG_PLUGIN_CLASS_NOT_FOUND", "DELTA_CONFIGURE_SPARK_SESSION"),
        text_pattern=r"(Failed to find (the )?data source|DATA_SOURCE_NOT_FOUND)[^\n]*(kafka|delta)"
        r"|ClassNotFoundException: (io\.delta|org\.apache\.spark\.sql\.(kafka|delta))",
    ),
    _Rule(
        ColumnError,
        "a column does not exist",
        "use a column of the input's schema",
        conditions=("UNRESOLVED_COLUMN",),
    ),
    _Rule(
        ConfigError,
        "invalid schema or expression",
        'write a schema as "page string, ms double"',
        conditions=("PARSE_SYNTAX_ERROR", "UNSUPPORTED_DATATYPE"),
    ),
)
_TRACE_LINE = re.compile(
    r"^\s*(at [\w.$]+|\.\.\. \d+ more|File \"|Traceback|JVM stacktrace|===|\^)"
)
_TRACEBACK = "Traceback (most recent call last):"
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (.+)')
_LIBRARY_FOLDERS = (str(Path(__file__).parents[1].resolve()), str(Path(__file__).parents[1]))
# Spark passes exceptions of Python tasks as text only.
_TRUNCATION = re.compile(r"Partition (\S+?)(?:'s)? offset was changed from (\d+) to (\d+)")
_REGISTRY_ERROR = re.compile(
    r"tidegate\.errors\.RegistryError: (.*)(?:\n +cause: (.*))?(?:\n +fix: (.*))?"
)
_PY4J_PREFIX = re.compile(r"^An error occurred while calling \S+ : ")
_EXCEPTION_CLASSES = re.compile(r"^((?:[a-z][\w$]*\.)+[A-Z][\w$]*(?:Exception|Error): )+")
_REFUSED_ADVICE = re.compile(
    r' ?If necessary,? set "?spark\.sql\.ansi\.enabled"? to "?false"?[^.]*\.(?= |$)'
)
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]")


def translate_error(error: BaseException) -> TidegateError:
    """Return the library's error for an exception of Spark, with its message and no stack trace.

    >>> print(translate_error(Exception("No space left on device")))
    a disk is full
      cause: No space left on device
      fix: free disk space, then restart the job or the command; it resumes
    """
    errors = list(_error_chain(error))
    text = "\n".join(map(_error_text, errors))
    conditions = [name for step in errors for name in condition_names(step)]
    # Spark passes failures inside a batch as text only, which starts with the condition.
    conditions += _CONDITION.findall(text)
    sentence = next((line for line in text.splitlines() if line.startswith(JVM_ENDED)), None)
    sentence = sentence or _short_message(error)
    registry = _REGISTRY_ERROR.search(text)
    if registry is not None:
        return RegistryError(*map(str.strip, registry.groups(default="")))
    truncation = _TRUNCATION.search(f"{text}\n{cause_texts(error)}")
    if truncation is not None:
        partition, read_offset, end = truncation.groups()
        return truncated_log_error(partition, int(read_offset), int(end))
    for rule in _RULES:
        if rule.matches(conditions, text):
            if issubclass(rule.error_type, RunTimeError):
                return rule.error_type(rule.description, sentence, rule.hint)
            return rule.error_type(f"{rule.description}: {sentence}", "", rule.hint)
    sentence = _python_failure(error, text) or sentence
    return RunTimeError("the job failed", sentence, _TRACE_HINT)


def truncated_log_error(partition: str, read_offset: int, end: int) -> SourceError:
    """Return the error for a partition whose log ends before the offset up to which it was read."""
    return SourceError(
        f"the log of {partition} was truncated",
        f"it has been read up to offset {read_offset}, but ends at {end} now, so its next records "
        "have offsets that others had.",
        "read the topic with a new checkpoint and new tables.",
    )


def is_topic_error(error: TidegateError) -> bool:
    """Return whether a topic does not exist or is not readable."""
    return isinstance(error, SourceError) and error.problem.startswith(_TOPIC_UNREADABLE)


def is_disk_error(error: TidegateError) -> TypeGuard[SetupError]:
    """Return whether a disk is full or a folder is not writable."""
    causes = (_DISK_FULL, _FOLDER_UNWRITABLE)
    return isinstance(error, SetupError) and error.problem.startswith(causes)


def raise_disk_error(error: Exception) -> None:
    """Raise the library's error of an exception that a full or read-only disk has caused."""
    failure = translate_error(error)
    if is_disk_error(failure):
        raise failure from error


def is_data_loss_error(error: TidegateError) -> bool:
    """Return whether a topic has lost unread records."""
    return isinstance(error, SourceError) and error.problem.startswith(_RECORDS_LOST)


def is_plan_conflict(error: TidegateError) -> bool:
    """Return whether another driver of the checkpoint has planned the same batch."""
    return isinstance(error, ConflictError) and error.problem == _PLAN_CONFLICT


def _error_text(error: BaseException) -> str:
    return error_text(error) if isinstance(error, Exception) else str(error)


def _error_chain(error: BaseException) -> Iterator[BaseException]:
    seen: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in seen:
        yield current
        seen.append(current)
        current = current.__cause__ or current.__context__


def _short_message(error: BaseException) -> str:
    all_lines = _error_text(error).splitlines()
    lines = [line for line in all_lines if line.strip() and not _TRACE_LINE.match(line)]
    text = " ".join(" ".join(lines[:3]).split())
    # py4j adds a line before the JVM's message, which starts with the names of its classes.
    text = _REFUSED_ADVICE.sub("", _PY4J_PREFIX.sub("", text))
    return _EXCEPTION_CLASSES.sub("", text)[:600] or type(error).__name__


def _python_failure(error: BaseException, text: str) -> str | None:
    """Return an exception of a Python function, with its place outside of the library.

    text: Spark's message, which has the trace of a function that failed in a Python worker.
    """
    if not isinstance(error, Py4JError | PySparkException):
        text = "".join(traceback.format_exception(error, chain=False))
    _, marker, trace = text.rpartition(_TRACEBACK)
    lines = [line for line in trace.splitlines() if line and not line[0].isspace()]
    if not marker or not lines:
        return None
    places = [
        f" ({file}, line {line}, in {function})"
        for file, line, function in _FRAME.findall(trace)
        if not file.startswith(_LIBRARY_FOLDERS) and "site-packages" not in file
    ]
    return f"{lines[0]}{places[-1] if places else ''}"


def query_error(failure: Exception | None, query_exception: Exception) -> TidegateError:
    """Return the library's error of a failed batch, or else of the query's exception."""
    if isinstance(failure, TidegateError):
        return failure
    return translate_error(failure or query_exception)


def describe_free_space(locations: Iterable[str]) -> str:
    """Return the free bytes of each local disk that holds one of the locations, fullest first.

    Locations on the same disk are listed once.
    """
    free_by_device: dict[int, tuple[int, Path]] = {}
    for location in locations:
        folder = nearest_existing_folder(location)
        if folder is not None:
            free = shutil.disk_usage(folder).free
            free_by_device.setdefault(folder.stat().st_dev, (free, folder))
    disks = sorted(free_by_device.values())
    return "; ".join(f"{free:,} {_FREE_SPACE} {folder}" for free, folder in disks)


@contextmanager
def explain_disk_errors(locations: Iterable[str]) -> Iterator[None]:
    """Add the free space of these locations to errors of a full or read-only disk.

    Raises SetupError for these errors; any other error passes unchanged, and so does one that has
    the free space already: that of a job which an operation runs.
    """
    try:
        yield
    except (SetupError, OSError, Py4JError, PySparkException) as error:
        failure = error if isinstance(error, SetupError) else translate_error(error)
        if not is_disk_error(failure) or _FREE_SPACE in failure.problem:
            raise
        description = f"{failure.problem} ({describe_free_space(locations)})"
        cause = error.__cause__ or error
        raise SetupError(description, failure.detail, failure.remedy) from cause


def nearest_existing_folder(location: str) -> Path | None:
    """Return a local folder, or its nearest ancestor that exists; None for a remote location."""
    folder = local_path(location)
    while folder is not None and not folder.exists():
        folder = folder.parent
    return folder
