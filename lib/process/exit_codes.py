"""The exit codes of a job, and the conversion of errors to messages and codes."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable

from ..errors import (
    AccountingError,
    ArgumentError,
    CheckpointError,
    ColumnError,
    ColumnTypeError,
    ComparisonError,
    ConfigError,
    ConflictError,
    DataError,
    DeadLetterLimitError,
    ErasureIncompleteError,
    FencedError,
    RejectedRowError,
    SetupError,
    SourceError,
    StoreError,
    TableError,
    TableMismatchError,
    TidegateError,
    TopicError,
    WatermarkError,
    WebhookError,
)
from ..spark.spark_errors import translate_error
from .shutdown import ForcedStop

SUCCESS = 0
_INVALID_CONFIGURATION = (2, "the configuration or the command line is invalid")
_REFUSED_ROWS = (
    4,
    "more dead letters than allowed, or a row with on_error = stop; the batch was not written",
)
_UNWRITABLE_OUTPUT = (
    11,
    "a topic, webhook or store cannot be written: it is missing, or rejects a row",
)
EXIT_CODES: dict[type[BaseException], tuple[int, str]] = {
    ConfigError: _INVALID_CONFIGURATION,
    ArgumentError: _INVALID_CONFIGURATION,
    ColumnError: _INVALID_CONFIGURATION,
    ColumnTypeError: _INVALID_CONFIGURATION,
    TableError: _INVALID_CONFIGURATION,
    WatermarkError: _INVALID_CONFIGURATION,
    SourceError: (3, "the input cannot be read: broker, topic, offsets"),
    DeadLetterLimitError: _REFUSED_ROWS,
    RejectedRowError: _REFUSED_ROWS,
    TableMismatchError: (5, "the table and the checkpoint do not match"),
    CheckpointError: (5, "the table and the checkpoint do not match"),
    AccountingError: (6, "the row counts of a batch do not add up; the batch was not written"),
    SetupError: (7, "the environment is incomplete: Java, jars, disk space, memory"),
    ConflictError: (8, "other writers of a table committed first on every attempt"),
    FencedError: (9, "another driver has taken over the checkpoint"),
    ComparisonError: (10, "compare or replay has found rows that differ or are missing"),
    StoreError: _UNWRITABLE_OUTPUT,
    TopicError: _UNWRITABLE_OUTPUT,
    WebhookError: _UNWRITABLE_OUTPUT,
    DataError: (13, "a row, a constraint or a data file makes a batch fail at every start"),
    ErasureIncompleteError: (12, "tidegate erase has found data that it could not delete"),
}
"""0 means done, or stopped on request; 1 any other failure; 130 and 143 a second Ctrl-C or SIGTERM,
which stops at once."""


def exit_code(error: BaseException) -> int:
    """Return the exit code of an error.

    >>> exit_code(ArgumentError("invalid how: 'outr'"))
    2
    """
    if isinstance(error, ForcedStop):
        return 128 + error.signal_number
    if isinstance(error, KeyboardInterrupt):
        return 130
    codes = (code for kind, (code, _) in EXIT_CODES.items() if isinstance(error, kind))
    return next(codes, 1)


def run_with_exit_code(work: Callable[[], object], *, verbose: bool = False) -> int:
    """Run `work` and return the exit code; print an error to standard error.

    verbose: print the complete traceback too, including Java's.
    """
    try:
        work()
    except (Exception, KeyboardInterrupt, ForcedStop) as error:
        is_final = isinstance(error, TidegateError | ForcedStop | KeyboardInterrupt)
        shown_error = error if is_final else translate_error(error)
        if verbose:
            error.__suppress_context__ = False
            traceback.print_exception(error, file=sys.stderr)
        message = f"{type(shown_error).__name__}: {str(shown_error) or 'stopped by Ctrl-C'}"
        print(message, file=sys.stderr, flush=True)
        return exit_code(shown_error)
    return SUCCESS
