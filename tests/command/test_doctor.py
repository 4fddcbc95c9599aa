"""`tidegate doctor JOB` and the switch of a job do the same."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer import Typer

from tidegate.command import examined, jobs
from tidegate.runtime.process.installation import conf

SERVERS = "127.0.0.1:1"
"""Where no broker answers."""


def callbacks(app: Typer) -> dict[str, Callable[..., None]]:
    return {str(each.name): each.callback for each in app.registered_commands if each.callback}


def test_each_job_has_its_doctor_who_differs_from_its_run_by_the_switch_alone() -> None:
    run, doctor = callbacks(jobs), callbacks(examined)
    assert list(run) == list(doctor)
    for name, command in doctor.items():
        wanted = dict(inspect.signature(run[name]).parameters)
        assert wanted["doctor"].default is False
        wanted["doctor"] = wanted["doctor"].replace(default=True)
        assert dict(inspect.signature(command).parameters) == wanted


@pytest.mark.slow
def test_the_doctor_of_a_job_that_never_ran_tells_its_findings_and_makes_nothing(
    tmp_path: Path,
) -> None:
    file = tmp_path / "windows.toml"
    file.write_text(conf("jobs/windows.toml"), encoding="utf-8")
    root = tmp_path / "tables"
    called = [sys.executable, "-m", "tidegate", "doctor", "windows", "--config", str(file)]
    called += ["--set", f"kafka.servers={SERVERS}", "--set", f"output.root={root}"]
    ended = subprocess.run(called, capture_output=True, text=True, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    for told in ("not there yet", "MiB free", f"{SERVERS} does not answer", "as jars.lock has"):
        assert told in ended.stdout, ended.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["windows.toml"]
