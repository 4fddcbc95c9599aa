"""The built package runs a session and jobs in an empty environment, without a checkout.

INSTALL_PYTHON is the interpreter of that environment; by default that of the tests.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.setup.test_package import tracked
from tests.support.page_examples import READERS, blocks
from tidegate.spark.jars import project_root
from tidegate.versions import installed_pyspark, spark_version

pytestmark = [pytest.mark.pages, pytest.mark.timeout(1_500)]

ROOT = project_root()
REPOSITORY = "https://code.example/tidegate"
PIN = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)", re.MULTILINE)
OWN_SESSION = """
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
import tidegate as tg
assert "site-packages" in tg.__file__
clicks = spark.createDataFrame([("a", 1), ("b", 2), ("a", 30)], "page STRING, s LONG")
clicks = clicks.select("page", F.timestamp_seconds("s").alias("event_time"))
windows = tg.windows.sliding(clicks, "1 minute", by="page", aggs={"n": tg.aggregates.count()})
print(sorted(row["n"] for row in windows.collect()))
"""
JOB = """
import subprocess
import sys
from pathlib import Path
from confluent_kafka import Producer
from tidegate.spark.jars import read_conf
from tidegate.testing import Broker

Path("job.toml").write_text(read_conf("jobs/deduplicated.toml"))
with Broker.start() as broker:
    broker.create_topic("clicks", partitions=1)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for clock in ("00:00:01", "00:00:01", "00:00:02", "01:00:00"):
        at = f"2026-01-01T{clock}Z"
        producer.produce("clicks", f'{{"page": "/a", "event_time": "{at}"}}')
    assert producer.flush(30) == 0
    settings = [
        f"kafka.bootstrap_servers={broker.bootstrap_servers}", 'events.topics=["clicks"]',
        "events.schema=page string, event_time timestamp", "output.root=tables",
        'deduplicate.key=["page", "event_time"]', "deduplicate.expected_items=1000",
    ]
    command = [str(Path(sys.executable).with_name("tidegate")), "run", "deduplicated"]
    arguments = ["--config", "job.toml"]
    arguments += [part for setting in settings for part in ("--set", setting)]
    sys.exit(subprocess.run([*command, *arguments]).returncode)
"""
README_JOB = f"""
import runpy
from pathlib import Path
from confluent_kafka import Producer
from tidegate.testing import Broker

record = '{{"page": "%s", "ms": 3.0, "event_time": "2026-01-01T%sZ"}}'
clicks = [("/a", "00:00:01"), ("/a", "00:00:59"), ("/b", "00:01:00"), ("/a", "01:00:00")]
with Broker.start() as broker:
    broker.create_topic("clicks", partitions=1)
    producer = Producer({{"bootstrap.servers": broker.bootstrap_servers}})
    for page, clock in clicks:
        producer.produce("clicks", record % (page, clock))
    producer.produce("clicks", "not JSON")
    assert producer.flush(30) == 0
    program = Path("views.py")
    program.write_text(program.read_text().replace("{READERS}", broker.bootstrap_servers))
    spark = runpy.run_path("views.py")["spark"]
    rows = spark.read.format("delta").load("tables/views").orderBy("window").collect()
    print(spark.version, [(row["page"], row["views"], row["mean_ms"]) for row in rows])
"""
COUNT = """
from tidegate import spark_session
spark = spark_session("count", master="local[1]", conf={"spark.ui.enabled": "false"})
print(spark.version, spark.read.format("delta").load("tables/events").count())
"""


@dataclass(frozen=True)
class Installation:
    """An environment with the built package, and a folder to run programs in."""

    python: Path
    folder: Path
    sdist: Path

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run the interpreter without the variables of the checkout."""
        hidden = ("PYTHONPATH", "PYSPARK_PYTHON", "TIDEGATE_JARS", "SPARK_HOME")
        environment = {key: value for key, value in os.environ.items() if key not in hidden}
        # The first session downloads the jars.
        environment |= {"XDG_CACHE_HOME": str(self.folder / "cache"), **variables}
        return subprocess.run(
            [str(self.python), *arguments],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=600,
        )


