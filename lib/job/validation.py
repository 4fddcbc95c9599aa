"""Checks of arguments at construction."""

from __future__ import annotations

from ..errors import ArgumentError, ColumnTypeError

JOB_NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"
"""The pattern of a job's name, which is part of application ids and paths."""


def require_type(value: object, expected_type: type, label: str, hint: str = "") -> None:
    """Refuse a value of another type."""
    if not isinstance(value, expected_type):
        raise ColumnTypeError(
            f"invalid {label}: {value!r}",
            f"a value of the type {expected_type.__name__}, not {type(value).__name__}",
            hint,
        )


def require_count(
    value: object, label: str, *, min_value: int = 0, max_value: int | None = None
) -> None:
    """Refuse a value that is not an integer in the range."""
    if (
        not isinstance(value, int)
        or isinstance(value, bool)
        or value < min_value
        or (max_value is not None and value > max_value)
    ):
        allowed = f"at least {min_value}"
        if max_value is not None:
            allowed = f"from {min_value} to {max_value:,}"
        raise ArgumentError(f"invalid {label}: {value!r}", f"an integer, {allowed}")


def require_ratio(value: object, label: str) -> None:
    """Refuse a value that is not a number from 0 to 1."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
        raise ArgumentError(
            f"invalid {label}: {value!r}", "a ratio from 0 to 1, or None", f"{label}=0.1"
        )


def require_writer_name(writer_name: object) -> None:
    """Refuse a writer name that cannot be part of an application id."""
    if not isinstance(writer_name, str) or not writer_name.strip() or "/" in writer_name:
        raise ArgumentError(
            f"invalid job: {writer_name!r}", "a name without a slash", 'job="customers"'
        )


def require_path(path: object, label: str) -> None:
    """Refuse a value that is not a path."""
    if not isinstance(path, str) or not path:
        raise ArgumentError(
            f"invalid {label}: {path!r}", "a path, as a string", f'{label}="/tables/{label}"'
        )
