"""Errors become exit codes, and one paragraph on standard error."""

from __future__ import annotations

import re

import pytest

from tidegate.errors import (
    AccountingError,
    ArgumentError,
    CheckpointError,
    ComparisonError,
    ConfigError,
    ConflictError,
    DataError,
    DeadLetterLimitError,
    ErasureIncompleteError,
    FencedError,
    LostCheckpointError,
    SetupError,
    SourceError,
    TableMismatchError,
    TidegateError,
    TopicError,
)
from tidegate.process.exit_codes import run_with_exit_code
from tidegate.process.shutdown import ForcedStop


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("x"), 2),
        (ArgumentError("x"), 2),
        (ConflictError("x"), 8),
        (SourceError("x"), 3),
        (DeadLetterLimitError("x"), 4),
        (TableMismatchError("x"), 5),
        (CheckpointError("x"), 5),
        (LostCheckpointError("x"), 5),
        (FencedError("x"), 9),
        (ComparisonError("x"), 10),
        (TopicError("x"), 11),
        (ErasureIncompleteError("x"), 12),
        (AccountingError("x"), 6),
        (DataError("x"), 13),
        (SetupError("x"), 7),
        (TidegateError("x"), 1),
        (ValueError("x"), 1),
        (KeyboardInterrupt(), 130),
        (ForcedStop(2), 130),
        (ForcedStop(15), 143),
    ],
)
def test_each_error_has_its_exit_code(error: BaseException, code: int) -> None:
    def fail() -> None:
        raise error

    assert run_with_exit_code(fail) == code


def test_an_interrupt_has_a_message(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise KeyboardInterrupt

    run_with_exit_code(fail)
    assert capsys.readouterr().err == "KeyboardInterrupt: stopped by Ctrl-C\n"


def test_success_is_zero() -> None:
    assert run_with_exit_code(lambda: None) == 0


def test_an_error_is_one_paragraph_on_standard_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail() -> None:
        raise ConfigError("invalid window.size: 3", "a duration", "window.size = '3 seconds'")

    run_with_exit_code(fail)
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.splitlines() == [
        "ConfigError: invalid window.size: 3",
        "  expected: a duration",
        "  try: window.size = '3 seconds'",
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
def test_spark_errors_become_library_errors_without_a_stack_trace(
    message: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise RuntimeError(JAVA.format(message=message))

    assert run_with_exit_code(fail) == code
    output = capsys.readouterr().err
    assert message[:40] in output
    assert "\tat " not in output
    assert "Thread.java" not in output


def test_verbose_prints_the_complete_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise RuntimeError(JAVA.format(message="something"))

    run_with_exit_code(fail, verbose=True)
    assert "Thread.java" in capsys.readouterr().err


def test_an_error_of_a_function_is_named_with_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise KeyError("page")

    assert run_with_exit_code(fail) == 1
    output = capsys.readouterr().err
    assert re.search(
        r"cause: KeyError: 'page' \(.*test_exit_codes\.py, line \d+, in fail\)", output
    )


def test_verbose_also_prints_an_error_that_a_message_replaces(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail() -> None:
        try:
            raise ValueError("the origin")
        except ValueError:
            raise TidegateError("the job failed") from None

    run_with_exit_code(fail)
    assert "the origin" not in capsys.readouterr().err
    run_with_exit_code(fail, verbose=True)
    assert "the origin" in capsys.readouterr().err
