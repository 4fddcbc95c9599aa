"""A command that fails prints one paragraph on standard error, without traces."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from tests.support.kafka_topics import send_records
from tidegate.cli import app
from tidegate.jobs import BUILT_IN_JOBS
from tidegate.testing import Broker

COMMANDS: dict[str, list[str]] = {
    "status": ["status", "/no/such/folder"],
    "topics": ["topics", "--servers", "nowhere"],
    "produce": ["produce", "clicks"],
    "redrive": ["redrive", "{root}/damaged"],
    "publish-changes": ["publish-changes", "{root}/damaged", "--key", "id", "--changelog", "/t"],
    "resume": ["resume", "{root}", "shop.public.users"],
    "erase": ["erase", "{root}", "--where", "user=alice"],
    "rescale": ["rescale", "{root}/no-checkpoint", "--to", "4"],
    "sizing": ["sizing", "tumbling", "--rate", "0"],
    "class-archive": ["class-archive", "--to", "{root}/notes.txt/classes.jsa"],
    "init": ["init", "{root}", "--name", "two words"],
}
JOB_COMMANDS = ("run", "compare", "replay", "doctor")
FAILING_SCRIPT = """
import sys
from pyspark.sql import functions as F
from tidegate import Job, run, sinks, spark_session
from tests.support.kafka_topics import pages_input

def ratios(rows):
    return rows.select(F.udf(lambda page: 1 / 0, "double")("page").alias("ratio"))

spark = spark_session("failing", master="local[1]")
servers, topic, table = sys.argv[1:]
inputs = {"pages": pages_input(servers, topic)}
run(Job(name="failing", inputs=inputs, each_batch=ratios, sink=sinks.Append(table)), spark)
"""


def is_paragraph(text: str) -> bool:
    """Return whether a text is the name of an error, its problem, and indented lines."""
    first, *others = text.strip().split("\n")
    return re.match(r"\w+Error: \S", first) is not None and all(
        re.match(r"  (expected|try|cause|fix): \S", line) for line in others
    )


def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=600
    )


def test_every_command_is_tried() -> None:
    groups = {group.name for group in app.registered_groups}
    commands = {
        command.callback.__name__ for command in app.registered_commands if command.callback
    }
    assert groups == set(JOB_COMMANDS)
    assert {name.replace("_", "-") for name in commands} == set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_failure_of_a_command_is_one_paragraph(
    command: str, spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "damaged" / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020}.json").write_text("no commit")
    (tmp_path / "notes.txt").write_text("notes")
    arguments = [argument.format(root=tmp_path) for argument in COMMANDS[command]]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code > 0
    assert is_paragraph(result.stderr), result.stderr
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")


@pytest.mark.jobs
@pytest.mark.parametrize("command", JOB_COMMANDS)
def test_a_failure_of_a_job_command_is_one_paragraph(command: str, tmp_path: Path) -> None:
    (job, *_) = BUILT_IN_JOBS
    done = run_python("-m", "tidegate", command, job, "--config", f"{tmp_path}/no.toml")
    assert done.returncode == 2
    assert is_paragraph(done.stderr), done.stderr


@pytest.mark.jobs
@pytest.mark.slow
@pytest.mark.broker
def test_an_error_inside_a_batch_of_a_script_is_named_with_its_place_and_without_java(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    send_records(broker.bootstrap_servers, topic, [1, 2])
    script = tmp_path / "failing.py"
    script.write_text(FAILING_SCRIPT)
    done = run_python(str(script), broker.bootstrap_servers, topic, f"{tmp_path}/table")
    assert done.returncode == 1
    trace = done.stderr[done.stderr.index("Traceback") :]
    *_, problem, cause, fix = trace.strip().split("\n")
    assert is_paragraph("\n".join([problem.rpartition(".")[2], cause, fix])), trace
    assert cause == f"  cause: ZeroDivisionError: division by zero ({script}, line 8, in <lambda>)"
    assert len(trace.splitlines()) <= 20
    assert not re.search(r"\bat org\.apache|^\{|\b(ERROR|WARN)\b", done.stderr, re.MULTILINE)
