"""The command line: topics, projects, errors and exit codes."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from tests.support.checkpoint_files import JobFiles
from tidegate.cli import app
from tidegate.config import load_config
from tidegate.kafka import admin as kafka
from tidegate.kafka.admin import Cluster
from tidegate.spark.jars import project_root, read_conf
from tidegate.testing import Broker


def invoke(*arguments: str, stdin: str = "") -> tuple[int, str]:
    """Run a command; return its exit code and output."""
    result = CliRunner().invoke(app, arguments, input=stdin)
    return result.exit_code, result.output


@pytest.mark.jobs
@pytest.mark.broker
def test_a_topic_is_created_filled_and_listed(broker: Broker, topic: str, tmp_path: Path) -> None:
    lines = tmp_path / "lines.jsonl"
    lines.write_text('{"k": "a", "n": 1}\n\n{"k": 7}\nno json\n', encoding="utf-8")
    servers = ["--servers", broker.bootstrap_servers]
    code, output = invoke("produce", topic, str(tmp_path / "no"), "--create", "2", *servers)
    assert (code, "/no: No such file" in output) == (2, True), output
    # The failed command did not create the topic.
    code, output = invoke("produce", topic, str(lines), *servers)
    assert (code, f"topic {topic} does not exist" in output) == (3, True)
    code, output = invoke("produce", topic, str(lines), "--key", "k", "--create", "2", *servers)
    assert (code, "no field 'k' in line 4 of" in output) == (2, True), output
    lines.write_text('{"k": "a", "n": 1}\n\n{"k": 7}\n{"k": null}\n', encoding="utf-8")
    code, output = invoke("produce", topic, str(lines), "--key", "n", "--create", "2", *servers)
    assert (code, "no field 'n' in line 3 of" in output) == (2, True), output
    code, output = invoke("produce", topic, str(lines), "--key", "k", "--create", "2", *servers)
    assert (code, "3 records sent" in output) == (0, True), output
    code, output = invoke("produce", topic, "-", "--key", "K", *servers, stdin='{"k": 1}\n')
    assert (code, "of standard input" in output, "--key k" in output) == (2, True, True), output
    code, output = invoke("produce", topic, "-", *servers, stdin="one\ntwo\n")
    assert (code, "2 records sent" in output) == (0, True), output
    code, output = invoke("produce", topic, "--sample", "200", *servers)
    assert (code, "200 records sent" in output, 'schema = "event_id' in output) == (0, True, True)
    code, output = invoke("topics", "--create", f"{topic}-more:3", *servers)
    assert (code, f"{topic}-more created; partitions: 3." in output) == (0, True)
    code, output = invoke("topics", "--create", f"{topic}-more:5", *servers)
    assert (code, f"{topic}-more exists; partitions: 3." in output) == (0, True)
    listed = [line.split() for line in invoke("topics", *servers)[1].splitlines()]
    assert [topic, "2", "205"] in listed
    assert [f"{topic}-more", "3", "0"] in listed


@pytest.mark.jobs
@pytest.mark.broker
def test_the_commands_that_use_no_spark_start_no_java(
    job_files: JobFiles, broker: Broker, topic: str, tmp_path: Path
) -> None:
    java, starts = tmp_path / "jdk" / "bin" / "java", tmp_path / "starts"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho >> '{starts}'\nexit 1\n", encoding="utf-8")
    java.chmod(0o755)
    environment = {
        **os.environ,
        "PYTHONPATH": str(project_root()),
        "JAVA_HOME": str(tmp_path / "jdk"),
        "PATH": f"{java.parent}{os.pathsep}{os.environ['PATH']}",
    }

    def execute(*arguments: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "tidegate", *arguments]
        process = subprocess.run(command, env=environment, capture_output=True, text=True)
        return process.returncode, process.stdout + process.stderr

    lines = tmp_path / "lines.jsonl"
    lines.write_text('{"n": 1}\n{"n": 2}\n', encoding="utf-8")
    servers = ["--servers", broker.bootstrap_servers]
    code, output = execute("produce", topic, str(lines), "--create", "2", *servers)
    assert (code, f"2 records sent to {topic}." in output) == (0, True), output
    code, output = execute("topics", *servers)
    assert (code, [topic, "2", "2"] in [line.split() for line in output.splitlines()]) == (0, True)
    code, output = execute("status", str(job_files.root), *servers)
    assert (
        code,
        "job left, last commit " in output,
        "Waiting in the topics: 5 offsets." in output,
    ) == (0, True, True), output
    assert not starts.exists()
    code, output = execute("redrive", f"{job_files.root}/views.dead_letters", "--dry-run")
    assert code, output
    assert starts.exists(), "a command that uses Spark starts Java"


@pytest.mark.broker
def test_the_creation_of_a_topic_without_leaders_fails(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Cluster, "_has_leaders", lambda *_: False)
    monkeypatch.setattr(kafka, "_LEADERS_TIMEOUT_S", 0.3)
    code, output = invoke("topics", "--create", f"{topic}:2", "--servers", broker.bootstrap_servers)
    assert (code, f"topic {topic} is created, but not ready" in output) == (3, True), output


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["produce", "t"], 2, "missing argument: FILES"),
        (["produce", "t", "f", "--sample", "500"], 2, "files and --sample"),
        (
            ["produce", "t", "f", "--servers", "localhost"],
            2,
            "invalid bootstrap_servers: 'localhost'",
        ),
        (["topics", "--create", "a b"], 2, "--create: 'a b'"),
        (["topics", "--option", "ssl"], 2, "'ssl'"),
        (["topics", "--option", "no.such=1"], 2, "no.such"),
        (["status", "/no/such/folder"], 2, "missing folder: /no/such/folder"),
        (["init", "/tmp", "--name", "My Job"], 2, "--name: 'My Job'"),
        (["no-such-command"], 2, "No such command"),
        (["run", "no-such-job"], 2, "No such command"),
    ],
)
def test_an_invalid_command_fails(arguments: list[str], code: int, message: str) -> None:
    exit_code, output = invoke(*arguments)
    assert (exit_code, message in output) == (code, True), output


@pytest.mark.jobs
def test_settings_with_square_brackets_and_colons_are_shown_as_they_are(tmp_path: Path) -> None:
    file = tmp_path / "windows.toml"
    file.write_text(read_conf("jobs/windows.toml"), encoding="utf-8")
    process = subprocess.run(
        [
            *(sys.executable, "-m", "tidegate", "run", "windows", "--config", str(file)),
            *("--set", "output.root=/data/[x]:x:", "--show-config"),
        ],
        env={**os.environ, "PYTHONPATH": str(project_root())},
        capture_output=True,
        text=True,
    )
    lines = [line.split() for line in process.stdout.splitlines()]
    shown = [line[1] for line in lines if line[:1] == ["output.root"]]
    assert shown == ["/data/[x]:x:"], process.stdout + process.stderr


def test_the_status_of_an_empty_folder_reports_no_table(tmp_path: Path) -> None:
    assert invoke("status", str(tmp_path))[1].split()[:2] == ["No", "table"]


@pytest.mark.slow
def test_a_new_project_passes_its_own_test(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "shop"
    code, output = invoke("init", str(folder), "--name", "page_hits")
    assert code == 0, output
    files = {"Makefile", "README.md", "conftest.py", "page_hits.py", "page_hits.toml"}
    assert {path.name for path in folder.iterdir()} == {*files, "test_page_hits.py"}
    assert not [path for path in folder.iterdir() if "@" in path.read_text(encoding="utf-8")]
    monkeypatch.syspath_prepend(str(folder))
    importlib.import_module("test_page_hits").test_the_job_counts_events_by_page_and_minute(spark)
    module = importlib.import_module("page_hits")
    config = load_config(module.PageHits, folder / "page_hits.toml", [], {}).config
    assert config.output.table.endswith("/.run/page_hits")
    assert module.job(config).name == "page_hits"
    dry_run = subprocess.run(
        ["make", "--no-print-directory", "-n", "run", "SET=trigger.kind=continuous"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert dry_run.stdout.strip() == "python page_hits.py --set trigger.kind=continuous"
    code, output = invoke("init", str(folder), "--name", "page_hits")
    assert (code, "already" in output) == (2, True)
