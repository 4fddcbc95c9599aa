"""Jobs without code: a TOML file defines topics, columns and tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..config import Config
from . import enrich, join, windows
from .enrich import Enrich
from .join import Join
from .windows import Windows

__all__ = ["BUILT_IN_JOBS", "BuiltInJob", "Enrich", "Join", "Windows"]


@dataclass(frozen=True)
class BuiltInJob:
    """A built-in job: its configuration model, and the function that builds the job.

    description: the first line of its help.
    result_label: the label of output rows in the summary line.

    >>> BUILT_IN_JOBS["join"].result_label
    'joined'
    """

    model: type[Config]
    build: Callable[[Any], Any]
    description: str
    result_label: str = "written"


BUILT_IN_JOBS = {
    built_in.model.name: built_in
    for built_in in (
        BuiltInJob(windows.Windows, windows.job, windows.DESCRIPTION),
        BuiltInJob(join.Join, join.job, join.DESCRIPTION, result_label="joined"),
        BuiltInJob(enrich.Enrich, enrich.job, enrich.DESCRIPTION, result_label="enriched"),
    )
}
"""The built-in jobs by name."""
