"""The requirements of the machine: Python, Java and disk space."""

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

# The exit codes of the setup.
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
    """The setup failed; the message is for the user, the code is the exit code."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


def find_python(requested: str | None) -> str:
    """Return a supported interpreter.

    It is the requested one; by default this one, or the newest on the PATH."""
    newest_first = [f"python{_dotted(version)}" for version in reversed(PYTHONS)]
    candidates = [requested] if requested else [sys.executable, *newest_first]
    for name in candidates:
        path = shutil.which(name)
        if path and python_version(name) in PYTHONS:
            return path
    allowed = ", ".join(_dotted(version) for version in PYTHONS)
    raise SetupError(
        WRONG_PYTHON,
        f"{_describe_python(candidates[0])}; tidegate requires Python {allowed}. "
        "Install one, or set its path: make setup PYTHON=...",
    )


def _describe_python(name: str) -> str:
    version = python_version(name)
    return f"{name} is Python {_dotted(version)}" if version else f"{name} does not run"


def _dotted(version: tuple[int, int]) -> str:
    major, minor = version
    return f"{major}.{minor}"


def python_version(python: str) -> tuple[int, int] | None:
    """Return the version of an interpreter; None if it does not run.

    For example, a pyenv shim of a version that is not installed does not run."""
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
    """Return the major version in the output of `java -version`; None without one.

    8 for 1.8.0_392, 17 for 17.0.15, 21 for 21-ea."""
    match = re.search(r'version "(?:1\.)?(\d+)', banner)
    return int(match.group(1)) if match else None


def find_java() -> tuple[str, int | None]:
    """Return the Java that Spark uses, of JAVA_HOME or the PATH, and its major version.

    The version is None if Java does not run."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else "java"
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return java, None
    return java, java_major(done.stderr + done.stdout)


def java_problem(java: str, major: int | None, install: str | None) -> str | None:
    """Return why this Java is not supported, and the fix; None for a supported one.

    install: the command that installs Java here; None if unknown."""
    if major in JAVAS:
        return None
    by_java_home = java != "java"
    problem = "Java is not installed"
    if major:
        problem = f"Java {major} ({java}) is not supported"
    elif by_java_home:
        problem = f"{java} does not run"
    fix = "Install any OpenJDK build."
    if by_java_home:
        fix = "It is in JAVA_HOME: change or unset the variable."
    elif install:
        fix = f"Install it with:\n  {install}\n(INSTALL_JAVA=1 runs this command)"
    return f"{problem}; Spark requires Java 17 or 21. {fix}"


def java_install_command(managers: set[str], root: bool) -> str | None:
    """Return the command that installs Java with one of the package managers, or None."""
    sudo = "" if root else "sudo "
    if "apt-get" in managers:
        return f"{sudo}sh -c '{_DEBIAN}'"
    if "dnf" in managers:
        return f"{sudo}dnf install -y java-21-openjdk-headless"
    if "brew" in managers:
        return f"brew install openjdk@17 && {_LINK}openjdk-17.jdk"
    return None


def require_java() -> None:
    """Require a supported Java; with INSTALL_JAVA=1 install it first."""
    managers = {name for name in ("apt-get", "dnf", "brew") if shutil.which(name)}
    install = java_install_command(managers, root=os.geteuid() == 0)
    java, major = find_java()
    if major not in JAVAS and java == "java" and install and os.environ.get("INSTALL_JAVA") == "1":
        print(f"installing Java: {install}", flush=True)
        if subprocess.run(install, shell=True, check=False).returncode:
            raise SetupError(WRONG_JAVA, f"the installation of Java failed: {install}")
        java, major = find_java()
    problem = java_problem(java, major, install)
    if problem:
        raise SetupError(WRONG_JAVA, problem)


def require_disk(folder: Path, free: int | None = None) -> None:
    """Require disk space for the packages, the jars and the data of a demo."""
    free = shutil.disk_usage(folder).free if free is None else free
    if free < FREE_GB * 10**9:
        raise SetupError(
            DISK_FULL, f"{folder} has {free / 10**9:.1f} GB free; the setup requires {FREE_GB} GB"
        )
