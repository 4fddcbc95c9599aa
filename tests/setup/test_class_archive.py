"""The archive of Spark's classes: a JVM that cannot take it starts all the same, in silence."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tidegate.runtime.process.class_archive import place, sharing
from tidegate.runtime.process.installation import environment, java


@pytest.mark.parametrize("whole", [True, False], ids=["of another class path", "no archive"])
def test_a_jvm_starts_in_silence_without_an_archive_that_is_not_its_own(
    whole: bool, tmp_path: Path
) -> None:
    other = tmp_path / "classes.jsa"
    other.write_bytes(b"no archive")
    archive = place() if whole else other
    done = subprocess.run(
        [java(), *sharing(archive).split(), "-version"], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert "version" in done.stderr.splitlines()[0]
    assert "warning" not in done.stderr


SESSION = """
from tidegate.runtime import spark_session
spark_session("archived", master="local[1]", conf={"spark.ui.enabled": "false"})
"""


@pytest.mark.slow
@pytest.mark.skipif(not place().exists(), reason="make test makes the archive")
def test_a_session_takes_the_classes_of_spark_and_of_delta_from_the_archive(tmp_path: Path) -> None:
    loaded = tmp_path / "loaded.txt"
    told = {"JDK_JAVA_OPTIONS": f"-Xlog:class+load:file={loaded}"}
    subprocess.run([sys.executable, "-c", SESSION], check=True, env=environment(**told))
    sources = dict(re.findall(r"(\S+) source: (.+)", loaded.read_text(encoding="utf-8")))
    for name in ("org.apache.spark.SparkContext", "io.delta.sql.DeltaSparkSessionExtension"):
        fits = sources[name] == "shared objects file (top)"
        assert fits, f"{name} came from {sources[name]}; after an update: tidegate classes"


def test_a_place_where_no_archive_can_be_made_is_told_before_it_is(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    command = [sys.executable, "-m", "tidegate", "classes", "--to"]
    below = subprocess.run(
        [*command, str(tmp_path / "file" / "classes.jsa")], capture_output=True, text=True
    )
    assert below.returncode == 7
    assert f"{tmp_path}/file cannot be written to" in below.stderr
    folder = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True)
    assert folder.returncode == 2
    # The message stands in a box, whose lines may break anywhere.
    assert "is a directory" in " ".join(folder.stderr.replace("│", " ").split())
    assert [file.name for file in tmp_path.iterdir()] == ["file"]
