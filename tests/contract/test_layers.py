"""Data flows down one way, and so do imports."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import tidegate

LIB = Path(tidegate.__file__).parent
MODULES = sorted(LIB.rglob("*.py"))
ROOT = {
    "errors",
    "made_once",
    "arrow_function",
    "local_cores",
    "columns",
    "conditions",
    "durations",
    "calendars",
    "aggregates",
    "frames",
    "offsets",
    "transform",
    "differences",
}
TRANSFORMS = ("windows", "joins", "sketches", "changes", "patterns")
BELOW = ("eventtime", "formats", "sources", "commit", "views", "stores", "sinks", *TRANSFORMS)
"""What a runner stands on."""
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "made_once": set(),
    "arrow_function": set(),
    "local_cores": set(),
    "columns": {"errors", "made_once"},
    "conditions": {"errors", "columns"},
    "durations": {"errors"},
    "calendars": {"errors", "durations"},
    "aggregates": {"errors", "columns"},
    "frames": {"errors"},
    "differences": {"errors", "columns"},
    "offsets": set(),
    "web": {"errors"},
    "transform": {"errors", "columns"},
    "jvm": {"errors"},
    "eventtime": ROOT,
    **{folder: ROOT | {"eventtime"} for folder in TRANSFORMS},
    "formats": ROOT | {"eventtime", "changes", "web"},
    "sources": ROOT | {"eventtime", "formats", "changes", "jvm"},
    "commit": ROOT | {"jvm"},
    "views": ROOT | {"jvm", "commit", "eventtime", *TRANSFORMS},
    "stores": ROOT,
    "sinks": ROOT
    | {"jvm", "web", "commit", "views", "stores", "eventtime", "sources", *TRANSFORMS},
    "runtime": ROOT | {"__version__", "jvm", *BELOW},
    "testing": ROOT | {"jvm", "runtime", *BELOW},
    "jobs": ROOT | {"runtime", *BELOW},
    "command": ROOT | {"jvm", "runtime", "jobs", "testing", *BELOW},
    "__main__": {"command"},
}
INTO_THE_JVM = re.compile(
    r"\._(jvm|jdf|jsq|jsc|jsparkSession|jdt|sc|jc)\b|\.sparkContext\b|\.rdd\b"
)
CONTEXT = {"runtime/process/session.py"}
"""Spark's log level can be set by its context alone."""


def place(path: Path) -> str:
    """Return the folder or root module of the library that a file belongs to."""
    return path.relative_to(LIB).with_suffix("").parts[0]


def imported(path: Path) -> set[str]:
    """Return the folders and root modules of the library that a file imports, itself left out."""
    package = path.relative_to(LIB).parts[:-1]
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            inside = [*base, *(node.module or "").split(".")] if node.module else [*base]
            found |= {inside[0]} if inside else {alias.name for alias in node.names}
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        assert not any(name.split(".")[0] in ("lib", "tidegate") for name in names), (
            f"{path}: write it relative"
        )
    return found - {place(path)}


@pytest.mark.parametrize("path", MODULES, ids=[str(path.relative_to(LIB)) for path in MODULES])
def test_a_module_imports_only_what_is_below_it(path: Path) -> None:
    if path == LIB / "__init__.py":
        assert imported(path) == set()
    else:
        assert imported(path) <= ALLOWED[place(path)]


@pytest.mark.parametrize("path", MODULES, ids=[str(path.relative_to(LIB)) for path in MODULES])
def test_one_folder_alone_reaches_into_the_jvm(path: Path) -> None:
    name = str(path.relative_to(LIB))
    if place(path) != "jvm" and name not in CONTEXT:
        assert not INTO_THE_JVM.findall(path.read_text(encoding="utf-8"))


def test_a_table_is_overwritten_whole_whatever_the_session_says() -> None:
    """An overwrite that leaves it to the session replaces, in some, no more than the partitions of
    the rows that come: the other rows of the table would stay beside them."""
    overwrites = re.compile(r"""overwrite["']|overwritePartitions|insertInto|INSERT OVERWRITE""")
    found = {
        str(path.relative_to(LIB))
        for path in MODULES
        if overwrites.search(path.read_text(encoding="utf-8"))
    }
    assert found == {"commit/table.py"}


def test_every_folder_has_its_place_in_the_layers() -> None:
    assert {place(path) for path in MODULES} - {"__init__"} <= set(ALLOWED)


def test_nothing_imports_the_folder_by_its_own_name() -> None:
    """`lib` and `tidegate` are one folder: imported under both names, each module would be there
    twice."""
    root = LIB.resolve().parent
    files = [
        path
        for folder in ("lib", "jobs", "tests", "benchmarks", "bootstrap")
        for path in (root / folder).rglob("*.py")
    ]
    found = [
        str(path)
        for path in files
        if re.search(r"^\s*(>>> )?(from|import) lib\b", path.read_text("utf-8"), re.MULTILINE)
    ]
    assert len(files) > 200
    assert found == []
