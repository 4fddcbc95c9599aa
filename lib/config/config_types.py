"""The base class of sections, and the types of their values: durations, names, times, paths."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationInfo,
)

from ..calendars import is_calendar_period
from ..durations import DURATION_TEXT, microseconds
from ..errors import ConfigError, TidegateError
from ..job.validation import JOB_NAME_PATTERN
from ..paths import normalize_path


class Section(BaseModel):
    """Base class of configuration sections: immutable, without unknown keys or empty text.

    >>> class RetrySection(Section):
    ...     attempts: int = 3
    >>> RetrySection.model_validate({"attempts": 5}).attempts
    5
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False, str_min_length=1)


def matching_arguments(section: Section, parameters: type[Any]) -> dict[str, Any]:
    """Return the values of a section's keys that are fields of a dataclass."""
    names = {field.name for field in fields(parameters)}
    return {name: value for name, value in section if name in names}


@contextmanager
def config_errors(section: str = "") -> Iterator[None]:
    """Convert the library's errors inside the block to ConfigError, prefixed with the section.

    >>> from tidegate.durations import microseconds
    >>> with config_errors("trigger"):
    ...     microseconds("3 parsecs", "interval")
    Traceback (most recent call last):
    tidegate.errors.ConfigError: [trigger] invalid interval: '3 parsecs'
      expected: ...
    """
    try:
        yield
    except TidegateError as error:
        prefix = f"[{section}] " if section else ""
        raise ConfigError(f"{prefix}{error.problem}", error.detail, error.remedy) from error


VALUE = "value"
"""Placeholder for the key in errors of validators, which do not know their key."""

IS_TABLE = "a table"
"""Metadata that marks a key of [output] as the path of a table."""

_INVALID_COLUMN_CHARS = re.compile(r"[ ,;{}()\n\t=]")
"""Characters that Delta does not allow in column names."""


def require_column_list(names: list[str]) -> list[str]:
    """Return column names; raise ConfigError for a name that Delta does not allow.

    >>> require_column_list(["page", "ms"])
    ['page', 'ms']
    """
    for name in names:
        if _INVALID_COLUMN_CHARS.search(name):
            raise ConfigError(
                f"invalid {VALUE}: {name!r}; Delta does not allow this column name",
                "names without spaces, line ends and , ; { } ( ) =",
            )
    return names


def _duration_check(min_microseconds: int) -> Callable[[Any], str]:
    def check(text: Any) -> str:
        if not isinstance(text, str):
            raise ConfigError(f"invalid {VALUE}: {text!r}", DURATION_TEXT)
        try:
            microseconds(text, VALUE, min_value=min_microseconds)
        except TidegateError as error:
            bound = "positive" if min_microseconds else "zero or more"
            raise ConfigError(error.problem, f"{bound}: {DURATION_TEXT}") from None
        return text

    return check


def _calendar_duration(text: Any) -> str:
    return text if is_calendar_period(text) else _duration_check(1)(text)


def _split_names(value: Any) -> Any:
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else value


def _option_text(value: Any) -> Any:
    """Return a Kafka option as text; TOML parses some as numbers or booleans."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _below_root(path: str, info: ValidationInfo) -> str:
    """Return a path relative to the section's root as a normalized absolute path."""
    return normalize_path(path, info.data.get("root", ""))


Duration = Annotated[str, BeforeValidator(_duration_check(1))]
NonNegativeDuration = Annotated[str, BeforeValidator(_duration_check(0))]
CalendarDuration = Annotated[str, BeforeValidator(_calendar_duration)]
Names = Annotated[list[str], BeforeValidator(_split_names)]
Columns = Annotated[list[str], BeforeValidator(_split_names), AfterValidator(require_column_list)]
JobName = Annotated[str, StringConstraints(pattern=JOB_NAME_PATTERN)]
OptionValue = Annotated[str, BeforeValidator(_option_text)]
# Strict: otherwise "17" or 17 would be parsed as a time in 1970.
ZonedDatetime = Annotated[AwareDatetime, Field(strict=True)]
Root = Annotated[str, AfterValidator(normalize_path)]
Location = Annotated[str, AfterValidator(_below_root)]
Table = Annotated[str, AfterValidator(_below_root), IS_TABLE]
