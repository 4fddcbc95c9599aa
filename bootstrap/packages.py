"""The virtual environment, its locked packages, and tidegate itself."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from .machine import DISK_FULL, NO_PACKAGES, PYTHONS, WRONG_PYTHON, SetupError, python_version

_SECONDS = 1800
_UNREACHABLE = (
    r"timed out|Connection(Error|Refused|Reset)|NewConnectionError|Max retries"
    r"|name resolution|ProxyError|SSLError"
)
_MISSING = r"No matching distribution|Could not find a version"
_DISK = "the disk is full"
# The cause by the output of pip; the first match counts.
_CAUSES = {
    _UNREACHABLE: "the package registry does not respond",
    r"No space left": _DISK,
    r"DO NOT MATCH THE HASHES": "a package differs from requirements.lock",
    _MISSING: "the package registry does not have a locked version",
}
_QUIET = ("--no-input", "--disable-pip-version-check", "--progress-bar", "off")
_TIMEOUTS = ("--timeout", "30", "--retries", "2")


def make_venv(venv: Path, python: str, log: Path) -> Path:
    """Create a virtual environment unless a supported one exists, and return its interpreter."""
    inside = venv / "bin" / "python"
    if python_version(str(inside)) in PYTHONS:
        return inside
    shutil.rmtree(venv, ignore_errors=True)
    with log.open("ab") as out:
        done = subprocess.run([python, "-m", "venv", str(venv)], stdout=out, stderr=out)
    if done.returncode:
        hint = "on Debian and Ubuntu install python3-venv"
        raise SetupError(
            WRONG_PYTHON, f"{python} cannot create a virtual environment; {hint}; log: {log}"
        )
    return inside


def install_locked(locks: Sequence[Path], python: Path, log: Path, *options: str) -> None:
    """Install the packages of lock files, with their hashes verified."""
    files = [part for lock in locks for part in ("-r", str(lock))]
    _pip(python, ["--require-hashes", *options, *files], log)


def install_project(root: Path, python: Path, log: Path) -> None:
    """Install tidegate as an editable package, without a registry."""
    _pip(python, ["--no-deps", "--no-index", "--no-build-isolation", "-e", str(root)], log)


def _pip(python: Path, arguments: list[str], log: Path) -> None:
    command = [str(python), "-m", "pip", "install", *_QUIET, *_TIMEOUTS, *arguments]
    start = log.stat().st_size if log.exists() else 0
    with log.open("ab") as out:
        try:
            code = subprocess.run(command, stdout=out, stderr=out, timeout=_SECONDS).returncode
        except subprocess.TimeoutExpired:
            out.write(b"timed out\n")
            code = -1
    if code:
        reason = cause(log.read_bytes()[start:].decode("utf-8", "replace"))
        number = DISK_FULL if reason == _DISK else NO_PACKAGES
        raise SetupError(number, f"{reason}; log of pip: {log}")


def cause(output: str) -> str:
    """Return the cause of a pip failure."""
    lines = re.findall(r"^.*(?:ERROR|WARNING|Error|error).*$", output, re.MULTILINE)
    errors = "\n".join(lines) or output
    for pattern, words in _CAUSES.items():
        if re.search(pattern, errors):
            return words
    return "pip failed"
