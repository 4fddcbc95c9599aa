"""Lines of the log, as text and as JSON."""

from __future__ import annotations

import io
import json
import logging
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidegate import configure_logging
from tidegate.spark.jars import project_root
from tidegate.spark.spark_logging import LOGGER_NAME, spark_log_option
from tidegate.testing.child_process import spark_submit_command, submit_environment

LIVE_LINE = "views batch 7"
LIVE_SCRIPT = f"""
import logging, sys
from pyspark.sql import functions as F
from tidegate import configure_logging, spark_session
from tidegate.telemetry.console import ProgressDisplay

def complain(number):
    print("Traceback of a worker", file=sys.stderr, flush=True)
    return number

spark = spark_session("live", master="local[1]")
log = configure_logging()
with ProgressDisplay() as display:
    display.show_line({LIVE_LINE!r})
    log.warning("warning of a job")
    spark.range(1).select(F.udf(complain, "long")("id")).collect()
    input()
"""
SUBMITTED_SCRIPT = """
from tidegate import spark_session
spark_session("submitted")
print("first own line")
"""


@pytest.fixture(autouse=True)
def restored_logger() -> Iterator[None]:
    """Restore the logger after the test."""
    logger = logging.getLogger(LOGGER_NAME)
    before = (list(logger.handlers), logger.level, logger.propagate)
    yield
    logger.handlers[:], logger.level, logger.propagate = before


def test_a_line_has_a_time_in_utc_a_level_and_its_text() -> None:
    out = io.StringIO()
    configure_logging(out)
    logging.getLogger(f"{LOGGER_NAME}.runtime.query.run").warning("only %s MiB are free", 17)
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z WARNING only 17 MiB are free\n", out.getvalue()
    )


def test_as_json_each_line_is_an_object() -> None:
    out = io.StringIO()
    logger = configure_logging(out, as_json=True)
    logger.info("page_views: 4 batches\nin two lines")
    logger.debug("below the level")
    (line,) = out.getvalue().splitlines()
    record = json.loads(line)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", record.pop("time"))
    assert record == {
        "level": "INFO",
        "logger": LOGGER_NAME,
        "message": "page_views: 4 batches\nin two lines",
    }


def test_a_second_configuration_replaces_the_first() -> None:
    first, second = io.StringIO(), io.StringIO()
    configure_logging(first)
    configure_logging(second).info("once")
    assert first.getvalue() == ""
    assert len(second.getvalue().splitlines()) == 1


def test_spark_logging_uses_the_library_s_settings_unless_the_installation_has_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert re.fullmatch(
        r"-Dlog4j2.configurationFile=file:///.*/log4j2.properties", spark_log_option()
    )
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "log4j2.properties").touch()
    assert spark_log_option() == ""
    monkeypatch.delenv("SPARK_HOME")
    assert spark_log_option()
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert spark_log_option() == ""


def environment() -> dict[str, str]:
    return submit_environment({"PYTHONPATH": str(project_root())})


def _read_terminal(terminal: int) -> str:
    """Return the next part of the output; empty at its end."""
    try:
        return os.read(terminal, 65_536).decode(errors="replace")
    except OSError:
        # So Linux reports that the process has closed its side.
        return ""


def terminal_lines(script: Path, until: str) -> list[str]:
    """Run a script in a terminal, end its input after a text, and return its lines as printed."""
    terminal, side = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, str(script)], env=environment(), stdin=side, stdout=side, stderr=side
    )
    os.close(side)
    output, deadline, is_answered = "", time.monotonic() + 300, False
    try:
        while time.monotonic() < deadline:
            if select.select([terminal], [], [], 1)[0]:
                part = _read_terminal(terminal)
                if not part:
                    break
                output += part
            if until in output and not is_answered:
                os.write(terminal, b"\n")
                is_answered = True
    finally:
        process.kill()
        process.wait()
        os.close(terminal)
    assert is_answered, output
    return re.split(r"[\r\n]+", re.sub(r"\x1b\[[?0-9;]*[a-zA-Z]", "", output))


@pytest.mark.jobs
@pytest.mark.slow
def test_lines_of_the_job_and_of_its_workers_are_printed_above_the_live_line(
    tmp_path: Path,
) -> None:
    script = tmp_path / "live.py"
    script.write_text(LIVE_SCRIPT)
    lines = terminal_lines(script, until="Traceback of a worker")
    assert any(line.startswith(LIVE_LINE) for line in lines)
    (warning,) = [line for line in lines if "warning of a job" in line]
    assert warning.endswith("WARNING warning of a job")
    assert LIVE_LINE not in warning
    assert [line for line in lines if "Traceback" in line] == ["Traceback of a worker"]


@pytest.mark.jobs
@pytest.mark.slow
def test_spark_submit_without_log_settings_logs_three_lines_of_the_level_info(
    tmp_path: Path,
) -> None:
    script = tmp_path / "submitted.py"
    script.write_text(SUBMITTED_SCRIPT)
    command = spark_submit_command(script, master="local[1]", conf={"spark.ui.enabled": "false"})
    position = command.index("--driver-java-options")
    del command[position : position + 2]
    done = subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=300, check=True
    )
    assert done.stdout == "first own line\n"
    assert len(re.findall(r"^\S+ \S+ INFO ", done.stderr, re.MULTILINE)) <= 3, done.stderr
