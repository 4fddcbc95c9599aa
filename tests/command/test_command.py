"""The command: topics that are listed and filled, projects that are begun, errors with codes."""

from __future__ import annotations

import importlib
import subprocess
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from tidegate.command import app, kafka
from tidegate.command.kafka import Cluster
from tidegate.runtime.config import load
from tidegate.testing import Broker


def called(*arguments: str, given: str = "") -> tuple[int, str]:
    """Return the exit code, and what was printed and told."""
    done = CliRunner().invoke(app, arguments, input=given)
    return done.exit_code, done.output


@pytest.mark.broker
def test_a_topic_is_made_filled_and_listed(broker: Broker, topic: str, tmp_path: Path) -> None:
    lines = tmp_path / "lines.jsonl"
    lines.write_text('{"k": "a", "n": 1}\n\n{"k": 7}\nno json\n', encoding="utf-8")
    servers = ["--servers", broker.servers]
    code, said = called("produce", topic, str(tmp_path / "no"), "--create", "2", *servers)
    assert (code, "no cannot be read: No such file" in said) == (2, True), said
    # No topic was made for it.
    code, said = called("produce", topic, str(lines), "--key", "k", *servers)
    assert (code, f"there is no topic {topic}" in said) == (3, True)
    code, said = called("produce", topic, str(lines), "--key", "k", "--create", "2", *servers)
    assert (code, "3 records sent" in said) == (0, True), said
    code, said = called("produce", topic, "-", *servers, given="one\ntwo\n")
    assert (code, "2 records sent" in said) == (0, True), said
    code, said = called("produce", topic, "--made-up", "200", *servers)
    assert (code, "200 records sent" in said, 'schema = "event_id' in said) == (0, True, True)
    code, said = called("topics", "--create", f"{topic}-more:3", *servers)
    assert (code, f"{topic}-more is made; partitions: 3." in said) == (0, True)
    code, said = called("topics", "--create", f"{topic}-more:5", *servers)
    assert (code, f"{topic}-more is there already; partitions: 3." in said) == (0, True)
    listed = [line.split() for line in called("topics", *servers)[1].splitlines()]
    assert [topic, "2", "205"] in listed
    assert [f"{topic}-more", "3", "0"] in listed


@pytest.mark.broker
def test_a_topic_whose_partitions_get_no_leaders_is_not_said_to_be_ready(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Cluster, "_ready", lambda *_: False)
    monkeypatch.setattr(kafka, "_LEADERS_SECONDS", 0.3)
    code, said = called("topics", "--create", f"{topic}:2", "--servers", broker.servers)
    assert (code, f"{topic} was created, and after 0.3 s" in said) == (3, True), said


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["produce", "t"], 2, "there is nothing to send"),
        (["produce", "t", "f", "--made-up", "500"], 2, "there are files and --made-up"),
        (["produce", "t", "f", "--servers", "localhost"], 2, "servers is 'localhost'"),
        (["topics", "--create", "a b"], 2, "--create 'a b'"),
        (["topics", "--option", "ssl"], 2, "--option 'ssl'"),
        (["topics", "--option", "no.such=1"], 2, "no.such"),
        (["status", "/no/such/folder"], 2, "there is no folder /no/such/folder"),
        (["init", "/tmp", "--name", "My Job"], 2, "--name 'My Job'"),
        (["no-such-command"], 2, "No such command"),
        (["run", "no-such-job"], 2, "No such command"),
    ],
)
def test_a_wrong_command_is_told(arguments: list[str], code: int, says: str) -> None:
    ended, said = called(*arguments)
    assert (ended, says in said) == (code, True), said


def test_a_folder_without_a_job_says_so(tmp_path: Path) -> None:
    assert called("status", str(tmp_path))[1].split()[:2] == ["No", "table"]


@pytest.mark.slow
def test_a_project_that_is_begun_passes_its_own_test(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "shop"
    code, said = called("init", str(folder), "--name", "page_hits")
    assert code == 0, said
    made = {"Makefile", "README.md", "conftest.py", "page_hits.py", "page_hits.toml"}
    assert {path.name for path in folder.iterdir()} == {*made, "test_page_hits.py"}
    assert not [path for path in folder.iterdir() if "@" in path.read_text(encoding="utf-8")]
    monkeypatch.syspath_prepend(str(folder))
    importlib.import_module("test_page_hits").test_events_are_counted_by_page_and_minute(spark)
    module = importlib.import_module("page_hits")
    config = load(module.PageHits, folder / "page_hits.toml", [], {}).config
    assert config.output.table.endswith("/.run/page_hits")
    assert module.job(config).name == "page_hits"
    would = subprocess.run(
        ["make", "--no-print-directory", "-n", "run", "SET=trigger.kind=continuous"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert would.stdout.strip() == "python page_hits.py --set trigger.kind=continuous"
    code, said = called("init", str(folder), "--name", "page_hits")
    assert (code, "already" in said) == (2, True)
