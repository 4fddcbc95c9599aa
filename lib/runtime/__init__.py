"""Everything around a query: session, configuration, run, progress."""

from .cli import command
from .config.job_config import Config
from .job import Input, Job, Limits
from .process.session import quiet, spark_session
from .query.replay import replay_late
from .query.run import run
from .summary import Summary

__all__ = [
    "Config",
    "Input",
    "Job",
    "Limits",
    "Summary",
    "command",
    "quiet",
    "replay_late",
    "run",
    "spark_session",
]
