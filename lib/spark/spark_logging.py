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
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from .jars import conf_file

LOGGER_NAME = "tidegate"
_LOG_SETTINGS = "log4j2.properties"


class _StandardErrorHandler(logging.StreamHandler[IO[str]]):
    """Writes to the current `sys.stderr`, which a live display replaces while it is shown."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> IO[str]:  # type: ignore[override]
        return sys.stderr


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
    handler = _StandardErrorHandler() if stream is None else logging.StreamHandler(stream)
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
    settings = conf_file(_LOG_SETTINGS)
    home = os.environ.get("SPARK_HOME")
    is_installed = home is not None and Path(home, "conf", _LOG_SETTINGS).exists()
    if "SPARK_CONF_DIR" in os.environ or is_installed or not isinstance(settings, Path):
        return ""
    return f"-Dlog4j2.configurationFile={settings.resolve().as_uri()}"


@contextmanager
def jvm_output_above_live_line() -> Iterator[None]:
    """Let a JVM that starts in this block print above a live line, if standard error is a terminal.

    The JVM writes to a pipe, and a thread copies its lines to the current `sys.stderr`. Written to
    the terminal directly, lines of the JVM and of its Python workers would overwrite a live line.
    """
    if not sys.stderr.isatty():
        yield
        return
    reader, writer = os.pipe()
    terminal = os.dup(2)
    # The thread runs while the JVM starts, because a full pipe would stop it.
    threading.Thread(target=_copy_lines, args=(reader, terminal), daemon=True).start()
    try:
        os.dup2(writer, 2)
        yield
    finally:
        os.dup2(terminal, 2)
        os.close(writer)


def _copy_lines(reader: int, terminal: int) -> None:
    """Copy lines to standard error: to its live display, or else to the terminal."""
    with os.fdopen(reader, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if sys.stderr is sys.__stderr__:
                os.write(terminal, line.encode())
            else:
                sys.stderr.write(line)
