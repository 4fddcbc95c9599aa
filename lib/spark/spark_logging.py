"""Logging of a job: lines with time and level, or one JSON object per line.

The library logs to the logger "tidegate" and configures nothing on import; the command line calls
`configure_logging`. Spark's own log contains errors and actionable warnings only, in JVMs that the
library starts.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from .jars import conf_file

LOGGER_NAME = "tidegate"


class _PlainFormatter(logging.Formatter):
    """One line per record: time in UTC, level, text."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        created = datetime.fromtimestamp(record.created, UTC)
        return created.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class _JsonFormatter(_PlainFormatter):
    """One JSON object per record: time, level, logger, message, and the error if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": self.formatTime(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


def configure_logging(
    stream: IO[str] | None = None, *, as_json: bool = False, level: int = logging.INFO
) -> logging.Logger:
    """Configure the library's logger for a stream, by default standard error, and return it.

    Each call replaces the previous configuration.

    >>> import io
    >>> stream = io.StringIO()
    >>> configure_logging(stream).info("started")
    >>> stream.getvalue()[-14:].rstrip()
    ' INFO started'
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_JsonFormatter() if as_json else _PlainFormatter())
    logger = logging.getLogger(LOGGER_NAME)
    logger.handlers[:] = [handler]
    logger.setLevel(level)
    logger.propagate = False
    return logger


def spark_log_option() -> str:
    """Return the JVM option that configures Spark's log.

    It is empty if SPARK_CONF_DIR or a file of SPARK_HOME configures the log, or if the package is
    in a zip archive.
    """
    settings = conf_file("log4j2.properties")
    home = os.environ.get("SPARK_HOME")
    is_installed = home is not None and Path(home, "conf", "log4j2.properties").exists()
    if "SPARK_CONF_DIR" in os.environ or is_installed or not isinstance(settings, Path):
        return ""
    return f"-Dlog4j2.configurationFile={settings.resolve().as_uri()}"
