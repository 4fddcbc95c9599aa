"""`tidegate --version` prints the versions, also without a usable Java."""

from __future__ import annotations

import platform
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tidegate
from tidegate.cli import app
from tidegate.versions import installed_pyspark


def printed() -> list[str]:
    result = CliRunner().invoke(app, ["--version"], catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout.splitlines()


def test_the_versions_of_all_parts_are_printed() -> None:
    *lines, java = printed()
    assert lines == [
        f"tidegate {tidegate.__version__}",
        f"Spark {installed_pyspark()}",
        "Delta 4.4.0",
        f"Python {platform.python_version()}",
    ]
    assert re.fullmatch(r"Java (17|21)\.[\d.]+", java)


def test_without_a_java_the_other_versions_are_printed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    *lines, java = printed()
    assert lines[0] == f"tidegate {tidegate.__version__}"
    assert java == f"Java not usable: no Java in JAVA_HOME ({tmp_path})"
