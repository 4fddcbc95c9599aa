"""The README's first job, word by word: a topic and columns of one's own, and what comes of it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tidegate.testing import Broker

from ..contract.test_examples import READERS, text

FIRST = re.compile(r"\[start:first\](.*)\[end:first\]", re.DOTALL)
BLOCK = re.compile(r"^```(console|toml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SAYS_WHERE = re.compile(r"in `(\S+\.toml)`")
STEP = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
pytestmark = [pytest.mark.broker, pytest.mark.slow]


@pytest.fixture
def first() -> str:
    """The part of the README."""
    found = FIRST.search(text("README.md"))
    assert found is not None
    return found[1]


def test_the_first_five_minutes_end_with_a_result_that_one_can_read(
    first: str, broker: Broker, tmp_path: Path
) -> None:
    blocks = BLOCK.findall(first)
    (name,) = SAYS_WHERE.findall(first)
    (toml,) = [content for kind, content in blocks if kind == "toml"]
    (tmp_path / name).write_text(toml, encoding="utf-8")
    steps = [
        step for kind, content in blocks if kind == "console" for step in STEP.findall(content)
    ]
    said = [shell(command, broker, tmp_path) for command, _ in steps]
    for (_, shown), printed in zip(steps, said, strict=True):
        assert [line for line in shown.splitlines() if not as_shown(line).search(printed)] == []
    assert "5,001 records sent to readings." in said[2]
    # The newest reading is of 10:15:00, and a window of 10:15 ends with the first one after it.
    assert "with an event of 2026-03-02 10:15:10Z or later" in said[3]
    assert "Read: 5,001 offsets of readings, in batches 0 to 1." in said[4]
    assert "Waiting in the topics: 0 offsets." in said[4]
    found = [line.split()[1:] for line in said[5].splitlines()[1:]]
    assert [sensor for sensor, *_ in found] == sorted(f"s{number}" for number in range(16))
    # Those before 10:14: one each 180 ms.
    assert sum(int(readings) for _, readings, _ in found) == 14 * 60_000 // 180


def as_shown(line: str) -> re.Pattern[str]:
    """Return what a line is to be like: another time is as good, and ... stands for anything."""
    alike = re.sub(r"[\d.]+ s\b", "SECONDS s", line)
    return re.compile(re.escape(alike).replace("SECONDS", r"[\d.]+").replace(r"\.\.\.", ".*"))


def shell(command: str, broker: Broker, folder: Path) -> str:
    """Return what a command prints, by a shell in which a reader's environment is active."""
    # A reader's broker is the only thing that differs here.
    done = subprocess.run(
        ["sh", "-c", command.replace(READERS, broker.servers)],
        cwd=folder,
        env={
            **os.environ,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "COLUMNS": "160",
            "TIDEGATE_KAFKA__SERVERS": broker.servers,
        },
        capture_output=True,
        text=True,
    )
    print(command, done.stdout, done.stderr, sep="\n")
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr
