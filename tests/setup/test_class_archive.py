"""The class archive of Spark; a JVM that cannot use it starts without a warning."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tidegate.spark.jars import java_path
from tidegate.spark.session import archive_path, cds_options


@pytest.mark.parametrize("is_archive", [True, False], ids=["other class path", "not an archive"])
def test_a_jvm_ignores_an_unusable_archive_silently(is_archive: bool, tmp_path: Path) -> None:
    other = tmp_path / "classes.jsa"
    other.write_bytes(b"no archive")
    archive = archive_path() if is_archive else other
    done = subprocess.run(
        [java_path(), *cds_options(archive).split(), "-version"], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert "version" in done.stderr.splitlines()[0]
    assert "warning" not in done.stderr


SESSION = """
from tidegate import spark_session
spark_session("archived", master="local[1]", conf={"spark.ui.enabled": "false"})
"""


@pytest.mark.jobs
@pytest.mark.slow
@pytest.mark.skipif(not archive_path().exists(), reason="make test makes the archive")
def test_a_session_loads_classes_of_spark_and_delta_from_the_archive(tmp_path: Path) -> None:
    loaded = tmp_path / "loaded.txt"
    options = {"JDK_JAVA_OPTIONS": f"-Xlog:class+load:file={loaded}"}
    subprocess.run([sys.executable, "-c", SESSION], check=True, env={**os.environ, **options})
    sources = dict(re.findall(r"(\S+) source: (.+)", loaded.read_text(encoding="utf-8")))
    for name in ("org.apache.spark.SparkContext", "io.delta.sql.DeltaSparkSessionExtension"):
        fits = sources[name] == "shared objects file (top)"
        assert fits, f"{name} came from {sources[name]}; after an update: tidegate class-archive"


@pytest.mark.jobs
def test_an_unwritable_path_fails_before_the_archive_is_built(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    command = [sys.executable, "-m", "tidegate", "class-archive", "--to"]
    below = subprocess.run(
        [*command, str(tmp_path / "file" / "classes.jsa")], capture_output=True, text=True
    )
    assert below.returncode == 7
    assert f"cannot write to {tmp_path}/file" in below.stderr
    folder = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True)
    assert folder.returncode == 2
    # The message is in a box, whose lines can break anywhere.
    assert "is a directory" in " ".join(folder.stderr.replace("│", " ").split())
    assert [file.name for file in tmp_path.iterdir()] == ["file"]
