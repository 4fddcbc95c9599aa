"""The structure of the package: imports point down, between rooms and inside them."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import tidegate

LIB = Path(tidegate.__file__).parent
FILES = sorted(LIB.rglob("*.py"))
LAYERS: tuple[frozenset[str], ...] = tuple(
    frozenset(names.split())
    for names in (
        "errors",
        "versions pandas_bridge",
        "offsets arrow_kernels",
        "columns durations http_client input_frames jvm paths secrets transform",
        "aggregates calendars changelogs checkpoint delta event_time frame_diff joins spark stores",
        "commit formats patterns process sketches windows",
        "kafka",
        "sinks sources",
        "telemetry views",
        "job",
        "replication startup",
        "engine",
        "operations",
        "config",
        "jobs",
        "cli testing",
        "__main__",
    )
)
"""The rooms and root modules of the package, lowest first: each imports from lower layers only."""
RANK = {room: rank for rank, layer in enumerate(LAYERS) for room in layer}
PY4J = re.compile(r"\._(jvm|jdf|jsq|jsc|jsparkSession|jdt|sc|jc)\b|\.sparkContext\b|\.rdd\b")
LOG_LEVEL_MODULE = "spark/session.py"
"""Spark's log level can be set through its context only."""

Module = tuple[str, ...]


@dataclass(frozen=True)
class Import:
    """One imported name, and the module or package that it is imported from."""

    importer: Module
    source: Module
    name: str


def module_of(path: Path) -> Module:
    parts = path.relative_to(LIB).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


MODULES = {module_of(path): path for path in FILES}


@cache
def imports() -> tuple[Import, ...]:
    """Return all imports inside the package, including those for type checking."""
    return tuple(
        found for module, path in MODULES.items() if module for found in _imports(module, path)
    )


def _imports(module: Module, path: Path) -> Iterator[Import]:
    package = module if path.name == "__init__.py" else module[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        absolute = (
            [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
        )
        absolute += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        assert not any(name.split(".")[0] in ("lib", "tidegate") for name in absolute), (
            f"{path}: use a relative import"
        )
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            source = (*base, *(node.module.split(".") if node.module else ()))
            for alias in node.names:
                submodule = (*source, alias.name)
                yield Import(module, submodule if submodule in MODULES else source, alias.name)


def test_every_room_has_a_layer() -> None:
    assert {module[0] for module in MODULES if module} == set(RANK)


def test_a_room_imports_from_lower_layers_only() -> None:
    wrong = {
        f"{'.'.join(found.importer)} imports {'.'.join(found.source)}"
        for found in imports()
        if found.source
        and found.importer[0] != found.source[0]
        and RANK[found.importer[0]] <= RANK[found.source[0]]
    }
    assert not wrong


def test_the_top_level_is_a_face_that_no_module_imports_but_for_the_version() -> None:
    assert {found.name for found in imports() if not found.source} <= {"__version__"}


def test_no_module_imports_itself_through_others() -> None:
    graph: dict[Module, set[Module]] = defaultdict(set)
    for found in imports():
        if MODULES[found.importer].name != "__init__.py":
            graph[found.importer] |= {found.source} - {found.importer}
    assert _circle(graph) is None


def _circle(graph: Mapping[Module, set[Module]]) -> list[str] | None:
    finished: set[Module] = set()

    def visit(module: Module, path: tuple[Module, ...]) -> list[str] | None:
        if module in path:
            return [".".join(part) for part in (*path[path.index(module) :], module)]
        if module in finished or MODULES[module].name == "__init__.py":
            return None
        for imported in sorted(graph.get(module, ())):
            circle = visit(imported, (*path, module))
            if circle is not None:
                return circle
        finished.add(module)
        return None

    circles = (visit(module, ()) for module in sorted(graph))
    return next((circle for circle in circles if circle is not None), None)


def test_private_modules_and_names_stay_in_their_room() -> None:
    wrong = {
        f"{'.'.join(found.importer)} imports {found.name} from {'.'.join(found.source)}"
        for found in imports()
        if found.source
        and found.importer[0] != found.source[0]
        and (
            any(part.startswith("_") for part in found.source[1:])
            or (found.name.startswith("_") and (*found.source, found.name) not in MODULES)
        )
    }
    assert not wrong


def test_no_two_modules_have_one_name() -> None:
    by_name: dict[str, list[str]] = defaultdict(list)
    for module, path in MODULES.items():
        if path.name not in ("__init__.py", "__main__.py"):
            by_name[module[-1].lstrip("_")].append(".".join(module))
    assert {name: modules for name, modules in by_name.items() if len(modules) > 1} == {}


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(LIB)) for path in FILES])
def test_one_room_alone_uses_py4j(path: Path) -> None:
    name = path.relative_to(LIB)
    if name.parts[0] != "jvm" and str(name) != LOG_LEVEL_MODULE:
        assert not PY4J.findall(path.read_text(encoding="utf-8"))


def test_one_module_alone_overwrites_tables() -> None:
    """An overwrite that leaves the mode to the session replaces only the partitions of the new rows
    in some sessions, and leaves the other rows in the table."""
    overwrites = re.compile(r"""overwrite["']|overwritePartitions|insertInto|INSERT OVERWRITE""")
    writers = {
        str(path.relative_to(LIB))
        for path in FILES
        if overwrites.search(path.read_text(encoding="utf-8"))
    }
    assert writers == {"delta/delta_table.py"}


def test_nothing_imports_the_folder_by_its_own_name() -> None:
    """`lib` and `tidegate` are one folder; imported under both names, each module exists twice."""
    root = LIB.resolve().parent
    files = [
        path
        for folder in ("lib", "jobs", "tests", "benchmarks", "bootstrap")
        for path in (root / folder).rglob("*.py")
    ]
    pattern = re.compile(r"^\s*(>>> )?(from|import) lib\b", re.MULTILINE)
    assert len(files) > 200
    assert [str(path) for path in files if pattern.search(path.read_text("utf-8"))] == []
