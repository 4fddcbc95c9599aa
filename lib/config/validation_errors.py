"""Conversion of pydantic's validation errors to one ConfigError with keys, values and sources."""

from __future__ import annotations

import difflib
import re
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from inspect import isclass
from typing import Any, TypeAlias

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from ..errors import ConfigError, TidegateError
from ..secrets import MASK, is_secret, mask_secret
from .config_types import VALUE

KeyPath: TypeAlias = tuple[str, ...]
OPEN_ENDED_TABLES: tuple[KeyPath, ...] = (
    ("kafka", "options"),
    ("output", "properties"),
    ("output", "side_table_properties"),
    ("webhook", "headers"),
)
"""Tables with arbitrary keys, which can contain dots."""


@dataclass(frozen=True)
class SourcedValue:
    """A value and its source: a file, the environment, or the command line."""

    value: Any
    source: str


_DATETIME_TEXT = "a time with its zone and without quotes, such as 2026-03-02T09:00:00Z"
_OFFSETS_TEXT = "a table of offsets: { clicks = { 0 = 17 } }"
_EXPECTED_BY_TYPE: dict[str, str] = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "datetime_type": _DATETIME_TEXT,
    "dict_type": 'a table: { name = "value" }',
    "float_parsing": "a number",
    "float_type": "a number",
    "int_from_float": "an integer",
    "int_parsing": "an integer",
    "int_type": "an integer",
    "list_type": "a list, or comma-separated names",
    "model_attributes_type": "a section",
    "model_type": "a section",
    "none_required": "nothing",
    "string_pattern_mismatch": "letters, digits, '_', '.' and '-', with a letter or digit first",
    "string_too_short": "text that is not empty",
    "string_type": "text",
    "timezone_aware": _DATETIME_TEXT,
}
_EXPECTED_BY_CONSTRAINT: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "greater_than": lambda bound: f"a number above {bound['gt']:g}",
    "greater_than_equal": lambda bound: f"{bound['ge']:g} or more",
    "less_than": lambda bound: f"a number below {bound['lt']:g}",
    "less_than_equal": lambda bound: f"{bound['le']:g} or less",
    "literal_error": lambda bound: str(bound["expected"]),
}


def to_config_error(
    model: type[BaseModel], error: ValidationError, sourced_values: Mapping[KeyPath, SourcedValue]
) -> ConfigError:
    """Return one error that lists all faults.

    >>> class Limits(BaseModel):
    ...     rows: int
    >>> try:
    ...     Limits.model_validate({"rows": "many"})
    ... except ValidationError as error:
    ...     print(to_config_error(Limits, error, {("rows",): SourcedValue("many", "environment")}))
    invalid rows: 'many' (environment)
      expected: an integer
    """
    faults: dict[str, ConfigError] = {}
    for detail in error.errors(include_url=False):
        config_error = _Fault(model, detail, sourced_values).to_config_error()
        previous_error = faults.get(config_error.problem)
        # A value that matches no member of a union has one error per member.
        if previous_error is not None:
            config_error = ConfigError(
                config_error.problem,
                f"{previous_error.detail}, or {config_error.detail}",
                config_error.remedy,
            )
        faults[config_error.problem] = config_error
    if len(faults) == 1:
        return next(iter(faults.values()))
    return ConfigError("\n".join(map(str, faults.values())))


