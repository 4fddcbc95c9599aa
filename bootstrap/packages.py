"""The virtual environment, the locked packages in it, and tidegate itself."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from .machine import DISK_FULL, NO_PACKAGES, PYTHONS, WRONG_PYTHON, SetupError, python_version

_SECONDS = 1800
_SILENT = r"timed out|Connection(Error|Refused|Reset)|NewConnectionError|Max retries|name resolution|ProxyError|SSLError"
_CAUSES = (
    (_SILENT, "the package registry does not answer"),
    (r"No space left", "the disk is full"),
    (r"DO NOT MATCH THE HASHES", "a package is not the one that requirements.lock names"),
    (
        r"No matching distribution|Could not find a version",
        "the package registry lacks a locked version",
    ),
)


def make_venv(root: Path, python: str, log: Path) -> Path:
    """Make `.venv` unless a fitting one is there, and give its interpreter."""
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


def install_locked(root: Path, python: Path, log: Path) -> None:
    """Install requirements.lock, each file compared with its hashes."""
    _pip(python, ["--require-hashes", "-r", str(root / "requirements.lock")], log)


def install_project(root: Path, python: Path, log: Path) -> None:
    """Install tidegate as an editable package, from the checkout and what is installed, without a
    registry."""
    _pip(python, ["--no-deps", "--no-index", "--no-build-isolation", "-e", str(root)], log)


def _pip(python: Path, arguments: list[str], log: Path) -> None:
    command = [
        str(python),
        "-m",
        "pip",
        "install",
        "--no-input",
        "--disable-pip-version-check",
        "--progress-bar",
        "off",
    ]
    start = log.stat().st_size if log.exists() else 0
    with log.open("ab") as out:
        try:
            limits = ["--timeout", "30", "--retries", "2"]
            code = subprocess.run(
                [*command, *limits, *arguments], stdout=out, stderr=out, timeout=_SECONDS
            ).returncode
        except subprocess.TimeoutExpired:
            out.write(b"timed out\n")
            code = -1
    if code:
        reason = cause(log.read_bytes()[start:].decode("utf-8", "replace"))
        raise SetupError(
            DISK_FULL if "disk" in reason else NO_PACKAGES, f"{reason}. pip's log: {log}"
        )


def cause(output: str) -> str:
    """Say in a few words why pip failed."""
    errors = (
        "\n".join(re.findall(r"^.*(?:ERROR|WARNING|Error|error).*$", output, re.MULTILINE))
        or output
    )
    known = (words for pattern, words in _CAUSES if re.search(pattern, errors))
    return next(known, "pip failed")
