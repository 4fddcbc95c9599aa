"""Every example in the README, in the pages of docs/ and in docstrings runs."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from typer.testing import CliRunner

import tidegate
from tests.support.page_examples import READERS, Reader, blocks, names_files
from tidegate.cli import app
from tidegate.testing import Broker

ROOT = Path(tidegate.__file__).parents[1]
PAGES = [
    "README.md",
    *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md")),
]
MODULES = sorted(module.name for module in pkgutil.walk_packages(tidegate.__path__, "tidegate."))
FILE_NAME = re.compile(
    r"\b(?:[Ss]ave|[Ww]rite|[Pp]ut)\b[^.`]*\b(?:as|in|into|to) `(\S+\.(?:py|toml))`"
)
"""The name of a file that a page asks its reader to save."""
SAMPLE = re.compile(r"^\$ tidegate (produce \S+ --sample .*)$", re.MULTILINE)
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


def text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def example_modules() -> list[str]:
    return [name for name in MODULES if not name.endswith("__main__") and ">>> " in source(name)]


def source(name: str) -> str:
    path = ROOT / Path(*name.split("."))
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


@pytest.fixture
def servers(page: str) -> Iterator[str]:
    """The address of a broker of the page's own, with its sample clicks."""
    samples = SAMPLE.findall(text(page))
    if names_files(text(page)):
        samples = []
    elif not samples and "create_topics" not in text(page):
        yield READERS
        return
    with Broker.start() as broker:
        for command in samples:
            made = CliRunner().invoke(
                app, [*command.split(), "--servers", broker.bootstrap_servers]
            )
            assert made.exit_code == 0, made.output
        yield broker.bootstrap_servers


def has_examples(page: str) -> bool:
    return any(block.kind == "python" or block.title for block in blocks(text(page)))


# tests/cli/test_five_minutes.py follows these, and checks their tables.
FIRST_PAGES = ("README.md", "docs/get-started/quickstart.md")


@pytest.mark.pages
@pytest.mark.broker
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize(
    "page", [page for page in PAGES if has_examples(page) and page not in FIRST_PAGES]
)
def test_the_examples_of_a_page_run_one_after_the_other(
    page: str, spark: SparkSession, servers: str, tmp_path: Path
) -> None:
    Reader(tmp_path, servers).follow(page, text(page))


@pytest.mark.parametrize("page", PAGES)
def test_a_file_that_the_reader_saves_has_its_name_as_the_title_of_its_block(page: str) -> None:
    assert set(FILE_NAME.findall(text(page))) <= {block.title for block in blocks(text(page))}


NAMED = """
```python title="numbers.py"
n = 1
print(n)
```

```console
$ python numbers.py
1
```
"""
OTHER_FILE = """
```python title="more.py"
print(n + 1)
```
"""
TYPED = """
```python
print(n + 1)
```
"""
OUTPUT = """
```console
$ python numbers.py
2
```
"""


def test_a_file_of_a_page_runs_by_itself(tmp_path: Path) -> None:
    reader = Reader(tmp_path, READERS)
    reader.follow("page", NAMED)
    assert reader.outputs == {"python numbers.py": "1\n"}


@pytest.mark.parametrize(
    ("more", "error"), [(OTHER_FILE, AssertionError), (TYPED, NameError), (OUTPUT, AssertionError)]
)
def test_a_page_fails_on_names_of_another_file_and_on_another_output(
    more: str, error: type[Exception], tmp_path: Path
) -> None:
    with pytest.raises(error):
        Reader(tmp_path, READERS).follow("page", NAMED + more)


def test_the_readme_s_own_links_lead_somewhere() -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", text("README.md"))
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_pages_name_only_files_and_targets_of_make_that_exist(page: str) -> None:
    # A reader's project has a Makefile of its own.
    makefiles = text("Makefile") + text("lib/cli/project/Makefile.txt")
    targets = set(re.findall(r"^([a-z]+):", makefiles, re.MULTILINE))
    assert set(re.findall(r"`?make ([a-z]+)`", text(page))) <= targets
    files = re.findall(r"`((?:jobs|conf|notebooks|tests|lib|benchmarks)/[^`* <>]+)`", text(page))
    assert [file for file in files if not (ROOT / file).exists()] == []
