"""The jars: retrieved by the Ivy that pyspark brings, and compared with jars.lock."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from .machine import NO_JARS, WRONG_JAR, SetupError, find_java

_SECONDS = 900
# Java waits for ever by default, and a repository that does not answer would never be named.
_TIMEOUTS = (
    "-Dsun.net.client.defaultConnectTimeout=20000",
    "-Dsun.net.client.defaultReadTimeout=60000",
)
_PLACE = "[conf]/[artifact]-[revision](-[classifier]).[ext]"


def retrieve(ivy: Path, jars: Path, confs: Sequence[str], python: Path, log: Path) -> None:
    """Let Ivy resolve configurations of an ivy.xml and copy their jars to a folder, each to its own
    in there.

    The environment variable IVY_SETTINGS names a file of Ivy's settings, for repositories of one's
    own."""
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
            f"Ivy could not fetch the jars, or their repository does not answer. Its log: {log}",
        )


def _ivy(python: Path) -> Path:
    """Return the newest Ivy among the jars of the pyspark that an interpreter has."""
    script = "import pyspark; print(pyspark.__path__[0])"
    site = subprocess.run([str(python), "-c", script], capture_output=True, text=True, check=True)
    return sorted((Path(site.stdout.strip()) / "jars").glob("ivy-*.jar"))[-1]


def locked(lock: Path) -> dict[str, str]:
    """Return what jars.lock holds: the SHA-256 of each jar by its path under `.jars`.

    Its lines are those that sha256sum writes."""
    lines = lock.read_text(encoding="utf-8").splitlines()
    pairs = [line.split() for line in lines if line.strip()]
    return {name: digest for digest, name in pairs}


def digests(jars: Path) -> dict[str, str]:
    """Return the SHA-256 of each jar under a folder."""
    return {name: _digest(jars / name) for name in sorted(_names(jars))}


def complete(jars: Path, lock: Path) -> bool:
    """Return whether the jars are there by name: the quick look before each run."""
    return _names(jars) == set(locked(lock))


def verify(jars: Path, lock: Path, cache: Path | None = None) -> None:
    """Refuse jars that are missing, or differ from jars.lock.

    A jar that differs is removed, here and in Ivy's cache, so that the next set-up fetches it
    again. A jar that the lock does not name is removed too: it was left by an earlier version."""
    want = locked(lock)
    have = digests(jars)
    for name in have.keys() - want.keys():
        (jars / name).unlink()
    wrong = sorted(name for name in want if name in have and have[name] != want[name])
    for name in wrong:
        (jars / name).unlink()
        for copy in (cache or Path.home() / ".ivy2" / "cache").rglob(Path(name).name):
            if _digest(copy) != want[name]:
                copy.unlink()
    if wrong:
        raise SetupError(
            WRONG_JAR,
            f"not what jars.lock says, and removed: {', '.join(wrong)}. Try make setup again.",
        )
    missing = sorted(want.keys() - have.keys())
    if missing:
        raise SetupError(
            WRONG_JAR, f"jars.lock names what Ivy did not fetch: {', '.join(missing)}."
        )


def write_lock(jars: Path, lock: Path) -> None:
    """Write jars.lock from the jars that are there."""
    lines = [f"{digest}  {name}\n" for name, digest in digests(jars).items()]
    lock.write_text("".join(lines), encoding="utf-8")


def _names(jars: Path) -> set[str]:
    return {jar.relative_to(jars).as_posix() for jar in jars.glob("*/*.jar")}


def _digest(jar: Path) -> str:
    return hashlib.sha256(jar.read_bytes()).hexdigest()