class _Fault:
    """One fault with its key, value and source."""

    def __init__(
        self,
        model: type[BaseModel],
        detail: ErrorDetails,
        sourced_values: Mapping[KeyPath, SourcedValue],
    ) -> None:
        location = [str(part) for part in detail["loc"]]
        self._type = detail["type"]
        self._context = detail.get("ctx") or {}
        self._message = detail["msg"]
        self._section, self._kind_suffix = _find_section(model, location)
        if self._type == "union_tag_invalid":
            location.append(str(self._context["discriminator"]).strip("'"))
        self.path = _key_path(location)
        self.key = ".".join(self.path)
        self._sourced_values = sourced_values
        sourced = sourced_values.get(self.path)
        self.source_suffix = f" ({sourced.source})" if sourced else ""
        self.value = sourced.value if sourced else detail["input"]

    def to_config_error(self) -> ConfigError:
        """Return the error."""
        raised = self._context.get("error")
        if isinstance(raised, TidegateError):
            return ConfigError(self._problem_with_key(raised.problem), raised.detail, raised.remedy)
        if self._type in ("extra_forbidden", "unexpected_keyword_argument"):
            return self._unknown_key_error()
        if self._type == "missing":
            if len(self.path) == 1:
                return ConfigError(
                    f"missing section: [{self.key}]", remedy=f"add [{self.key}] to the file"
                )
            return ConfigError(
                f"missing key: {self.key}{self._kind_suffix}", remedy=f"--set {self.key}=..."
            )
        return ConfigError(
            f"invalid {self.key}: {self._value_text}{self.source_suffix}{self._kind_suffix}",
            self._expected_text,
        )

    def _problem_with_key(self, problem: str) -> str:
        """Return the problem of a validator, which does not know its key, with the key."""
        if problem.startswith(f"invalid {VALUE}: "):
            text = problem.removeprefix(f"invalid {VALUE}: ")
            value_repr = repr(self.value)
            if text.startswith(value_repr):
                rest = text.removeprefix(value_repr)
                return f"invalid {self.key}: {self._value_text}{self.source_suffix}{rest}"
            text = self._value_text if is_secret(self.key) else text
            return f"invalid {self.key}: {text}{self.source_suffix}"
        if not self.key or f"{self.key}." in problem or problem.startswith(f"[{self.key}]"):
            return problem
        argument = re.match(r"invalid (\w+)\b", problem)
        if argument and argument[1] in _section_keys(self._section):
            key = f"{self.key}.{argument[1]}"
            sourced = self._sourced_values.get((*self.path, argument[1]))
            if sourced and re.fullmatch(r"invalid \w+: \S+", problem):
                return f"invalid {key}: {mask_secret(key, repr(sourced.value))} ({sourced.source})"
            return f"invalid {key}{problem.removeprefix(argument[0])}"
        return f"[{self.key}] {problem}"

    def _unknown_key_error(self) -> ConfigError:
        keys = _section_keys(self._section)
        suggestions = difflib.get_close_matches(self.path[-1], keys, 1, 0.55)
        kind = "key" if len(self.path) > 1 else "section"
        return ConfigError(
            f"unknown {kind}: {self.key}{self.source_suffix}{self._kind_suffix}",
            ", ".join(keys),
            ".".join((*self.path[:-1], suggestions[0])) if suggestions else "",
        )

    @property
    def _value_text(self) -> str:
        value = self.value
        if self.path in OPEN_ENDED_TABLES:
            # The value is not a table, and its text can contain a secret.
            return MASK
        is_printable = isinstance(value, str | int | float | list | dict)
        return mask_secret(self.key, repr(value) if is_printable else str(value))

    @property
    def _expected_text(self) -> str:
        if self._type == "union_tag_invalid":
            return str(self._context["expected_tags"])
        if self._type in _EXPECTED_BY_CONSTRAINT:
            return _EXPECTED_BY_CONSTRAINT[self._type](self._context)
        if self._type == "dict_type" and self.path[-1] == "start":
            return _OFFSETS_TEXT
        return _EXPECTED_BY_TYPE.get(self._type, self._message)


def _find_section(model: type[BaseModel], location: list[str]) -> tuple[type[Any], str]:
    """Return the model or dataclass of the section at a location, and a suffix that names its kind.

    The location of a section with several kinds contains the kind, which is removed: `window`,
    `session`, `gap` becomes `window`, `gap`.
    """
    if not location or location[0] not in model.model_fields:
        return model, ""
    kinds = _section_models(model.model_fields[location[0]].annotation)
    if len(kinds) == 1:
        return kinds[0], ""
    if len(location) < 2 or not kinds:
        return model, ""
    kind = location.pop(1)
    section = next(
        one for one in kinds if kind in typing.get_args(one.model_fields["kind"].annotation)
    )
    return section, f", for {location[0]}.kind {kind!r}"


def _section_models(annotation: Any) -> list[type[Any]]:
    if isclass(annotation) and (issubclass(annotation, BaseModel) or is_dataclass(annotation)):
        return [annotation]
    return [section for part in typing.get_args(annotation) for section in _section_models(part)]


def _key_path(location: list[str]) -> KeyPath:
    """Return the key of a location, without positions inside its value."""
    path = tuple(location)
    return path[:3] if path[:2] in OPEN_ENDED_TABLES else path[:2]


def _section_keys(section: type[Any]) -> list[str]:
    if is_dataclass(section):
        return [field.name for field in fields(section)]
    return [field.alias or name for name, field in section.model_fields.items()]
