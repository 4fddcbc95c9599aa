"""The package: the wheel is complete, and no tracked file names a registry."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import tidegate
from tidegate.spark.jars import jars, project_root, read_conf

ROOT = project_root()
REGISTRY = re.compile(
    r"https?://[^ \"'<>]*(/maven2|/simple/|/packages/[0-9a-f]{2}/)"
    r"|--(extra-)?index-url|--find-links"
)


def tracked(*paths: str) -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", *paths], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_the_package_is_the_one_of_this_checkout() -> None:
    assert Path(tidegate.__file__).resolve() == ROOT / "lib" / "__init__.py"


def test_the_wheel_contains_every_file_of_lib_and_conf(wheel: Path) -> None:
    files = set(zipfile.ZipFile(wheel).namelist())
    library = {f"tidegate/{name.removeprefix('lib/')}" for name in tracked("lib")}
    expected = library | {f"tidegate/{name}" for name in (*tracked("conf"), "conf/jars.lock")}
    assert "tidegate/spark/jars.py" in expected
    assert expected - files == set()
    (points,) = (name for name in files if name.endswith("entry_points.txt"))
    commands = zipfile.ZipFile(wheel).read(points).decode()
    assert "tidegate = tidegate.__main__:main" in commands.splitlines()


@pytest.mark.slow
def test_a_wheel_used_as_a_zip_finds_its_conf(wheel: Path, tmp_path: Path) -> None:
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); "
        "from tidegate.spark.jars import read_conf; print(read_conf(sys.argv[2]))"
    )
    output = subprocess.run(
        [sys.executable, "-c", script, str(wheel), "spark-defaults.conf"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert output.stdout.rstrip("\n") == read_conf("spark-defaults.conf").rstrip("\n")


def test_no_tracked_file_names_a_registry() -> None:
    found = []
    for name in tracked():
        text = (ROOT / name).read_bytes().decode("utf-8", "replace")
        if name != "tests/setup/test_package.py" and REGISTRY.search(text):
            found.append(name)
    assert found == []


def test_every_locked_package_has_hashes() -> None:
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    blocks = re.split(r"\n(?=[a-z])", lock.strip())
    assert len(blocks) > 50
    assert [
        block
        for block in blocks
        if not re.match(r"[a-z0-9.-]+==\S+ (; .* )?\\\n    --hash=sha256:", block)
    ] == []


def test_no_jar_of_pyspark_is_fetched_again() -> None:
    import pyspark

    shipped = {
        jar.name.rsplit("-", 1)[0] for jar in (Path(pyspark.__path__[0]) / "jars").glob("*.jar")
    }
    assert [jar.name for jar in jars("spark") if jar.name.rsplit("-", 1)[0] in shipped] == []


def test_make_help_lists_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    output = subprocess.run(
        ["make", "--no-print-directory"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert {line.split()[1] for line in output.splitlines()} == targets
    expected = ["demo", "test", "crash", "pages", "quick", "chaos", "check", "bench", "broker"]
    assert set(expected) <= targets
