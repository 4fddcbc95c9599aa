"""Installation of the peers: fetch and verify jars and packages, and compile the Java programs.

Everything is in `.run/peers`; completed steps are skipped."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pyspark

from bootstrap import jars, packages
from bootstrap.__main__ import Step
from bootstrap.machine import WRONG_JAVA, WRONG_PYTHON, SetupError, python_version
from tidegate.spark.jars import java_path, project_root

HERE = Path(__file__).resolve().parent
HOME = project_root() / ".run" / "peers"
JARS, CLASSES, FLINK = HOME / "jars", HOME / "classes", HOME / "flink"
LOG = HOME / "setup.log"
PROGRAM, LIVE, PERCOLATOR = PROGRAMS = "KafkaStreamsPeer", "KafkaStreamsLive", "LuceneMonitorPeer"
CATALOG = "IcebergTables"
FLINK_PYTHONS = ((3, 11), (3, 12))
"""The Python versions with packages of Flink."""


def fetch_jars() -> None:
    """Fetch the jars of Kafka Streams, of Lucene, of Iceberg, and of the Flink connector."""
    confs = {name: name for name in ("streams", "flink", "lucene", "iceberg")}
    jars.retrieve(HERE / "ivy.xml", JARS, confs, Path(sys.executable), LOG)
    jars.verify(JARS, HERE / "jars.lock")


def compile_programs() -> None:
    """Compile the programs of Kafka Streams and Lucene with the javac of the JDK in use."""
    _compile(PROGRAMS, f"{JARS}/streams/*:{JARS}/lucene/*", "all")


def compile_catalog() -> None:
    """Compile the catalog of Iceberg tables for Spark."""
    spark = Path(pyspark.__path__[0]) / "jars"
    # Manifests and annotations of Spark's jars name jars and classes that it does not ship.
    _compile([CATALOG], f"{JARS}/iceberg/*:{spark}/*", "all,-classfile,-path")


def _compile(names: Sequence[str], libraries: str, warnings: str) -> None:
    compiler = javac()
    if compiler is None:
        raise SetupError(WRONG_JAVA, "no javac next to java: install a JDK instead of a JRE")
    command = [compiler, f"-Xlint:{warnings}", "-Werror", "-cp", libraries, "-d", str(CLASSES)]
    sources = [str(HERE / f"{name}.java") for name in names]
    done = subprocess.run([*command, *sources], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SetupError(
            WRONG_JAVA, f"the Java programs do not compile:\n{done.stdout}{done.stderr}"
        )


def javac() -> str | None:
    """Return the javac of the Java in use; None for a JRE."""
    results = Path(java_path()).resolve().with_name("javac")
    return str(results) if results.exists() else None


def install_flink() -> None:
    """Install Flink into its own virtual environment.

    Its other dependencies are needed by Python functions only, not by SQL."""
    python = packages.make_venv(FLINK / ".venv", _python_for_flink(), LOG)
    packages.install_locked([HERE / "requirements.lock"], python, LOG, "--no-deps")


def _python_for_flink() -> str:
    for name in (sys.executable, "python3.12", "python3.11"):
        if python_version(name) in FLINK_PYTHONS:
            return name
    raise SetupError(
        WRONG_PYTHON, "no Python 3.11 or 3.12, the newest versions that Flink supports"
    )


def install(*, flink: bool, auto_cdc: bool = False) -> None:
    """Run the pending steps: of the Java programs, of Flink, and of Spark's AUTO CDC flow."""
    stamp, here = ".run/peers/.stamp", "benchmarks/peers"
    locked = (f"{here}/ivy.xml", f"{here}/jars.lock")
    programs = (*(f"{here}/{name}.java" for name in PROGRAMS), *locked)
    steps = [
        Step("fetching and verifying the peers' jars", f"{stamp}-jars", locked, fetch_jars),
        Step("compiling the peers' programs", f"{stamp}-classes", programs, compile_programs),
    ]
    if flink:
        packed = (f"{here}/requirements.lock",)
        steps.append(Step("installing Flink", f"{stamp}-flink", packed, install_flink))
    if auto_cdc:
        catalog = (f"{here}/{CATALOG}.java", *locked)
        steps.append(Step("compiling the catalog", f"{stamp}-catalog", catalog, compile_catalog))
    HOME.mkdir(parents=True, exist_ok=True)
    for number, step in enumerate(steps, 1):
        if not step.is_done():
            step.run(f"{number}/{len(steps)}")
