"""The log of a job: lines with a time stamp and a level, or one JSON object a line.

The library logs under the name "tidegate" and sets up nothing by itself, so that a program that
imports it decides where its lines go. The command line sets up this.

Spark's own log, in a JVM that the library starts, has the errors and the warnings that a person can
act on.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from .installation import conf_file

NAME = "tidegate"


class _Plain(logging.Formatter):
    """One line a record: time in UTC, level, text."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        """Return a record's time."""
        at = datetime.fromtimestamp(record.created, UTC)
        return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class _Json(_Plain):
    """One JSON object a record: time, level, logger, message, and the error where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as JSON."""
        said = {
            "time": self.formatTime(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            said["error"] = self.formatException(record.exc_info)
        return json.dumps(said, ensure_ascii=False)


def log_to(
    stream: IO[str] | None = None, *, as_json: bool = False, level: int = logging.INFO
) -> logging.Logger:
    """Let the library log to a stream, standard error unless another is given; return its logger.

    A second call replaces what the first has set up.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_Json() if as_json else _Plain())
    logger = logging.getLogger(NAME)
    logger.handlers[:] = [handler]
    logger.setLevel(level)
    logger.propagate = False
    return logger


def spark_log() -> str:
    """Return the option by which a JVM sets up Spark's log.

    Empty where SPARK_CONF_DIR or a file of SPARK_HOME does, and where the package lies in a zip.
    """
    settings = conf_file("log4j2.properties")
    if _has_its_own_log() or not isinstance(settings, Path):
        return ""
    return f"-Dlog4j2.configurationFile={settings.resolve().as_uri()}"


def _has_its_own_log() -> bool:
    home = os.environ.get("SPARK_HOME")
    installed = home is not None and Path(home, "conf", "log4j2.properties").exists()
    return "SPARK_CONF_DIR" in os.environ or installed
