"""The jars: resolved by the Ivy of pyspark, and verified with jars.lock."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from .machine import NO_JARS, WRONG_JAR, SetupError, find_java

_SECONDS = 900
# Java has no timeouts by default, so an unreachable repository would never be reported.
_TIMEOUTS = (
    "-Dsun.net.client.defaultConnectTimeout=20000",
    "-Dsun.net.client.defaultReadTimeout=60000",
)
_PLACE = "[conf]/[artifact]-[revision](-[classifier]).[ext]"


def retrieve(ivy: Path, jars: Path, confs: Sequence[str], python: Path, log: Path) -> None:
    """Resolve configurations of an ivy.xml, and copy their jars to a subfolder each.

    The environment variable IVY_SETTINGS is an Ivy settings file, for other repositories."""
    java, _ = find_java()
    settings = os.environ.get("IVY_SETTINGS")
    command = [java, *_TIMEOUTS, "-jar", str(_ivy(python))]
    command += ["-ivy", str(ivy)]
    command += ["-settings", settings] if settings else []
    command += ["-confs", *confs, "-retrieve", str(jars / _PLACE)]
    with log.open("ab") as out:
        try:
            code = subprocess.run(command, stdout=out, stderr=out, timeout=_SECONDS).returncode
        except subprocess.TimeoutExpired:
            code = -1
    if code:
        raise SetupError(
            NO_JARS,
            f"Ivy cannot fetch the jars, or their repository does not respond; its log: {log}",
        )


def _ivy(python: Path) -> Path:
    """Return the latest Ivy jar of the pyspark of an interpreter."""
    script = "import pyspark; print(pyspark.__path__[0])"
    site = subprocess.run([str(python), "-c", script], capture_output=True, text=True, check=True)
    return sorted((Path(site.stdout.strip()) / "jars").glob("ivy-*.jar"))[-1]


def locked(lock: Path) -> dict[str, str]:
    """Return the SHA-256 of each jar in jars.lock, by its path under `.jars`.

    The format is that of sha256sum."""
    lines = lock.read_text(encoding="utf-8").splitlines()
    pairs = [line.split() for line in lines if line.strip()]
    return {name: digest for digest, name in pairs}


def digests(jars: Path) -> dict[str, str]:
    """Return the SHA-256 of each jar under a folder."""
    return {name: _digest(jars / name) for name in sorted(_names(jars))}


def complete(jars: Path, lock: Path) -> bool:
    """Return whether all jars exist, by name; the quick check before each run."""
    return _names(jars) == set(locked(lock))


def verify(jars: Path, lock: Path, cache: Path | None = None) -> None:
    """Raise SetupError for jars that are missing, or differ from jars.lock.

    A jar that differs is deleted, here and in the Ivy cache, so that the next setup fetches it
    again. A jar of an earlier version, which is not in the lock, is deleted too."""
    expected = locked(lock)
    actual = digests(jars)
    for name in actual.keys() - expected.keys():
        (jars / name).unlink()
    wrong = sorted(name for name in expected if actual.get(name, expected[name]) != expected[name])
    for name in wrong:
        (jars / name).unlink()
        for copy in (cache or Path.home() / ".ivy2" / "cache").rglob(Path(name).name):
            if _digest(copy) != expected[name]:
                copy.unlink()
    if wrong:
        raise SetupError(
            WRONG_JAR,
            f"differ from jars.lock and were removed: {', '.join(wrong)}; run make setup again",
        )
    missing = sorted(expected.keys() - actual.keys())
    if missing:
        raise SetupError(
            WRONG_JAR, f"Ivy did not fetch these jars of jars.lock: {', '.join(missing)}"
        )


def write_lock(jars: Path, lock: Path) -> None:
    """Write jars.lock from the existing jars."""
    lines = [f"{digest}  {name}\n" for name, digest in digests(jars).items()]
    lock.write_text("".join(lines), encoding="utf-8")


def _names(jars: Path) -> set[str]:
    return {jar.relative_to(jars).as_posix() for jar in jars.glob("*/*.jar")}


def _digest(jar: Path) -> str:
    return hashlib.sha256(jar.read_bytes()).hexdigest()
