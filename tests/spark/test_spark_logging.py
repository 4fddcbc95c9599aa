"""Lines of the log, as text and as JSON."""

from __future__ import annotations

import io
import json
import logging
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from tests.scenarios.unique_visitors import OPTIONS
from tidegate import configure_logging
from tidegate.jobs.sample_clicks import clicks, send_clicks
from tidegate.spark.jars import project_root
from tidegate.spark.spark_logging import LOGGER_NAME, spark_log_option
from tidegate.testing import Broker
from tidegate.testing.child_process import (
    config_arguments,
    spark_submit_command,
    submit_environment,
)

COLUMNS = 80
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
JVM_SCRIPT = """
import os, subprocess, sys
from pathlib import Path
from tidegate.spark.spark_logging import jvm_output_through_process
from tidegate.testing.child_process import wait_until

with jvm_output_through_process():
    jvm = subprocess.Popen(
        ["sh", "-c", "trap '' PIPE; echo early >&2; read line; echo late >&2; echo printed"],
        stdin=subprocess.PIPE,
    )
wait_until(lambda: "early" in Path(sys.argv[1]).read_text(), timeout=60, event="the first line")
os.write(2, b"end\\n")
os._exit(0)
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


def test_a_jvm_that_outlives_its_process_prints_no_more(tmp_path: Path) -> None:
    script, errors = tmp_path / "script.py", tmp_path / "errors"
    script.write_text(JVM_SCRIPT)
    with errors.open("w") as error_file:
        # The output ends when the child ends, which its lost standard input makes it do.
        run = subprocess.run(
            [sys.executable, str(script), str(errors)],
            stdout=subprocess.PIPE,
            stderr=error_file,
            text=True,
            timeout=60,
            check=True,
        )
    assert run.stdout == "printed\n"
    assert errors.read_text() == "early\nend\n"


def test_the_error_of_a_jvm_that_cannot_start_is_printed(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import os, subprocess\n"
        "from tidegate.spark.spark_logging import jvm_output_through_process\n"
        "try:\n"
        "    with jvm_output_through_process():\n"
        "        subprocess.run(['sh', '-c', 'echo no Java >&2; exit 1'], check=True)\n"
        "except subprocess.CalledProcessError:\n"
        "    os._exit(3)\n"
    )
    run = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stderr) == (3, "no Java\n")


def environment() -> dict[str, str]:
    return submit_environment({"PYTHONPATH": str(project_root())})


def _read_terminal(terminal: int) -> str:
    """Return the next part of the output; empty at its end."""
    try:
        return os.read(terminal, 65_536).decode(errors="replace")
    except OSError:
        # So Linux reports that the process has closed its side.
        return ""


def terminal_lines(command: Sequence[str], until: str) -> list[str]:
    """Run a command in a terminal of 80 columns until it ends, and return its lines as printed.

    The terminal sends a line break after the text `until`.
    """
    terminal, side = pty.openpty()
    termios.tcsetwinsize(side, (24, COLUMNS))
    process = subprocess.Popen(
        command, env=environment(), stdin=side, stdout=side, stderr=side, start_new_session=True
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
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
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
    lines = terminal_lines([sys.executable, str(script)], until="Traceback of a worker")
    assert any(line.startswith(LIVE_LINE) for line in lines)
    (warning,) = [line for line in lines if "warning of a job" in line]
    assert warning.endswith("WARNING warning of a job")
    assert LIVE_LINE not in warning
    assert [line for line in lines if "Traceback" in line] == ["Traceback of a worker"]


@pytest.mark.jobs
@pytest.mark.broker
def test_a_job_under_spark_submit_has_a_live_line_in_the_terminal(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    sent = send_clicks(
        broker.bootstrap_servers, topic, clicks(900, seed=1, pages=3, rate=20), partitions=1
    )
    options = {
        **OPTIONS,
        "kafka.bootstrap_servers": broker.bootstrap_servers,
        "clicks.topics": topic,
        "clicks.max_records_per_batch": 300,
        "output.root": tmp_path / "tables",
    }
    command = spark_submit_command(
        project_root() / "jobs" / "unique_visitors.py",
        *config_arguments(options),
        conf={"spark.ui.enabled": "false"},
    )
    lines = terminal_lines(command, until="unique_visitors batch 2")
    bad = sum(each.click.fault is not None for each in sent)
    # The JVM prints its own warnings behind the live line.
    shown = [line.partition("Warning:")[0] for line in lines]
    live = [line for line in shown if line.startswith("unique_visitors ")]
    assert all(len(line) <= COLUMNS for line in live), live
    batches = {line.split(" | ")[0] for line in live if " | " in line}
    assert batches == {f"unique_visitors batch {number}" for number in range(3)}
    counts = f"in 900 out {900 - bad} late 0 dead {bad}"
    assert f"unique_visitors batch 2 | lag 0 | {counts}" in live
    (logged,) = [line for line in shown if "INFO unique_visitors: 3 batches" in line]
    assert logged.endswith(
        f"900 rows read, {900 - bad} merged into the sketches, 0 late, {bad} dead letters"
    )


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
