"""The package: the wheel is complete, and no tracked file names a registry."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import tidegate
from tests.support.kafka_topics import send_records
from tidegate.spark.jars import jars, jars_home, project_root, read_conf
from tidegate.testing import Broker
from tidegate.testing.child_process import config_arguments

ROOT = project_root()
JOBS_OF_A_WHEEL = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import tidegate
from typer.testing import CliRunner
from tidegate.cli import app
from tidegate.config.loading import load_config
from tidegate.jobs import BUILT_IN_JOBS
from tidegate.spark.jars import read_conf

found = {"from": tidegate.__file__}
for name in BUILT_IN_JOBS:
    file = Path(f"{name}.toml")
    file.write_text(read_conf(f"jobs/{file}"))
    help = CliRunner().invoke(app, ["run", name, "--help"], catch_exceptions=False)
    config = load_config(BUILT_IN_JOBS[name].model, file, [], {}).config
    found[name] = [help.exit_code, config.job.name]
print(json.dumps(found))
"""
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


@pytest.mark.jobs
@pytest.mark.slow
def test_a_wheel_has_the_command_and_the_configuration_of_every_shipped_job(
    wheel: Path, tmp_path: Path
) -> None:
    output = subprocess.run(
        [sys.executable, "-c", JOBS_OF_A_WHEEL, str(wheel)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(output.stdout)
    assert found.pop("from").startswith(str(wheel))
    scripts = {Path(name).stem for name in tracked("jobs")} - {"demo"}
    assert {"customer_history", "deduplicated", "alarms", "abandoned_checkouts"} <= scripts
    assert found == {name: [0, name] for name in scripts}


@pytest.mark.jobs
@pytest.mark.broker
def test_a_shipped_job_runs_from_a_wheel_without_a_checkout(
    wheel: Path, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    send_records(broker.bootstrap_servers, topic, [1, 1, 2, 3600])
    settings = {
        "kafka.bootstrap_servers": broker.bootstrap_servers,
        "events.topics": json.dumps([topic]),
        "events.schema": "page string, event_time timestamp",
        "deduplicate.key": '["page", "event_time"]',
        "deduplicate.expected_items": 1000,
        "output.root": tmp_path / "tables",
    }
    (tmp_path / "job.toml").write_text(read_conf("jobs/deduplicated.toml"), encoding="utf-8")
    command = ["run", "deduplicated", "--config", "job.toml", *config_arguments(settings)]
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import runpy, sys; sys.path.insert(0, {str(wheel)!r}); "
            "runpy.run_module('tidegate', run_name='__main__', alter_sys=True)",
            *command,
        ],
        cwd=tmp_path,
        env={**os.environ, "TIDEGATE_JARS": str(jars_home())},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    assert "4 rows read, 2 distinct events" in done.stderr, done.stderr[-600:]
    assert (tmp_path / "tables" / "_checkpoints" / "deduplicated").is_dir()


def test_no_tracked_file_names_a_registry() -> None:
    found = []
    for name in tracked():
        text = (ROOT / name).read_bytes().decode("utf-8", "replace")
        if name != "tests/setup/test_package.py" and REGISTRY.search(text):
            found.append(name)
    assert found == []


def test_every_locked_package_has_hashes() -> None:
    locks = [name for name in tracked() if re.fullmatch(r"requirements.*\.lock", name)]
    text = "".join((ROOT / name).read_text(encoding="utf-8") for name in locks)
    blocks = re.split(r"\n(?=[a-z])", text.strip())
    assert len(locks) > 1
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
