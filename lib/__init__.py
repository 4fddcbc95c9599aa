"""tidegate: event-time stream transforms for PySpark Structured Streaming, and jobs that run them.

`import tidegate as tg` provides what most programs need: `tg.Job`, `tg.Input`, `tg.KafkaSource`,
`tg.run`, and the packages `tg.windows`, `tg.joins`, `tg.sinks` and so on. Names are imported on
first use, so that a Python worker that needs one package does not load the others.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .spark.requirements import use_own_interpreter
from .versions import require_supported_spark

if TYPE_CHECKING:
    from . import (
        aggregates,
        changelogs,
        event_time,
        formats,
        joins,
        patterns,
        sinks,
        sketches,
        sources,
        stores,
        views,
        windows,
    )
    from .config.job_config import Config
    from .engine.runner import run
    from .formats import json_format
    from .job.job import Job
    from .job.policies import Limits, Maintenance
    from .jobs.job_command import run_job_command
    from .operations.compare import compare
    from .operations.erasure.erase import erase
    from .operations.erasure.erasure_report import ErasureReport
    from .operations.first_snapshot import write_initial_snapshot
    from .operations.follow import FollowResult, follow
    from .operations.late_replay import merge_late_rows
    from .operations.replay.replay import replay
    from .operations.replay.swap import swap_tables
    from .sources import Input, KafkaSource
    from .spark.session import set_log_level, spark_session
    from .spark.spark_logging import configure_logging
    from .telemetry.stats import Summary

__version__ = "0.1.0"

require_supported_spark()
use_own_interpreter()

_MODULES = {
    "Config": "config.job_config",
    "ErasureReport": "operations.erasure.erasure_report",
    "FollowResult": "operations.follow",
    "Input": "sources",
    "Job": "job.job",
    "KafkaSource": "sources",
    "Rule": "sources",
    "Limits": "job.policies",
    "Maintenance": "job.policies",
    "Summary": "telemetry.stats",
    "compare": "operations.compare",
    "configure_logging": "spark.spark_logging",
    "erase": "operations.erasure.erase",
    "follow": "operations.follow",
    "json_format": "formats",
    "merge_late_rows": "operations.late_replay",
    "replay": "operations.replay.replay",
    "run": "engine.runner",
    "run_job_command": "jobs.job_command",
    "set_log_level": "spark.session",
    "spark_session": "spark.session",
    "swap_tables": "operations.replay.swap",
    "write_initial_snapshot": "operations.first_snapshot",
}
_PACKAGES = (
    "aggregates",
    "changelogs",
    "event_time",
    "formats",
    "joins",
    "patterns",
    "sinks",
    "sketches",
    "sources",
    "stores",
    "views",
    "windows",
)
__all__ = [
    "Config",
    "ErasureReport",
    "FollowResult",
    "Input",
    "Job",
    "KafkaSource",
    "Limits",
    "Maintenance",
    "Rule",
    "Summary",
    "aggregates",
    "changelogs",
    "compare",
    "configure_logging",
    "erase",
    "event_time",
    "follow",
    "formats",
    "joins",
    "json_format",
    "merge_late_rows",
    "patterns",
    "replay",
    "run",
    "run_job_command",
    "set_log_level",
    "sinks",
    "sketches",
    "sources",
    "spark_session",
    "stores",
    "swap_tables",
    "views",
    "windows",
    "write_initial_snapshot",
]


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f".{name}", __name__)
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_MODULES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
