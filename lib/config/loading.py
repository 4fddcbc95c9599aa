"""Loading of a configuration: defaults, a TOML file, the environment, and --set."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError
from rich.table import Table

from ..errors import ConfigError
from ..secrets import mask_secret, require_reference
from .validation_errors import OPEN_ENDED_TABLES, KeyPath, SourcedValue, to_config_error

ENVIRONMENT_PREFIX = "TIDEGATE_"

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True)
class LoadedConfig(Generic[Model]):
    """A validated configuration, and the source of each key that is set; see `load_config`."""

    config: Model
    sources: Mapping[KeyPath, str]


def load_config(
    model: type[Model],
    file: Path | None = None,
    overrides: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> LoadedConfig[Model]:
    """Load and validate a configuration.

    Sources in ascending precedence: the file, environment variables TIDEGATE_<SECTION>__<KEY>, and
    `overrides`, each `section.key=value`. A value of the last two is TOML, or plain text if it is
    not valid TOML: `window.size=5 minutes`. Precedence applies key by key, also to the options of
    an inline table `kafka.options={...}`.

    Raises ConfigError, which names each invalid key, its value and its source.

    >>> from pydantic import create_model
    >>> Retries = create_model("Retries", count=(int, 3))
    >>> Settings = create_model("Settings", retries=(Retries, Retries()))
    >>> loaded = load_config(Settings, None, ["retries.count=5"], {})
    >>> loaded.config.retries.count, loaded.sources["retries", "count"]
    (5, 'command line')
    """
    sourced_values: dict[KeyPath, SourcedValue] = {}
    if file is not None:
        sourced_values |= _from_file(file)
    sourced_values |= _from_environment(model, os.environ if environment is None else environment)
    for override in overrides:
        sourced_values |= _from_command_line(override)
    tree: dict[str, Any] = {}
    for path, sourced in sourced_values.items():
        _insert(tree, path, sourced.value)
    try:
        config = model.model_validate(tree)
    except ValidationError as error:
        raise to_config_error(model, error, sourced_values) from None
    return LoadedConfig(config, {path: sourced.source for path, sourced in sourced_values.items()})


def _from_file(file: Path) -> dict[KeyPath, SourcedValue]:
    try:
        tree = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"cannot read the configuration {file}: {error.strerror}", remedy="--config PATH"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"invalid TOML in the configuration {file}: {error}") from None
    return _without_secrets((), tree, f"file {file.name}", f"in {file}")


def _from_environment(
    model: type[BaseModel], environment: Mapping[str, str]
) -> dict[KeyPath, SourcedValue]:
    sourced_values: dict[KeyPath, SourcedValue] = {}
    for name, text in environment.items():
        if name.startswith(ENVIRONMENT_PREFIX) and "__" not in name:
            _require_double_underscore(model, name)
        elif name.startswith(ENVIRONMENT_PREFIX):
            for path, value in _leaves(_variable_path(name), _parse_value(text)):
                sourced_values[path] = SourcedValue(value, "environment")
    return sourced_values


def _require_double_underscore(model: type[BaseModel], name: str) -> None:
    """Raise ConfigError if a variable names a section with one underscore instead of two."""
    rest = name.removeprefix(ENVIRONMENT_PREFIX)
    for section in model.model_fields:
        if rest.lower() == section or rest.lower().startswith(f"{section}_"):
            key = rest[len(section) :].lstrip("_") or "<KEY>"
            raise ConfigError(
                f"invalid environment variable: {name}",
                f"{ENVIRONMENT_PREFIX}<SECTION>__<KEY>, with two underscores",
                f"{ENVIRONMENT_PREFIX}{section.upper()}__{key}",
            )


def _variable_path(name: str) -> KeyPath:
    """Return the key of a variable; in open-ended tables underscores become dots."""
    segments = name.removeprefix(ENVIRONMENT_PREFIX).split("__")
    parts = [part if any(map(str.islower, part)) else part.lower() for part in segments]
    if tuple(parts[:2]) in OPEN_ENDED_TABLES:
        parts[2:] = [part.replace("_", ".") for part in parts[2:]]
    return tuple(parts)


def _from_command_line(override: str) -> dict[KeyPath, SourcedValue]:
    key, equals_sign, text = override.partition("=")
    path = tuple(key.strip().split("."))
    if not equals_sign or len(path) < 2:
        raise ConfigError(
            f"invalid --set: {override!r}", "section.key=value", "--set window.size='5 minutes'"
        )
    return _without_secrets(path, _parse_value(text.strip()), "command line", "on the command line")


def _without_secrets(
    path: KeyPath, value: Any, source: str, place: str
) -> dict[KeyPath, SourcedValue]:
    leaves = dict(_leaves(path, value))
    for leaf_path, leaf in leaves.items():
        require_reference(".".join(leaf_path), leaf, place)
    return {leaf_path: SourcedValue(leaf, source) for leaf_path, leaf in leaves.items()}


def _parse_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, KeyError):
        return text


def _leaves(path: KeyPath, value: Any) -> Iterator[tuple[KeyPath, Any]]:
    """Yield each key with its value; open-ended tables key by key, other tables as one value."""
    if isinstance(value, dict) and (len(path) < 2 or path[:2] in OPEN_ENDED_TABLES):
        for key, child in value.items():
            yield from _leaves((*path, key), child)
    elif path[:2] in OPEN_ENDED_TABLES and len(path) > 2:
        # TOML parses the dots of an unquoted `sasl.mechanism = ...` as nested tables.
        yield (*path[:2], ".".join(path[2:])), value
    else:
        yield path, value


def _insert(tree: dict[str, Any], path: KeyPath, value: Any) -> None:
    for key in path[:-1]:
        child = tree.setdefault(key, {})
        if not isinstance(child, dict):
            raise ConfigError(f"invalid {key}: {child!r}; {'.'.join(path)} requires a section")
        tree = child
    tree[path[-1]] = value


LAST_SECTIONS = ("output", "limits", "maintenance", "trigger", "spark", "metrics")
"""Sections that are shown after the job's own sections."""


def config_table(loaded: LoadedConfig[Any]) -> Table:
    """Return the table; the source of a key that is not set is "default"."""
    table = Table("key", "value", "source", box=None, pad_edge=False)
    for path, value in config_rows(loaded.config):
        key = ".".join(path)
        table.add_row(key, mask_secret(key, value), loaded.sources.get(path, "default"))
    return table


def config_rows(config: BaseModel) -> Iterator[tuple[KeyPath, str]]:
    """Yield each key with its value as text, section by section."""
    tree = config.model_dump(mode="json", by_alias=True)
    own_sections = (key for key in tree if key not in LAST_SECTIONS)
    ordered_tree = {key: tree[key] for key in (*own_sections, *LAST_SECTIONS)}
    for path, value in _leaves((), ordered_tree):
        text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        yield path, "-" if value is None else text
