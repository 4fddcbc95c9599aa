"""What a job's exit code says, and the one place where an error becomes a message and a code."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable

from ...errors import (
    AccountingError,
    ArgumentError,
    CheckpointError,
    ColumnError,
    ColumnTypeError,
    ConfigError,
    ConflictError,
    DeadLetterFloodError,
    DifferenceError,
    FencedError,
    NotForgottenError,
    ReplayMismatchError,
    SetupError,
    SourceError,
    StoreError,
    TableError,
    TidegateError,
    TopicError,
    WatermarkError,
    WebhookError,
)
from .failures import plain
from .stop import Interrupted

DONE = 0
_WRONG = (2, "the configuration or the command line is wrong")
_UNTOLD = (
    11,
    "a topic, a webhook or a store cannot be written: it is missing, or does not take every row",
)
CODES: dict[type[BaseException], tuple[int, str]] = {
    ConfigError: _WRONG,
    ArgumentError: _WRONG,
    ColumnError: _WRONG,
    ColumnTypeError: _WRONG,
    TableError: _WRONG,
    WatermarkError: _WRONG,
    SourceError: (3, "the input cannot be read: broker, topic, offsets"),
    DeadLetterFloodError: (
        4,
        "more rows than allowed could not be read; nothing of that batch was written",
    ),
    ReplayMismatchError: (5, "the table and the checkpoint do not fit each other"),
    CheckpointError: (5, "the table and the checkpoint do not fit each other"),
    AccountingError: (6, "a batch's rows do not add up; nothing of that batch was written"),
    SetupError: (7, "something outside is missing: Java, jars, disk space"),
    ConflictError: (8, "other writers of a table came first, again and again"),
    FencedError: (9, "another driver has taken the checkpoint over"),
    DifferenceError: (10, "--compare or --replay has found rows that differ, or are missing"),
    StoreError: _UNTOLD,
    TopicError: _UNTOLD,
    WebhookError: _UNTOLD,
    NotForgottenError: (12, "tidegate forget has found what it cannot delete"),
}
"""0 is done, or stopped as asked; 1 any other failure; 130 and 143 a second Ctrl-C or SIGTERM,
which stops at once."""


def code_of(error: BaseException) -> int:
    """Return the exit code for an error."""
    if isinstance(error, Interrupted):
        return 128 + error.signal
    if isinstance(error, KeyboardInterrupt):
        return 130
    return next((code for kind, (code, _) in CODES.items() if isinstance(error, kind)), 1)


def guarded(work: Callable[[], object], *, verbose: bool = False) -> int:
    """Do the work, and return the exit code; say an error in one paragraph on standard error.

    With `verbose` the whole traceback comes too, Java's included.
    """
    try:
        work()
    except (Exception, KeyboardInterrupt, Interrupted) as error:
        told = (
            error
            if isinstance(error, TidegateError | Interrupted | KeyboardInterrupt)
            else plain(error)
        )
        if verbose:
            traceback.print_exception(error, file=sys.stderr)
        print(f"{type(told).__name__}: {told or 'stopped by Ctrl-C'}", file=sys.stderr, flush=True)
        return code_of(told)
    return DONE
