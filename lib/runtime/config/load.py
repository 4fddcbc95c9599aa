"""A job's configuration: defaults, then a TOML file, then the environment, then --set."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from ...errors import ConfigError
from .faults import OPEN_ENDED, Given, KeyPath, as_error
from .secrets import require_reference

PREFIX = "TIDEGATE_"

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True)
class Loaded(Generic[Model]):
    """A validated configuration, and where each key that was given has its value from."""

    config: Model
    sources: Mapping[KeyPath, str]


def load(
    model: type[Model],
    file: Path | None = None,
    overrides: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Loaded[Model]:
    """Return a configuration, read and checked.

    `overrides` are `section.key=value`; environment variables are TIDEGATE_<SECTION>__<KEY>. Both
    take a TOML value, or plain text where it is none: `window.size=5 minutes`. What is given later
    counts, key by key: also each option of an inline table `kafka.options={...}`.

    Raises ConfigError, which names each wrong key, its value and its source.
    """
    given: dict[KeyPath, Given] = {}
    if file is not None:
        given |= _from_file(file)
    given |= _from_environment(model, os.environ if environment is None else environment)
    for override in overrides:
        given |= _from_command_line(override)
    tree: dict[str, Any] = {}
    for path, one in given.items():
        _put(tree, path, one.value)
    try:
        config = model.model_validate(tree)
    except ValidationError as error:
        raise as_error(model, error, given) from None
    return Loaded(config, {path: one.source for path, one in given.items()})


def _from_file(file: Path) -> dict[KeyPath, Given]:
    found = {path: Given(value, f"file {file.name}") for path, value in _leaves((), _toml(file))}
    for path, one in found.items():
        require_reference(".".join(path), one.value, f"in {file}")
    return found


def _toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"the configuration {file} cannot be read: {error.strerror}.", hint="--config PATH"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"the configuration {file} is no TOML: {error}.") from None


def _from_environment(
    model: type[BaseModel], environment: Mapping[str, str]
) -> dict[KeyPath, Given]:
    found: dict[KeyPath, Given] = {}
    for name, text in environment.items():
        if not name.startswith(PREFIX):
            continue
        if "__" not in name:
            _require_no_key(model, name)
            continue
        for path, value in _leaves(_variable_path(name), _value(text)):
            found[path] = Given(value, "environment")
    return found


def _require_no_key(model: type[BaseModel], name: str) -> None:
    """Refuse a variable that means a key and has one underscore in place of two."""
    rest = name.removeprefix(PREFIX)
    for section in model.model_fields:
        if rest.lower() == section or rest.lower().startswith(f"{section}_"):
            key = rest[len(section) :].lstrip("_") or "<KEY>"
            raise ConfigError(
                f"the environment has {name}, which names no key.",
                f"{PREFIX}<SECTION>__<KEY>, with two underscores between section and key.",
                f"{PREFIX}{section.upper()}__{key}",
            )


def _variable_path(name: str) -> KeyPath:
    """Return the key that a variable names; in an option of Kafka's, underscores stand for dots."""
    written = name.removeprefix(PREFIX).split("__")
    parts = [part if any(map(str.islower, part)) else part.lower() for part in written]
    if tuple(parts[:2]) in OPEN_ENDED:
        parts[2:] = [part.replace("_", ".") for part in parts[2:]]
    return tuple(parts)


def _from_command_line(override: str) -> dict[KeyPath, Given]:
    key, found, text = override.partition("=")
    path = tuple(key.strip().split("."))
    if not found or len(path) < 2:
        raise ConfigError(
            f"--set {override!r}.", "section.key=value.", "--set window.size='5 minutes'"
        )
    leaves = _leaves(path, _value(text.strip()))
    given = {below: Given(value, "command line") for below, value in leaves}
    for below, one in given.items():
        require_reference(".".join(below), one.value, "on the command line")
    return given


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, KeyError):
        return text


def _leaves(path: KeyPath, value: Any) -> Iterator[tuple[KeyPath, Any]]:
    """Yield each key with its value; of the tables in a section, the open-ended ones key by key."""
    if isinstance(value, dict) and (len(path) < 2 or path[:2] in OPEN_ENDED):
        for key, below in value.items():
            yield from _leaves((*path, key), below)
    elif path[:2] in OPEN_ENDED and len(path) > 2:
        # TOML takes the dots of an unquoted `sasl.mechanism = ...` for tables.
        yield (*path[:2], ".".join(path[2:])), value
    else:
        yield path, value


def _put(tree: dict[str, Any], path: KeyPath, value: Any) -> None:
    for key in path[:-1]:
        below = tree.setdefault(key, {})
        if not isinstance(below, dict):
            raise ConfigError(f"{'.'.join(path)} is given, but {key} is {below!r} and no section.")
        tree = below
    tree[path[-1]] = value
