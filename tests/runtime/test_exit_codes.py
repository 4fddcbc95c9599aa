"""Errors as exit codes, and as one paragraph on standard error."""

from __future__ import annotations

import pytest

from tidegate.errors import (
    AccountingError,
    ArgumentError,
    CheckpointError,
    ConfigError,
    ConflictError,
    DeadLetterFloodError,
    DifferenceError,
    FencedError,
    LostCheckpointError,
    NotForgottenError,
    ReplayMismatchError,
    SetupError,
    SourceError,
    TidegateError,
    TopicError,
)
from tidegate.runtime.process.exit_codes import guarded
from tidegate.runtime.process.stop import Interrupted


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("x"), 2),
        (ArgumentError("x"), 2),
        (ConflictError("x"), 8),
        (SourceError("x"), 3),
        (DeadLetterFloodError("x"), 4),
        (ReplayMismatchError("x"), 5),
        (CheckpointError("x"), 5),
        (LostCheckpointError("x"), 5),
        (FencedError("x"), 9),
        (DifferenceError("x"), 10),
        (TopicError("x"), 11),
        (NotForgottenError("x"), 12),
        (AccountingError("x"), 6),
        (SetupError("x"), 7),
        (TidegateError("x"), 1),
        (ValueError("x"), 1),
        (KeyboardInterrupt(), 130),
        (Interrupted(2), 130),
        (Interrupted(15), 143),
    ],
)
def test_each_error_has_its_exit_code(error: BaseException, code: int) -> None:
    def fail() -> None:
        raise error

    assert guarded(fail) == code


def test_work_that_is_done_gives_zero() -> None:
    assert guarded(lambda: None) == 0


def test_an_error_is_told_in_one_paragraph_on_standard_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail() -> None:
        raise ConfigError("window.size is 3.", "a duration.", "window.size = '3 seconds'")

    guarded(fail)
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.splitlines() == [
        "ConfigError: window.size is 3.",
        "  allowed: a duration.",
        "  instead: window.size = '3 seconds'",
    ]


JAVA = """[STREAM_FAILED] Query [id = 1] terminated with exception: {message}
=== Streaming Query ===
\tat org.apache.spark.sql.Something.run(Something.scala:1)
Caused by: {message}
\tat java.base/java.lang.Thread.run(Thread.java:1)
"""


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (
            "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: This server does not "
            "host",
            3,
        ),
        ("Some data may have been lost because they are not available in Kafka any more", 3),
        ("No resolvable bootstrap urls given in bootstrap.servers", 3),
        ("[STREAMING_CHECKPOINT_MISSING_METADATA_FILE] no metadata", 5),
        ("[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] failed", 5),
        ("[STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY] no state/0", 5),
        ("java.lang.AssertionError: assertion failed", 5),
        ("assertion failed: There are [4] sources in the checkpoint offsets and now", 5),
        ("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: kafka.", 7),
        ("Failed to find data source: kafka. Please deploy the application as per", 7),
        ("java.io.IOException: No space left on device", 7),
        ("[CANNOT_WRITE_STATE_STORE] failed: No space left on device", 7),
        ("java.io.FileNotFoundException: /t/part-0.parquet (Read-only file system)", 7),
        ("java.io.FileNotFoundException: /t/part-0.parquet (Permission denied)", 7),
        ("[PARSE_SYNTAX_ERROR] Syntax error at or near", 2),
        ("something else", 1),
    ],
)
def test_what_spark_throws_becomes_one_of_ours_without_a_stack_trace(
    message: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise RuntimeError(JAVA.format(message=message))

    assert guarded(fail) == code
    told = capsys.readouterr().err
    assert message[:40] in told
    assert "\tat " not in told
    assert "Thread.java" not in told


def test_verbose_shows_the_whole_trace(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise RuntimeError(JAVA.format(message="something"))

    guarded(fail, verbose=True)
    assert "Thread.java" in capsys.readouterr().err
