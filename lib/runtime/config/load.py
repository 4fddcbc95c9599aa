"""A job's configuration: defaults, then a TOML file, then the environment, then the command
line."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from ...errors import ConfigError, TidegateError
from .secrets import masked, require_reference

PREFIX = "TIDEGATE_"
OPEN_ENDED = (("kafka", "options"),)
"""Tables whose keys are somebody else's: all that follows is one key, dots and all."""

_MOMENT = "a time with its zone and without quotes, such as 2026-03-02T09:00:00Z"
_PLAIN = {
    "timezone_aware": _MOMENT,
    "datetime_type": _MOMENT,
    "dict_type": "a table of offsets: { clicks = { 0 = 17 } }",
    "string_type": "text",
}

Model = TypeVar("Model", bound=BaseModel)
Path_ = tuple[str, ...]


@dataclass(frozen=True)
class Loaded(Generic[Model]):
    """A validated configuration, and for each key that was given its source: a file, the
    environment, ..."""

    config: Model
    sources: Mapping[Path_, str]


def load(
    model: type[Model],
    file: Path | None = None,
    overrides: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Loaded[Model]:
    """Read and check a configuration.

    `overrides` are `section.key=value`; environment variables are TIDEGATE_<SECTION>__<KEY>. Both
    take a TOML value, or
    plain text where it is none: `window.size=5 minutes`. Raises a ConfigError that names each wrong
    key, its value and its source."""
    given: dict[Path_, tuple[Any, str]] = {}
    if file is not None:
        for path, value in _leaves(_toml(file)):
            require_reference(".".join(path), value, f"in {file}")
            given[path] = value, f"file {file.name}"
    for name, text in (os.environ if environment is None else environment).items():
        if name.startswith(PREFIX) and "__" in name:
            given[_split(_name_to_key(name))] = _value(text), "environment"
    for override in overrides:
        key, found, text = override.partition("=")
        if not found or "." not in key:
            raise ConfigError(
                f"--set {override!r}.", "section.key=value.", "--set window.size='5 minutes'"
            )
        require_reference(key.strip(), text, "on the command line")
        given[_split(key.strip())] = _value(text.strip()), "command line"
    tree: dict[str, Any] = {}
    for path, (value, _) in given.items():
        _put(tree, path, value)
    try:
        config = model.model_validate(tree)
    except ValidationError as error:
        raise _told(model, error, given) from None
    return Loaded(config, {path: source for path, (_, source) in given.items()})


def _toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"the configuration {file} cannot be read: {error.strerror}.", hint="--config PATH"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"the configuration {file} is no TOML: {error}.") from None


def _leaves(tree: Mapping[str, Any], above: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    for key, value in tree.items():
        path = (*above, key)
        if isinstance(value, dict) and (len(path) == 1 or path in OPEN_ENDED):
            yield from _leaves(value, path)
        elif isinstance(value, dict) and path[:2] in OPEN_ENDED:
            # TOML takes the dots of an unquoted `sasl.mechanism = ...` for tables.
            yield from (
                ((*path[:2], ".".join((*path[2:], *more))), leaf)
                for more, leaf in _leaves_below(value)
            )
        else:
            yield path, value


def _leaves_below(tree: Mapping[str, Any], above: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _leaves_below(value, (*above, key))
        else:
            yield (*above, key), value


def _name_to_key(name: str) -> str:
    parts = [
        part if any(map(str.islower, part)) else part.lower()
        for part in name.removeprefix(PREFIX).split("__")
    ]
    if tuple(parts[:2]) in OPEN_ENDED:
        return ".".join([*parts[:2], *(part.replace("_", ".") for part in parts[2:])])
    return ".".join(parts)


def _split(key: str) -> Path_:
    parts = tuple(key.split("."))
    return (
        (*parts[:2], ".".join(parts[2:])) if parts[:2] in OPEN_ENDED and len(parts) > 2 else parts
    )


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, KeyError):
        return text


def _put(tree: dict[str, Any], path: Path_, value: Any) -> None:
    for key in path[:-1]:
        below = tree.setdefault(key, {})
        if not isinstance(below, dict):
            raise ConfigError(f"{'.'.join(path)} is given, but {key} is {below!r} and no section.")
        tree = below
    tree[path[-1]] = value


def _told(
    model: type[BaseModel], error: ValidationError, given: Mapping[Path_, tuple[Any, str]]
) -> ConfigError:
    told: dict[str, ConfigError] = {}
    for detail in error.errors(include_url=False):
        one = _one(model, detail, given)
        # A value that fits no member of a union is told once, with what each member would have
        # taken.
        before = told.get(one.given)
        told[one.given] = (
            ConfigError(one.given, f"{before.allowed[:-1]}, or {one.allowed}") if before else one
        )
    first, *others = told.values()
    return ConfigError(
        first.given, first.allowed, "\n".join(filter(None, (first.hint, *map(str, others))))
    )


def _one(
    model: type[BaseModel], detail: ErrorDetails, given: Mapping[Path_, tuple[Any, str]]
) -> ConfigError:
    path = tuple(str(part) for part in detail["loc"])
    # Behind the key stand the names of a union's members: `kafka.start.literal[...]`.
    path = next((path[:end] for end in range(len(path), 0, -1) if path[:end] in given), path)
    key, source = ".".join(path), given.get(path, (None, ""))[1]
    place = f" ({source})" if source else ""
    raised = (detail.get("ctx") or {}).get("error")
    if isinstance(raised, ConfigError) and path not in given:
        # A section that several inputs share cannot name itself.
        named = raised.given if key in raised.given else f"[{key}] {raised.given}"
        return ConfigError(named, raised.allowed, raised.hint)
    if detail["type"] == "extra_forbidden":
        fields = _fields(model, path[:-1])
        near = difflib.get_close_matches(path[-1], fields, 1, 0.5)
        hint = f"did you mean {'.'.join((*path[:-1], near[0]))}?" if near else ""
        return ConfigError(f"{key}{place} is no key of this job.", f"{', '.join(fields)}.", hint)
    if detail["type"] == "missing":
        return ConfigError(f"{key} is missing.", hint=f"give it in the file, or by --set {key}=...")
    value = detail["input"] if path not in given else given[path][0]
    shown = repr(value) if isinstance(value, str | int | float | list | dict) else str(value)
    if isinstance(raised, TidegateError):
        return ConfigError(f"{key} is {masked(key, shown)}{place}.", raised.allowed)
    allowed = (
        detail["msg"].removeprefix("Input should ").removeprefix("be ").removeprefix("a valid ")
    )
    return ConfigError(
        f"{key} is {masked(key, shown)}{place}.", f"{_PLAIN.get(detail['type'], allowed)}."
    )


def _fields(model: type[BaseModel], path: Path_) -> list[str]:
    for key in path:
        below = model.model_fields[key].annotation if key in model.model_fields else None
        if not (isinstance(below, type) and issubclass(below, BaseModel)):
            return []
        model = below
    return [field.alias or name for name, field in model.model_fields.items()]
