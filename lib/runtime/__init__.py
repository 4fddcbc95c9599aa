"""What runs a query: the job, its run, its configuration and its command line."""

from .begin import begin
from .cli import command
from .config import Config
from .follow import Followed, follow
from .forgetting import Forgotten, forget
from .job import Input, Job
from .limits import Limits
from .process.logs import log_to
from .process.session import quiet, spark_session
from .query.compare import compare
from .query.late_rows import replay_late
from .query.run import run
from .replaying.replay import replay
from .replaying.switch import switch
from .summary import Summary
from .upkeep import Upkeep

__all__ = [
    "Config",
    "Followed",
    "Forgotten",
    "Input",
    "Job",
    "Limits",
    "Summary",
    "Upkeep",
    "begin",
    "command",
    "compare",
    "follow",
    "forget",
    "log_to",
    "quiet",
    "replay",
    "replay_late",
    "run",
    "spark_session",
    "switch",
]