@pytest.fixture(scope="session")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """Build the sdist, build the wheel from it, and install the wheel with the locked versions."""
    folder = tmp_path_factory.mktemp("installed")
    built = folder / "dist"
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(built), str(ROOT)]
    addresses = {"TIDEGATE_REPO_URL": REPOSITORY}
    subprocess.run(build, check=True, capture_output=True, env={**os.environ, **addresses})
    (wheel,), (sdist,) = built.glob("*.whl"), built.glob("*.tar.gz")
    locks = (ROOT / "requirements.lock", ROOT / f"requirements-{spark_version()}.lock")
    pins = [pin for lock in locks for pin in PIN.findall(lock.read_text(encoding="utf-8"))]
    constraints = folder / "constraints.txt"
    constraints.write_text("".join(f"{name}=={version}\n" for name, version in pins))
    environment = folder / "environment"
    interpreter = os.environ.get("INSTALL_PYTHON", sys.executable)
    subprocess.run([interpreter, "-m", "venv", str(environment)], check=True)
    python = environment / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "--no-input", "-c", constraints, wheel]
    done = subprocess.run(list(map(str, install)), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return Installation(python, folder, sdist)


def test_the_sdist_contains_every_file_of_the_package(installation: Installation) -> None:
    with tarfile.open(installation.sdist) as archive:
        files = {name.partition("/")[2] for name in archive.getnames()}
    names = [*tracked("lib", "conf"), "pyproject.toml", "README.md", "LICENSE", "jars.lock"]
    names.append("hatch_build.py")
    assert set(names) - files == set()


def test_the_installed_command_prints_its_versions(installation: Installation) -> None:
    done = installation.run("-m", "tidegate", "--version")
    assert done.stdout.splitlines()[1] == f"Spark {installed_pyspark()}", done.stderr


def test_the_metadata_names_the_addresses_that_the_build_was_given(
    installation: Installation,
) -> None:
    program = "from importlib.metadata import metadata as of; print(of('tidegate').get_all(%r))"
    done = installation.run("-c", program % "Project-URL")
    assert ast.literal_eval(done.stdout) == [
        f"Repository, {REPOSITORY}",
        f"Changelog, {REPOSITORY}/blob/main/CHANGELOG.md",
        f"Issues, {REPOSITORY}/issues",
    ]


def test_an_own_session_without_pyspark_python_has_workers_with_the_packages(
    installation: Installation,
) -> None:
    # The first python3 on the PATH has no packages.
    programs = installation.folder / "programs"
    programs.mkdir()
    (programs / "python3").write_text("#!/bin/sh\nexit 127\n", encoding="utf-8")
    (programs / "python3").chmod(0o755)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    done = installation.run("-c", OWN_SESSION, PATH=path)
    assert done.stdout.splitlines() == ["[1, 1, 2]"], done.stderr[-3000:]


def test_a_toml_job_runs_on_the_embedded_broker(installation: Installation) -> None:
    done = installation.run("-c", JOB)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "downloading the jars of Delta and Kafka" in done.stderr
    count = installation.run("-c", COUNT)
    assert count.stdout.split()[-2:] == [installed_pyspark(), "2"], count.stderr[-3000:]


def test_the_first_job_of_the_readme_runs(installation: Installation) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (program,) = [block.body for block in blocks(text) if block.title == "views.py"]
    (installation.folder / "views.py").write_text(program, encoding="utf-8")
    done = installation.run("-c", README_JOB)
    assert done.returncode == 0, done.stderr[-3000:]
    counted, rows = done.stdout.splitlines()[-2:]
    assert counted == "5 read, 0 late, 1 dead letters"
    assert rows == f"{installed_pyspark()} [('/a', 2, 3.0), ('/b', 1, 3.0)]"
