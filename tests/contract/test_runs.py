"""What the targets of the Makefile run: CI takes all tests, by turns, and `make chaos` has none of
its own."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from functools import cache

import pytest

from tests.support import ci_shards as parts
from tidegate.spark.jars import project_root

ROOT = project_root()
TARGETS = ("test", "jobs", "crash", "pages")
OPTIONS = ("PYTEST_ADDOPTS", "MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS", "PARTS", "SPARK", "WORKERS")
"""What the `make` that runs these tests, or a user, passes on to every call of pytest."""
pytestmark = pytest.mark.slow


def run_command(*command: str) -> str:
    env = {name: value for name, value in os.environ.items() if name not in OPTIONS}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def pytest_of(target: str, *settings: str) -> list[str]:
    """Return the command by which a target of the Makefile runs pytest."""
    lines = run_command("make", "--no-print-directory", "--dry-run", target, *settings).splitlines()
    (command,) = (line for line in lines if " -m pytest " in line)
    return shlex.split(command)


@cache
def ordered(*command: str) -> list[str]:
    """Return the tests that a call of pytest runs."""
    lines = run_command(*command, "-n0", "--collect-only", "--quiet").splitlines()
    return [line for line in lines if "::" in line]


def collected(*command: str) -> frozenset[str]:
    """Return the tests that a call of pytest runs, each without its parameters."""
    return frozenset(line.split("[")[0] for line in ordered(*command))


def of_ci() -> frozenset[str]:
    """Return the tests of the targets of CI: together these are all, whatever -m."""
    *command, _, _ = pytest_of("test")
    return collected(*command)


@pytest.mark.jobs
def test_every_test_file_is_run_by_a_target_of_ci() -> None:
    run = {name.split("::")[0] for name in of_ci()}
    tracked = run_command("git", "ls-files", "tests/test_*.py", "tests/**/test_*.py").splitlines()
    assert len(tracked) > 80
    assert sorted(run) == sorted(tracked)


def test_make_test_runs_what_the_other_targets_of_ci_do_not() -> None:
    choices = {target: pytest_of(target)[-1] for target in TARGETS}
    others = [target for target in TARGETS if target != "test"]
    rest = " and ".join(f"not {target}" for target in others)
    of_two = "jobs and not crash"
    assert choices == {"test": rest, "jobs": of_two, "crash": "crash", "pages": "pages"}
    assert len({tuple(pytest_of(target)[:-2]) for target in TARGETS}) == 1


def test_ci_runs_all_of_its_targets() -> None:
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    lines = script.read_text(encoding="utf-8").splitlines()
    assert "set -euo pipefail" in lines
    (loop,) = (line for line in lines if line.startswith("for "))
    called, *of_older = (line.strip() for line in lines if line.strip().startswith("make "))
    named = loop.removeprefix("for target in ").removesuffix("; do").split()
    assert tuple(name.partition(":")[0] for name in named) == TARGETS
    assert called.split()[:3] == ["make", '"$name"', 'PARTS="$parts"']
    assert [line.partition(" 2>")[0] for line in of_older] == [
        'make quick SPARK="$spark" PARTS=4',
        'make installed SPARK="$spark"',
    ]
    (version,) = (line for line in lines if line.startswith("spark="))
    chosen = [
        run_command("bash", "-c", f"commit={commit}; {version}; echo $spark").strip()
        for commit in ("5eec1b2", "6cb06db")
    ]
    assert chosen == ["4.1", "4.0"]


def test_an_older_version_of_spark_runs_the_fast_tests_in_its_own_environment() -> None:
    python, *arguments = pytest_of("quick", "SPARK=4.1")
    _, *same_arguments = pytest_of("quick")
    assert (python, arguments) == (".venv-4.1/bin/python", same_arguments)


def test_each_test_of_whole_jobs_is_in_the_half_of_one_commit_or_another() -> None:
    tests = list(range(9))
    halves = [parts.due(tests, 2, commit) for commit in ("5eec1b2", "6cb06db")]
    assert halves == [[0, 2, 4, 6, 8], [1, 3, 5, 7]]
    assert parts.due(tests, 1, "6cb06db") == tests


@pytest.mark.jobs
def test_a_half_is_that_of_the_commit_that_is_checked_out() -> None:
    whole = ordered(*pytest_of("jobs"), "tests/jobs")
    half = ordered(*pytest_of("jobs", "PARTS=2"), "tests/jobs")
    assert half == parts.due(whole, 2, parts.commit())
    assert 0 < len(half) < len(whole)
    assert parts.commit() == run_command("git", "rev-parse", "HEAD").strip()


@pytest.mark.jobs
def test_make_chaos_runs_tests_of_ci_with_longer_draws() -> None:
    assert pytest_of("chaos")[-4:] == ["-m", "draws", "--draws", "long"]
    long = collected(*pytest_of("chaos"))
    assert long <= of_ci()
    marked = run_command(
        "git", "grep", "--files-with-matches", "^@pytest.mark.draws", "tests"
    ).split()
    assert {name.split("::")[0] for name in long} == set(marked)


def test_nothing_else_chooses_among_the_tests() -> None:
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (options,) = re.findall(r"^addopts = \[(.*)\]$", settings, re.MULTILINE)
    assert not re.search(r'"-m"|"-k"|--ignore|--deselect', options)
