"""A job's configuration as the command line gives it: its file, and options beside it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from tidegate.runtime.config.job_config import Config
from tidegate.runtime.config.load import load
from tidegate.runtime.process.installation import project_root

Model = TypeVar("Model", bound=Config)


def shipped(model: type[Config]) -> Path:
    """Return the file that comes with a job."""
    return project_root() / "conf" / "jobs" / f"{model.name}.toml"


def configured(
    model: type[Model], options: Mapping[str, object] | None = None, *overrides: str
) -> Model:
    """Return a job's shipped configuration with options, and overrides as they stand by --set."""
    return load(model, shipped(model), [*_set(options or {}), *overrides], {}).config


def from_options(model: type[Model], options: Mapping[str, object], *overrides: str) -> Model:
    """Return a job's configuration without any file."""
    return load(model, None, [*_set(options), *overrides], {}).config


def _set(options: Mapping[str, object]) -> list[str]:
    return [f"{key}={value}" for key, value in options.items()]
