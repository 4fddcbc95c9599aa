"""Jobs that need no code: their topics, columns and tables are all in a TOML file."""

from .enrich import Enrich
from .join import Join
from .ready import READY, ReadyJob
from .windows import Windows

__all__ = ["READY", "Enrich", "Join", "ReadyJob", "Windows"]
