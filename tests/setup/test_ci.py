"""What CI runs: programs that tests need are fetched or named, and what was skipped is told."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tidegate.runtime.process.installation import project_root

TOOLS = ("bash", "dirname", "mktemp", "grep", "tee", "rm", "timeout")
SKIPPED = "SKIPPED [1] tests/test_report.py:204: there is no chromium"


def ran(folder: Path, *, make: str, apt: str | None) -> subprocess.CompletedProcess[str]:
    """Run CI's script where there are no programs but a few, and a `make` and an `apt-get`."""
    (folder / ".ci").mkdir()
    script = shutil.copy(project_root() / ".ci" / "run", folder / ".ci" / "run")
    programs = folder / "bin"
    programs.mkdir()
    for name in TOOLS:
        found = shutil.which(name)
        assert found is not None
        (programs / name).symlink_to(found)
    for name, text in (("make", make), ("apt-get", apt)):
        if text is not None:
            (programs / name).write_text(f"#!/bin/sh\n{text}\n")
            (programs / name).chmod(0o755)
    return subprocess.run(
        ["bash", str(script)], env={"PATH": str(programs)}, capture_output=True, text=True
    )


@pytest.mark.parametrize("apt", [None, "echo E: no such host >&2; exit 100"])
def test_ci_runs_all_targets_without_the_programs_and_ends_with_what_was_skipped(
    tmp_path: Path, apt: str | None
) -> None:
    done = ran(tmp_path, make=f'echo "made $1"; [ "$1" != test ] || echo "{SKIPPED}"', apt=apt)
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
        "ci: tests that were skipped, and why:",
        SKIPPED,
    ]


def test_ci_ends_with_the_code_of_a_target_that_fails_and_tells_what_was_skipped(
    tmp_path: Path,
) -> None:
    done = ran(tmp_path, make='echo "made $1"; [ "$1" != crash ] || exit 2', apt=None)
    assert done.returncode == 2
    assert done.stdout.splitlines()[1:] == [
        "made test",
        "made jobs",
        "made crash",
        "ci: tests that were skipped, and why:",
        "none",
    ]
