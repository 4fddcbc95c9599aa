"""Every error that tidegate raises: one base, and each also the built-in that fits."""

from __future__ import annotations


class TidegateError(Exception):
    """The base of all errors of the library.

    A message says what was given, what is allowed and what to do instead, each on its own line.
    """

    def __init__(self, given: str, allowed: str = "", hint: str = "") -> None:
        self.given = given
        self.allowed = allowed
        self.hint = hint
        lines = [
            given,
            f"  allowed: {allowed}" if allowed else "",
            f"  instead: {hint}" if hint else "",
        ]
        super().__init__("\n".join(line for line in lines if line))


class ArgumentError(TidegateError, ValueError):
    """A transform, source or sink was called with a value that it cannot take."""


class ColumnError(TidegateError, ValueError):
    """A column is missing, is there twice, or its name is taken."""


class ColumnTypeError(TidegateError, TypeError):
    """A column or an argument has a type that the call cannot use."""


class WatermarkError(TidegateError, ValueError):
    """A stream has no watermark where one is needed, or has it on another column."""


class ConfigError(TidegateError, ValueError):
    """A job's configuration does not hold together."""


class TableError(TidegateError, ValueError):
    """Rows do not fit their table, or a table is not as the sink needs it."""


class SourceError(TidegateError, RuntimeError):
    """The input cannot be read as asked: broker, topic, offsets."""


class RegistryError(SourceError):
    """The schema registry does not answer, refuses, or does not answer as one."""


class TopicError(TidegateError, RuntimeError):
    """A topic cannot be written: it is not there, takes no record, or a record is too large."""


class WebhookError(TidegateError, RuntimeError):
    """An address takes no row that is posted to it, does not answer, or is to get too many."""


class StoreError(TidegateError, RuntimeError):
    """A store outside cannot be reached, or does not take the rows of a batch."""


class DeadLetterFloodError(TidegateError, RuntimeError):
    """More rows than the configured limit could not be read."""


class AccountingError(TidegateError, RuntimeError):
    """A batch's rows in do not equal its rows out, dead, late and filtered."""


class ReplayMismatchError(TidegateError, RuntimeError):
    """A table does not hold what its checkpoint says: another batch, or less than was written."""


class CheckpointError(TidegateError, RuntimeError):
    """A checkpoint is damaged, foreign, or does not fit its table."""


class LostCheckpointError(CheckpointError):
    """A table was filled by another checkpoint of the same job: that one is lost, or still used."""


class FencedError(TidegateError, RuntimeError):
    """Another driver has taken the checkpoint over; this one must not write any more."""


class DifferenceError(TidegateError, RuntimeError):
    """A job's tables hold other rows than its log gives."""


class NotForgottenError(TidegateError, RuntimeError):
    """Something of a person who is to be forgotten is still there."""


class SetupError(TidegateError, RuntimeError):
    """Something outside the library is missing: Java, jars, a port, disk space."""


class ConflictError(TidegateError, RuntimeError):
    """Other writers of a table came first, again and again."""
