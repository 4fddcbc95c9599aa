"""`tidegate doctor JOB` and the option --doctor are equivalent."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tidegate.cli import app
from tidegate.spark.jars import read_conf

SERVERS = "127.0.0.1:1"
"""An address without a broker."""


def callbacks(group: str) -> dict[str, Callable[..., None]]:
    (commands,) = (
        each.typer_instance.registered_commands
        for each in app.registered_groups
        if each.name == group and each.typer_instance
    )
    return {str(each.name): each.callback for each in commands if each.callback}


def test_the_doctor_command_of_a_job_differs_from_run_by_one_default() -> None:
    run, doctor = callbacks("run"), callbacks("doctor")
    assert list(run) == list(doctor)
    for name, command in doctor.items():
        expected = dict(inspect.signature(run[name]).parameters)
        assert expected["doctor"].default is False
        expected["doctor"] = expected["doctor"].replace(default=True)
        assert dict(inspect.signature(command).parameters) == expected


@pytest.mark.jobs
@pytest.mark.slow
def test_the_doctor_of_a_new_job_prints_findings_and_creates_nothing(
    tmp_path: Path,
) -> None:
    file = tmp_path / "windows.toml"
    file.write_text(read_conf("jobs/windows.toml"), encoding="utf-8")
    root = tmp_path / "tables"
    command = [sys.executable, "-m", "tidegate", "doctor", "windows", "--config", str(file)]
    command += ["--set", f"kafka.bootstrap_servers={SERVERS}", "--set", f"output.root={root}"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    findings = ("not created yet", "MiB free", f"{SERVERS} does not answer", "as in jars.lock")
    for finding in findings:
        assert finding in result.stdout, result.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["windows.toml"]
