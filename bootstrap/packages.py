"""The virtual environment, the locked packages in it, and tidegate itself."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from .machine import DISK_FULL, NO_PACKAGES, PYTHONS, WRONG_PYTHON, SetupError, python_version

_SECONDS = 1800
_SILENT = (
    r"timed out|Connection(Error|Refused|Reset)|NewConnectionError|Max retries"
    r"|name resolution|ProxyError|SSLError"
)
_LACKING = r"No matching distribution|Could not find a version"
_DISK = "the disk is full"
# What to say, by what pip printed; the first that is found.
_CAUSES = {
    _SILENT: "the package registry does not answer",
    r"No space left": _DISK,
    r"DO NOT MATCH THE HASHES": "a package is not the one that requirements.lock names",
    _LACKING: "the package registry lacks a locked version",
}
_QUIET = ("--no-input", "--disable-pip-version-check", "--progress-bar", "off")
_PATIENCE = ("--timeout", "30", "--retries", "2")


def make_venv(root: Path, python: str, log: Path) -> Path:
    """Make `.venv` unless a fitting one is there, and return its interpreter."""
    inside = root / ".venv" / "bin" / "python"
    if python_version(str(inside)) in PYTHONS:
        return inside
    shutil.rmtree(root / ".venv", ignore_errors=True)
    with log.open("ab") as out:
        done = subprocess.run([python, "-m", "venv", str(root / ".venv")], stdout=out, stderr=out)
    if done.returncode:
        hint = "on Debian and Ubuntu its package is python3-venv"
        raise SetupError(
            WRONG_PYTHON, f"{python} could not make a virtual environment; {hint}. Its log: {log}"
        )
    return inside


def install_locked(lock: Path, python: Path, log: Path, *options: str) -> None:
    """Install what a lock file names, each file compared with its hashes."""
    _pip(python, ["--require-hashes", *options, "-r", str(lock)], log)


def install_project(root: Path, python: Path, log: Path) -> None:
    """Install tidegate as an editable package, out of the checkout and without a registry."""
    _pip(python, ["--no-deps", "--no-index", "--no-build-isolation", "-e", str(root)], log)


def _pip(python: Path, arguments: list[str], log: Path) -> None:
    command = [str(python), "-m", "pip", "install", *_QUIET, *_PATIENCE, *arguments]
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
        raise SetupError(number, f"{reason}. pip's log: {log}")


def cause(output: str) -> str:
    """Return in a few words why pip failed."""
    lines = re.findall(r"^.*(?:ERROR|WARNING|Error|error).*$", output, re.MULTILINE)
    errors = "\n".join(lines) or output
    for pattern, words in _CAUSES.items():
        if re.search(pattern, errors):
            return words
    return "pip failed"
