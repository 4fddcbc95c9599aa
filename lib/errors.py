"""The exceptions of tidegate: one base class; each class also extends a built-in exception."""

from __future__ import annotations

from typing import ClassVar


class TidegateError(Exception):
    """Base class of all errors of the library.

    A message has up to three parts, each on its own line: the problem, a detail, and a remedy.
    The labels of the last two depend on the class. Invalid arguments, columns, configurations and
    tables have `expected:` and `try:`; failures at run time have `cause:` and `fix:`.

    >>> from tidegate import aggregates as agg
    >>> from tidegate.windows import tumbling
    >>> try:
    ...     tumbling(clicks, "1 minute", by="pages", aggs={"views": agg.count()})
    ... except TidegateError as error:
    ...     print(error.problem)
    invalid by: no column 'pages'
    """

    _labels: ClassVar[tuple[str, str]] = ("expected", "try")

    def __init__(self, problem: str, detail: str = "", remedy: str = "") -> None:
        self.problem = problem
        self.detail = detail
        self.remedy = remedy
        labelled = zip(self._labels, (detail, remedy), strict=True)
        lines = [problem, *(f"  {label}: {text}" for label, text in labelled if text)]
        super().__init__("\n".join(lines))


class RunTimeError(TidegateError, RuntimeError):
    """Base class of failures at run time; a message names the `cause:` and the `fix:`."""

    _labels = ("cause", "fix")


class ArgumentError(TidegateError, ValueError):
    """An argument of a transform, source or sink is invalid."""


class ColumnError(TidegateError, ValueError):
    """A column is missing, duplicated, or its name is already in use."""


class ColumnTypeError(TidegateError, TypeError):
    """A column or an argument has the wrong type."""


class WatermarkError(TidegateError, ValueError):
    """A stream has no watermark on its event-time column."""


class ConfigError(TidegateError, ValueError):
    """The configuration of a job is invalid or inconsistent."""


class TableError(TidegateError, ValueError):
    """Rows do not match the schema of their table, or a table does not match its sink."""


class SourceError(RunTimeError):
    """The input cannot be read: broker, topic or offsets."""


class RegistryError(SourceError):
    """The schema registry does not respond, rejects a request, or returns an invalid response."""


class TopicError(RunTimeError):
    """A topic cannot be written: it does not exist, rejects records, or a record is too large."""


class WebhookError(RunTimeError):
    """A webhook rejects rows, does not respond, or would receive too many requests."""


class StoreError(RunTimeError):
    """An external store is unreachable or rejects the rows of a batch."""


class DeadLetterLimitError(RunTimeError):
    """A batch has more dead letters than the configured limit."""


class RejectedRowError(RunTimeError):
    """A batch contains an invalid row, and on_error is "stop"."""


class AccountingError(RunTimeError):
    """The input rows of a batch do not equal its output, dead, late and filtered rows."""


class TableMismatchError(RunTimeError):
    """A table does not match its checkpoint: it has another batch, or fewer rows than written."""


class CheckpointError(RunTimeError):
    """A checkpoint is damaged, belongs to another job, or does not match its table."""


class LostCheckpointError(CheckpointError):
    """A table was written with another checkpoint of the same job, which is lost or in use."""


class FencedError(RunTimeError):
    """Another driver has taken over the checkpoint; this driver must stop writing."""


class DataError(RunTimeError):
    """A row, a constraint or a data file makes a batch fail at every start."""


class ComparisonError(RunTimeError):
    """The tables of a job differ from the results that are recomputed from its records."""


class ErasureIncompleteError(RunTimeError):
    """Data of an erased data subject still exists."""


class SetupError(RunTimeError):
    """An external requirement is missing: Java, jars, a port, disk space or memory."""


class ConflictError(RunTimeError):
    """Concurrent writers of a table committed first on every attempt."""
