"""The README's first job, as written: commands, configuration and output."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.test_examples import READERS, text
from tidegate.testing import Broker

FIRST = re.compile(r"\[start:first\](.*)\[end:first\]", re.DOTALL)
BLOCK = re.compile(r"^```(console|toml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE_NAME = re.compile(r"in `(\S+\.toml)`")
STEP = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.pages]


@pytest.fixture
def first() -> str:
    """The section of the README."""
    found = FIRST.search(text("README.md"))
    assert found is not None
    return found[1]


def test_the_commands_of_the_readme_print_the_shown_output(
    first: str, broker: Broker, tmp_path: Path
) -> None:
    blocks = BLOCK.findall(first)
    (name,) = FILE_NAME.findall(first)
    (toml,) = [content for kind, content in blocks if kind == "toml"]
    (tmp_path / name).write_text(toml, encoding="utf-8")
    steps = [
        step for kind, content in blocks if kind == "console" for step in STEP.findall(content)
    ]
    outputs = [shell(command, broker, tmp_path) for command, _ in steps]
    for (_, shown), printed in zip(steps, outputs, strict=True):
        assert [line for line in shown.splitlines() if not as_shown(line).search(printed)] == []
    assert "5,001 records sent to readings." in outputs[2]
    # The latest reading is at 10:15:00; a later one closes the window of 10:15.
    assert "with an event at 2026-03-02 10:15:10Z or later" in outputs[3]
    assert "Read: 5,001 offsets of readings, in batches 0 to 1." in outputs[4]
    assert "Waiting in the topics: 0 offsets." in outputs[4]
    table = [line.split()[1:] for line in outputs[5].splitlines()[1:]]
    assert [sensor for sensor, *_ in table] == sorted(f"s{number}" for number in range(16))
    # One reading every 180 ms until 10:14.
    assert sum(int(readings) for _, readings, _ in table) == 14 * 60_000 // 180


def as_shown(line: str) -> re.Pattern[str]:
    """Return the pattern of an output line: durations can differ, and ... matches any text."""
    masked = re.sub(r"[\d.]+ s\b", "SECONDS s", line)
    return re.compile(re.escape(masked).replace("SECONDS", r"[\d.]+").replace(r"\.\.\.", ".*"))


def shell(command: str, broker: Broker, folder: Path) -> str:
    """Run a command in a shell with the active environment; return its output."""
    # Only the address of the broker differs from the README.
    done = subprocess.run(
        ["sh", "-c", command.replace(READERS, broker.bootstrap_servers)],
        cwd=folder,
        env={
            **os.environ,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "COLUMNS": "160",
            "TIDEGATE_KAFKA__BOOTSTRAP_SERVERS": broker.bootstrap_servers,
        },
        capture_output=True,
        text=True,
    )
    print(command, done.stdout, done.stderr, sep="\n")
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr
