"""The rivals' set-up: jars and packages fetched and compared with their hashes, Java compiled.

All of it lies in `.run/peers`; steps that are done are skipped."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bootstrap import jars, packages
from bootstrap.__main__ import Step
from bootstrap.machine import WRONG_JAVA, WRONG_PYTHON, SetupError, python_version
from tidegate.runtime.process.installation import java, project_root

HERE = Path(__file__).resolve().parent
HOME = project_root() / ".run" / "peers"
JARS, CLASSES, FLINK = HOME / "jars", HOME / "classes", HOME / "flink"
LOG = HOME / "setup.log"
PROGRAM, LIVE, PERCOLATOR = PROGRAMS = "KafkaStreamsPeer", "KafkaStreamsLive", "LuceneMonitorPeer"
FLINK_PYTHONS = ((3, 11), (3, 12))
"""The versions that Flink has packages for."""


def fetch_jars() -> None:
    """Fetch the jars of Kafka Streams and of Lucene, and Flink's connector."""
    confs = ("streams", "flink", "lucene")
    jars.retrieve(HERE / "ivy.xml", JARS, confs, Path(sys.executable), LOG)
    jars.verify(JARS, HERE / "jars.lock")


def compile_programs() -> None:
    """Compile the programs in Java by the compiler that is beside it."""
    compiler = javac()
    if compiler is None:
        raise SetupError(
            WRONG_JAVA, "there is no javac beside java: install a JDK, not a JRE alone"
        )
    libraries = f"{JARS}/streams/*:{JARS}/lucene/*"
    command = [compiler, "-Xlint:all", "-Werror", "-cp", libraries, "-d", str(CLASSES)]
    sources = [str(HERE / f"{name}.java") for name in PROGRAMS]
    done = subprocess.run([*command, *sources], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SetupError(
            WRONG_JAVA, f"the rivals' programs do not compile:\n{done.stdout}{done.stderr}"
        )


def javac() -> str | None:
    """Return the compiler beside the Java that is used; None where that is a JRE."""
    found = Path(java()).resolve().with_name("javac")
    return str(found) if found.exists() else None


def install_flink() -> None:
    """Install Flink into a virtual environment of its own.

    Its other dependencies are those of functions written in Python, which SQL does without."""
    python = packages.make_venv(FLINK, _python_for_flink(), LOG)
    packages.install_locked(HERE / "requirements.lock", python, LOG, "--no-deps")


def _python_for_flink() -> str:
    for name in (sys.executable, "python3.12", "python3.11"):
        if python_version(name) in FLINK_PYTHONS:
            return name
    raise SetupError(WRONG_PYTHON, "there is no Python 3.11 or 3.12, the newest that Flink knows")


def install(*, flink: bool) -> None:
    """Run the steps that are not done; without `flink` those of the programs in Java alone."""
    place, here = ".run/peers/.stamp", "benchmarks/peers"
    locked = (f"{here}/ivy.xml", f"{here}/jars.lock")
    programs = (*(f"{here}/{name}.java" for name in PROGRAMS), *locked)
    steps = [
        Step("fetching and verifying the rivals' jars", f"{place}-jars", locked, fetch_jars),
        Step("compiling the rivals' programs", f"{place}-classes", programs, compile_programs),
    ]
    if flink:
        packed = (f"{here}/requirements.lock",)
        steps.append(Step("installing Flink", f"{place}-flink", packed, install_flink))
    HOME.mkdir(parents=True, exist_ok=True)
    for number, step in enumerate(steps, 1):
        if not step.done():
            step.run(f"{number}/{len(steps)}")
