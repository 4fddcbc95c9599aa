"""What the values of a configuration may be: durations, names, times, offsets, and places."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import AfterValidator, AwareDatetime, BeforeValidator, Field, ValidationInfo

from ...calendars import is_period
from ...durations import DURATION_TEXT, microseconds
from ...errors import ConfigError, TidegateError
from ..locations import whole

VALUE = "value"
"""What a value is called in an error until the key is known."""

_JOB_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_NO_COLUMN = re.compile(r"[ ,;{}()\n\t=]")
"""What Delta has in no column's name."""


def _duration(least: int) -> Callable[[Any], str]:
    def check(text: Any) -> str:
        if not isinstance(text, str):
            raise ConfigError(f"{VALUE} is {text!r}.", f"{DURATION_TEXT}.")
        try:
            microseconds(text, VALUE, least=least)
        except TidegateError as error:
            kind = "above zero" if least else "zero or more"
            raise ConfigError(error.given, f"{kind}, {DURATION_TEXT}.") from None
        return text

    return check


def _span(text: Any) -> str:
    return text if is_period(text) else _duration(1)(text)


def _listed(value: Any) -> Any:
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else value


def require_columns(names: list[str]) -> list[str]:
    """Return names of columns, and refuse those that Delta has in no table."""
    for name in names:
        if _NO_COLUMN.search(name):
            raise ConfigError(
                f"{VALUE} names the column {name!r}.",
                "names without spaces, line ends and , ; { } ( ) =, which Delta has in no column.",
            )
    return names


def _job_name(name: str) -> str:
    if not _JOB_NAME.fullmatch(name):
        raise ConfigError(
            f"{VALUE} is {name!r}.",
            "letters, digits, '_', '.' and '-', the first of them a letter or a digit.",
        )
    return name


def _option(value: Any) -> Any:
    """Return an option of Kafka as its text: all are texts there, whatever TOML takes them for."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _placed(path: str, info: ValidationInfo) -> str:
    """Return a path below the section's root, absolute and plain."""
    return whole(path, info.data.get("root", ""))


IS_TABLE = "a table"

Duration = Annotated[str, BeforeValidator(_duration(1))]
Wait = Annotated[str, BeforeValidator(_duration(0))]
Span = Annotated[str, BeforeValidator(_span)]
Names = Annotated[list[str], BeforeValidator(_listed)]
Columns = Annotated[list[str], BeforeValidator(_listed), AfterValidator(require_columns)]
JobName = Annotated[str, AfterValidator(_job_name)]
OptionValue = Annotated[str, BeforeValidator(_option)]
# Strict, since "17" or 17 would else be a time in 1970.
Moment = Annotated[AwareDatetime, Field(strict=True)]
Root = Annotated[str, AfterValidator(whole)]
Place = Annotated[str, AfterValidator(_placed)]
Table = Annotated[str, AfterValidator(_placed), IS_TABLE]
