"""The jobs that need no code, by the name that a command line gives them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..runtime.config import Config
from . import enrich, join, windows


@dataclass(frozen=True)
class ReadyJob:
    """A job's configuration, what makes the job of it, and what is said of it.

    about: the first line of its help. result: what its last line calls the rows that came out.
    """

    model: type[Config]
    build: Callable[[Any], Any]
    about: str
    result: str = "written"


READY = {
    ready.model.name: ready
    for ready in (
        ReadyJob(windows.Windows, windows.job, windows.ABOUT),
        ReadyJob(join.Join, join.job, join.ABOUT, result="joined"),
        ReadyJob(enrich.Enrich, enrich.job, enrich.ABOUT, result="taken up"),
    )
}
