"""The CI script installs or reports missing programs, and reports skipped tests."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tidegate.spark.jars import project_root

TOOLS = ("bash", "dirname", "mktemp", "grep", "tee", "rm", "timeout")
SKIPPED = "SKIPPED [1] tests/test_report.py:204: there is no chromium"


def run_ci(folder: Path, *, make: str, apt: str | None) -> subprocess.CompletedProcess[str]:
    """Run the CI script with a few programs, a fake `make` and a fake `apt-get` on the PATH."""
    (folder / ".ci").mkdir()
    script = shutil.copy(project_root() / ".ci" / "run", folder / ".ci" / "run")
    programs = folder / "bin"
    programs.mkdir()
    for name in TOOLS:
        program = shutil.which(name)
        assert program is not None
        (programs / name).symlink_to(program)
    for name, text in (("make", make), ("apt-get", apt)):
        if text is not None:
            (programs / name).write_text(f"#!/bin/sh\n{text}\n")
            (programs / name).chmod(0o755)
    return subprocess.run(
        ["bash", str(script)], env={"PATH": str(programs)}, capture_output=True, text=True
    )


@pytest.mark.parametrize("apt", [None, "echo E: no such host >&2; exit 100"])
def test_ci_runs_all_targets_without_optional_programs_and_reports_skipped_tests(
    tmp_path: Path, apt: str | None
) -> None:
    done = run_ci(tmp_path, make=f'echo "made $1"; [ "$1" != test ] || echo "{SKIPPED}"', apt=apt)
    first, *others = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    assert first.startswith("ci: ")
    assert "chromium prometheus" in first
    assert first.endswith("Their tests are skipped.")
    assert others == [
        "made test",
        SKIPPED,
        "made jobs",
        "made crash",
        "made pages",
        "made quick",
        "made installed",
        "ci: tests that were skipped, and why:",
        SKIPPED,
    ]


def test_ci_exits_with_the_code_of_a_failed_target_and_reports_skipped_tests(
    tmp_path: Path,
) -> None:
    done = run_ci(tmp_path, make='echo "made $1"; [ "$1" != crash ] || exit 2', apt=None)
    assert done.returncode == 2
    assert done.stdout.splitlines()[1:] == [
        "made test",
        "made jobs",
        "made crash",
        "ci: tests that were skipped, and why:",
        "none",
    ]
