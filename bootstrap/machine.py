"""What the machine must have before anything is fetched: Python, Java and room on the disk."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

PYTHONS = ((3, 11), (3, 12), (3, 13))
JAVAS = (17, 21)
FREE_GB = 3

# The exit codes of the set-up.
WRONG_PYTHON = 3
WRONG_JAVA = 4
DISK_FULL = 5
NO_PACKAGES = 6
NO_JARS = 7
WRONG_JAR = 8

_DEBIAN = (
    "apt-get update && (apt-get install -y openjdk-17-jre-headless"
    " || apt-get install -y openjdk-21-jre-headless)"
)
_LINK = (
    'sudo ln -sfn "$(brew --prefix)/opt/openjdk@17/libexec/openjdk.jdk"'
    " /Library/Java/JavaVirtualMachines/"
)


class SetupError(Exception):
    """The reason why the set-up cannot go on, in words for a person, with the exit code."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


def find_python(wanted: str | None) -> str:
    """Return an interpreter that the lock file fits.

    That is the one wanted; or else this one, or the newest on the PATH."""
    newest_first = [f"python{_dotted(version)}" for version in reversed(PYTHONS)]
    candidates = [wanted] if wanted else [sys.executable, *newest_first]
    for name in candidates:
        path = shutil.which(name)
        if path and python_version(name) in PYTHONS:
            return path
    allowed = ", ".join(_dotted(version) for version in PYTHONS)
    raise SetupError(
        WRONG_PYTHON,
        f"{_python_at_hand(candidates[0])}; tidegate needs Python {allowed}. "
        "Install one, or name it: make setup PYTHON=...",
    )


def _python_at_hand(name: str) -> str:
    version = python_version(name)
    return f"{name} is Python {_dotted(version)}" if version else f"{name} does not run"


def _dotted(version: tuple[int, int]) -> str:
    major, minor = version
    return f"{major}.{minor}"


def python_version(python: str) -> tuple[int, int] | None:
    """Return the version of an interpreter; None where it does not run.

    The shim of a version that is not installed does not run, for one."""
    script = "import sys; print(*sys.version_info[:2])"
    try:
        done = subprocess.run([python, "-c", script], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.fullmatch(r"(\d+) (\d+)\s*", done.stdout)
    if done.returncode or match is None:
        return None
    return int(match[1]), int(match[2])


def java_major(banner: str) -> int | None:
    """Return the major version out of what `java -version` prints; None where it says none.

    8 for 1.8.0_392, 17 for 17.0.15, 21 for 21-ea."""
    match = re.search(r'version "(?:1\.)?(\d+)', banner)
    return int(match.group(1)) if match else None


def find_java() -> tuple[str, int | None]:
    """Return the Java that Spark will take, and its major version: JAVA_HOME's, or else the PATH's.

    The version is None where that Java does not run."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else "java"
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return java, None
    return java, java_major(done.stderr + done.stdout)


def java_refusal(java: str, major: int | None, install: str | None) -> str | None:
    """Return what is wrong with this Java and what to do about it; None when it will do.

    install: the command that installs another one here; None where none is known."""
    if major in JAVAS:
        return None
    by_java_home = java != "java"
    have = "no Java"
    if major:
        have = f"Java {major} ({java})"
    elif by_java_home:
        have = f"no Java that runs at {java}"
    do = "Install any OpenJDK build."
    if by_java_home:
        do = "JAVA_HOME names it: let it name another, or unset it."
    elif install:
        do = f"This installs it here:\n  {install}\n(INSTALL_JAVA=1 runs it)"
    return f"there is {have}; Spark needs Java 17 or 21. {do}"


def java_install_command(managers: set[str], root: bool) -> str | None:
    """Return the command that installs Java with one of the package managers; None without."""
    sudo = "" if root else "sudo "
    if "apt-get" in managers:
        return f"{sudo}sh -c '{_DEBIAN}'"
    if "dnf" in managers:
        return f"{sudo}dnf install -y java-21-openjdk-headless"
    if "brew" in managers:
        return f"brew install openjdk@17 && {_LINK}openjdk-17.jdk"
    return None


def require_java() -> None:
    """Refuse a machine without a fitting Java; with INSTALL_JAVA=1 install it first."""
    managers = {name for name in ("apt-get", "dnf", "brew") if shutil.which(name)}
    install = java_install_command(managers, root=os.geteuid() == 0)
    java, major = find_java()
    if major not in JAVAS and java == "java" and install and os.environ.get("INSTALL_JAVA") == "1":
        print(f"installing Java: {install}", flush=True)
        if subprocess.run(install, shell=True, check=False).returncode:
            raise SetupError(WRONG_JAVA, f"the installation of Java failed: {install}")
        java, major = find_java()
    refusal = java_refusal(java, major, install)
    if refusal:
        raise SetupError(WRONG_JAVA, refusal)


def require_disk(folder: Path, free: int | None = None) -> None:
    """Refuse a disk with less room than the packages, the jars and a demo's data take."""
    free = shutil.disk_usage(folder).free if free is None else free
    if free < FREE_GB * 10**9:
        raise SetupError(
            DISK_FULL, f"{folder} has {free / 10**9:.1f} GB free; the set-up needs {FREE_GB} GB."
        )
