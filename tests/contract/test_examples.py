"""Every example in the README and in docstrings runs, and gives what it says."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tidegate

README = Path(tidegate.__file__).parents[1] / "README.md"
MODULES = sorted(module.name for module in pkgutil.walk_packages(tidegate.__path__, "tidegate."))
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


@pytest.fixture
def given(spark: SparkSession, clicks: DataFrame) -> dict[str, Any]:
    """What examples may use without saying where it comes from."""
    return {"spark": spark, "clicks": clicks, "F": F, "UTC": UTC, "datetime": datetime}


@pytest.fixture(scope="module")
def clicks(spark: SparkSession) -> DataFrame:
    rows = [
        (
            datetime(2026, 1, 1, 10, 3, second, tzinfo=UTC),
            f"/{second % 3}",
            f"u{second % 2}",
            second,
        )
        for second in range(9)
    ]
    return spark.createDataFrame(rows, "event_time timestamp, page string, user string, ms int")


def example_modules() -> list[str]:
    return [name for name in MODULES if not name.endswith("__main__") and ">>> " in source(name)]


def source(name: str) -> str:
    path = Path(tidegate.__file__).parents[1] / Path(*name.split("."))
    return (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text(
        encoding="utf-8"
    )


@pytest.mark.parametrize("name", example_modules())
def test_the_examples_of_a_module_hold(name: str, given: dict[str, Any]) -> None:
    module = importlib.import_module(name)
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    reports: list[str] = []
    for found in doctest.DocTestFinder(recurse=True).find(module, globs=given | vars(module)):
        runner.run(found, out=reports.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(reports)


def test_the_examples_of_the_readme_run_one_after_the_other(given: dict[str, Any]) -> None:
    blocks = PYTHON.findall(README.read_text(encoding="utf-8"))
    assert blocks
    for number, block in enumerate(blocks):
        exec(compile(block, f"README.md, example {number + 1}", "exec"), given)


def test_the_readme_s_own_links_lead_somewhere() -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", README.read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (README.parent / link).exists()] == []


def test_the_readme_names_only_targets_of_make_that_exist() -> None:
    makefile = (README.parent / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    assert set(re.findall(r"`?make ([a-z]+)`", README.read_text(encoding="utf-8"))) <= targets
