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

WRONG_PYTHON, WRONG_JAVA, DISK_FULL, NO_PACKAGES, NO_JARS, WRONG_JAR = range(3, 9)

_DEBIAN = "apt-get update && (apt-get install -y openjdk-17-jre-headless || apt-get install -y openjdk-21-jre-headless)"
_LINK = 'sudo ln -sfn "$(brew --prefix)/opt/openjdk@17/libexec/openjdk.jdk" /Library/Java/JavaVirtualMachines/'


class SetupError(Exception):
    """Why the set-up cannot go on, in words for a person, with the exit code."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


def find_python(wanted: str | None) -> str:
    """Return an interpreter that the lock file fits: the one wanted, this one, or one on the PATH,
    in this order."""
    if wanted:
        candidates = [wanted]
    else:
        candidates = [
            sys.executable,
            *("python{}.{}".format(*version) for version in reversed(PYTHONS)),
        ]
    found = [(shutil.which(name), python_version(name)) for name in candidates]
    for path, version in found:
        if path and version in PYTHONS:
            return path
    have = "{} is Python {}.{}".format(
        wanted or sys.executable, *(found[0][1] or sys.version_info[:2])
    )
    if not found[0][1]:
        have = f"{wanted} does not run"
    allowed = ", ".join("{}.{}".format(*version) for version in PYTHONS)
    raise SetupError(
        WRONG_PYTHON,
        f"{have}; tidegate needs Python {allowed}. Install one, or name it: make setup PYTHON=...",
    )


def python_version(python: str) -> tuple[int, int] | None:
    """Return the version of an interpreter, and None if it does not run, as a shim of an absent
    version does not."""
    script = "import sys; print(*sys.version_info[:2])"
    try:
        done = subprocess.run([python, "-c", script], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    numbers = done.stdout.split()
    return (
        (int(numbers[0]), int(numbers[1])) if done.returncode == 0 and len(numbers) == 2 else None
    )


def java_major(banner: str) -> int | None:
    """Return the major version out of what `java -version` prints: 8 for 1.8.0_392, 17 for 17.0.15,
    21 for 21-ea."""
    match = re.search(r'version "(?:1\.)?(\d+)', banner)
    return int(match.group(1)) if match else None


def find_java() -> tuple[str, int | None]:
    """Return the Java that Spark will take, that of JAVA_HOME or else the PATH's, and its major
    version."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else "java"
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return java, None
    return java, java_major(done.stderr + done.stdout)


def java_refusal(java: str, major: int | None, install: str | None) -> str | None:
    """Say what is wrong with this Java and what to do about it; None when it will do."""
    if major in JAVAS:
        return None
    have = (
        f"Java {major} ({java})"
        if major
        else "no Java"
        if java == "java"
        else f"no Java that runs at {java}"
    )
    if java != "java":
        return f"there is {have}; Spark needs Java 17 or 21. JAVA_HOME names it: let it name another, or unset it."
    do = (
        f"This installs it here:\n  {install}\n(INSTALL_JAVA=1 runs it)"
        if install
        else "Install any OpenJDK build."
    )
    return f"there is {have}; Spark needs Java 17 or 21. {do}"


def java_install_command(managers: set[str], root: bool) -> str | None:
    """Return the one command that installs Java with the package managers that are there."""
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
