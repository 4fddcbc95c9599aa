"""A job's configuration as the command line loads it: its file, options and overrides."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from tidegate import Config
from tidegate.config.loading import load_config
from tidegate.spark.jars import project_root

Model = TypeVar("Model", bound=Config)


def shipped(model: type[Config]) -> Path:
    """Return the shipped configuration file of a job."""
    return project_root() / "conf" / "jobs" / f"{model.name}.toml"


def configured(
    model: type[Model], options: Mapping[str, object] | None = None, *overrides: str
) -> Model:
    """Return a job's shipped configuration with options and --set overrides."""
    return load_config(model, shipped(model), [*_set(options or {}), *overrides], {}).config


def from_options(model: type[Model], options: Mapping[str, object], *overrides: str) -> Model:
    """Return a job's configuration without a file."""
    return load_config(model, None, [*_set(options), *overrides], {}).config


def _set(options: Mapping[str, object]) -> list[str]:
    return [f"{key}={value}" for key, value in options.items()]
