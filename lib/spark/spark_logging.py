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
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
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
def jvm_output_through_process() -> Iterator[None]:
    """Let a JVM that starts in this block write to standard error through this process.

    The JVM writes to a pipe, and a thread copies its lines: on a terminal to the current
    `sys.stderr`, because lines of the JVM and of its Python workers would overwrite a live line.
    After this process has ended, nothing is copied: workers that lose their JVM print traces.
    """
    if sys.stderr is None:
        yield
        return
    reader, writer = os.pipe()
    standard_error = os.dup(2)
    # The thread runs while the JVM starts, because a full pipe would stop it.
    target = os.dup(standard_error)
    copy_lines = partial(_copy_lines, reader, target, is_terminal=sys.stderr.isatty())
    thread = threading.Thread(target=copy_lines, daemon=True)
    thread.start()
    is_started = False
    try:
        os.dup2(writer, 2)
        yield
        is_started = True
    finally:
        os.dup2(standard_error, 2)
        os.close(standard_error)
        os.close(writer)
        if not is_started:
            # The last lines of a JVM that has ended say why.
            thread.join(timeout=2)


def _copy_lines(reader: int, target: int, *, is_terminal: bool) -> None:
    """Copy lines to standard error; on a terminal to its live display, if there is one."""
    with (
        suppress(OSError),
        os.fdopen(reader, "rb") as lines,
        os.fdopen(target, "wb", buffering=0) as standard_error,
    ):
        for line in lines:
            if is_terminal and sys.stderr is not sys.__stderr__:
                sys.stderr.write(line.decode(errors="replace"))
            else:
                standard_error.write(line)
