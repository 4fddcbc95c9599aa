"""What is wrong with a configuration, said by key, value and source, in the library's own words."""

from __future__ import annotations

import difflib
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import isclass
from typing import Any, TypeAlias

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from ...errors import ConfigError, TidegateError
from .secrets import MASK, masked
from .values import VALUE

KeyPath: TypeAlias = tuple[str, ...]
OPEN_ENDED: tuple[KeyPath, ...] = (
    ("kafka", "options"),
    ("output", "properties"),
    ("output", "side_properties"),
    ("webhook", "headers"),
)
"""Tables whose keys are somebody else's: all that follows is one key, dots and all."""


@dataclass(frozen=True)
class Given:
    """A value, and where it comes from: a file, the environment, the command line."""

    value: Any
    source: str


_MOMENT = "a time with its zone and without quotes, such as 2026-03-02T09:00:00Z"
_OFFSETS = "a table of offsets: { clicks = { 0 = 17 } }"
_WORDS: dict[str, str] = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "datetime_type": _MOMENT,
    "dict_type": 'a table: { name = "value" }',
    "float_parsing": "a number",
    "float_type": "a number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "list_type": "a list, or names with commas between them",
    "model_attributes_type": "a section",
    "model_type": "a section",
    "none_required": "nothing",
    "string_too_short": "text that is not empty",
    "string_type": "text",
    "timezone_aware": _MOMENT,
}
_BOUNDS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "greater_than": lambda bound: f"a number above {bound['gt']:g}",
    "greater_than_equal": lambda bound: f"{bound['ge']:g} or more",
    "less_than": lambda bound: f"a number below {bound['lt']:g}",
    "less_than_equal": lambda bound: f"{bound['le']:g} or less",
    "literal_error": lambda bound: str(bound["expected"]),
}


def as_error(
    model: type[BaseModel], error: ValidationError, given: Mapping[KeyPath, Given]
) -> ConfigError:
    """Return one error that tells all faults."""
    faults: dict[str, ConfigError] = {}
    for detail in error.errors(include_url=False):
        one = _Fault(model, detail, given).error()
        before = faults.get(one.given)
        # A value that fits no member of a union is told once, with what each would have taken.
        if before is not None:
            one = ConfigError(one.given, f"{before.allowed[:-1]}, or {one.allowed}", one.hint)
        faults[one.given] = one
    if len(faults) == 1:
        return next(iter(faults.values()))
    return ConfigError("\n".join(map(str, faults.values())))


class _Fault:
    """One fault, with the key, the value and the source that it is about."""

    def __init__(
        self, model: type[BaseModel], detail: ErrorDetails, given: Mapping[KeyPath, Given]
    ) -> None:
        place = [str(part) for part in detail["loc"]]
        self._type = detail["type"]
        self._context = detail.get("ctx") or {}
        self._message = detail["msg"]
        self._section, self._of_kind = _section(model, place)
        if self._type == "union_tag_invalid":
            place.append(str(self._context["discriminator"]).strip("'"))
        self.path = _key(place)
        self.key = ".".join(self.path)
        known = given.get(self.path)
        self.source = f" ({known.source})" if known else ""
        self.value = known.value if known else detail["input"]

    def error(self) -> ConfigError:
        """Return the error that says it."""
        raised = self._context.get("error")
        if isinstance(raised, TidegateError):
            return self._raised(raised)
        if self._type == "extra_forbidden":
            return self._unknown()
        if self._type == "missing":
            hint = f"give it in the file, or by --set {self.key}=..."
            if len(self.path) == 1:
                hint = f"give the section [{self.key}] in the file."
            return ConfigError(f"{self.key} is missing{self._of_kind}.", hint=hint)
        return ConfigError(
            f"{self.key} is {self._shown}{self.source}{self._of_kind}.", f"{self._allowed}."
        )

    def _raised(self, raised: TidegateError) -> ConfigError:
        """Name the key in an error of the library's own checks, which do not know it."""
        if raised.given.startswith(f"{VALUE} "):
            rest = raised.given.removeprefix(f"{VALUE} is {self.value!r}").removeprefix(VALUE)
            reason = rest if rest.startswith((", ", " names ")) else "."
            shown = "" if reason.startswith(" names ") else f" is {self._shown}{self.source}"
            return ConfigError(f"{self.key}{shown}{reason}", raised.allowed, raised.hint)
        if not self.key or raised.given.startswith((f"{self.key}.", f"[{self.key}]")):
            return ConfigError(raised.given, raised.allowed, raised.hint)
        subject = raised.given.split(" ", 1)[0]
        named = f"{self.key}." if subject in _keys(self._section) else f"[{self.key}] "
        return ConfigError(f"{named}{raised.given}", raised.allowed, raised.hint)

    def _unknown(self) -> ConfigError:
        keys = _keys(self._section)
        near = difflib.get_close_matches(self.path[-1], keys, 1, 0.5)
        hint = f"did you mean {'.'.join((*self.path[:-1], near[0]))}?" if near else ""
        section = f"[{self.path[0]}]" if len(self.path) > 1 else "this job"
        whose = self._of_kind.removeprefix(", with ") or section
        return ConfigError(
            f"{self.key}{self.source} is no key of {whose}.", f"{', '.join(keys)}.", hint
        )

    @property
    def _shown(self) -> str:
        value = self.value
        if self.path in OPEN_ENDED:
            # Its text is no table, and may hold a secret all the same.
            return MASK
        plain = isinstance(value, str | int | float | list | dict)
        return masked(self.key, repr(value) if plain else str(value))

    @property
    def _allowed(self) -> str:
        if self._type == "union_tag_invalid":
            return str(self._context["expected_tags"])
        if self._type in _BOUNDS:
            return _BOUNDS[self._type](self._context)
        if self._type == "dict_type" and self.path[-1] == "start":
            return _OFFSETS
        return _WORDS.get(self._type, self._message)


def _section(model: type[BaseModel], place: list[str]) -> tuple[type[BaseModel], str]:
    """Return the model of the section that a place is in, and of which kind it is.

    Where a section has several kinds, the kind stands behind its name, and is taken out of the
    place: `window`, `session`, `gap` becomes `window`, `gap`.
    """
    if not place or place[0] not in model.model_fields:
        return model, ""
    kinds = _models(model.model_fields[place[0]].annotation)
    if len(kinds) == 1:
        return kinds[0], ""
    if len(place) < 2 or not kinds:
        return model, ""
    kind = place.pop(1)
    mine = next(
        one for one in kinds if kind in typing.get_args(one.model_fields["kind"].annotation)
    )
    return mine, f", with {place[0]}.kind {kind!r}"


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isclass(annotation) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for part in typing.get_args(annotation) for found in _models(part)]


def _key(place: list[str]) -> KeyPath:
    """Return a key of a section, or of a table of options, without what is inside its value."""
    path = tuple(place)
    return path[:3] if path[:2] in OPEN_ENDED else path[:2]


def _keys(section: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in section.model_fields.items()]
