"""The jars: retrieved by the Ivy that pyspark brings, and compared with jars.lock."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

from .machine import NO_JARS, WRONG_JAR, SetupError, find_java

_SECONDS = 900


def retrieve(root: Path, python: Path, log: Path) -> None:
    """Let Ivy resolve conf/ivy.xml and copy the jars to `.jars`; IVY_SETTINGS names settings of
    your own."""
    site = subprocess.run(
        [str(python), "-c", "import pyspark; print(pyspark.__path__[0])"],
        capture_output=True,
        text=True,
        check=True,
    )
    ivy = sorted((Path(site.stdout.strip()) / "jars").glob("ivy-*.jar"))[-1]
    # Java waits for ever by default, and a repository that does not answer would never be named.
    timeouts = [
        "-Dsun.net.client.defaultConnectTimeout=20000",
        "-Dsun.net.client.defaultReadTimeout=60000",
    ]
    settings = os.environ.get("IVY_SETTINGS")
    command = [find_java()[0], *timeouts, "-jar", str(ivy), "-ivy", str(root / "conf" / "ivy.xml")]
    command += ["-settings", settings] if settings else []
    command += ["-confs", "spark", "broker"]
    command += [
        "-retrieve",
        str(root / ".jars" / "[conf]" / "[artifact]-[revision](-[classifier]).[ext]"),
    ]
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


def locked(lock: Path) -> dict[str, str]:
    """Read jars.lock: the SHA-256 of each jar by its path under `.jars`, in the form that sha256sum
    writes."""
    lines = (line.split() for line in lock.read_text(encoding="utf-8").splitlines() if line.strip())
    return {name: digest for digest, name in lines}


def digests(jars: Path) -> dict[str, str]:
    """Return the SHA-256 of each jar under a folder."""
    found = sorted(jars.glob("*/*.jar"))
    return {
        jar.relative_to(jars).as_posix(): hashlib.sha256(jar.read_bytes()).hexdigest()
        for jar in found
    }


def complete(jars: Path, lock: Path) -> bool:
    """Return whether the jars are there by name: the quick look before each run."""
    return {jar.relative_to(jars).as_posix() for jar in jars.glob("*/*.jar")} == set(locked(lock))


def verify(jars: Path, lock: Path, cache: Path | None = None) -> None:
    """Refuse jars that differ from jars.lock or are missing; a bad jar is removed here and from Ivy's cache.

    A jar that the lock does not name is removed as well: it was left by an earlier version.
    """
    want, have = locked(lock), digests(jars)
    for name in have.keys() - want.keys():
        (jars / name).unlink()
    wrong = sorted(name for name in want if name in have and have[name] != want[name])
    for name in wrong:
        (jars / name).unlink()
        for copy in (cache or Path.home() / ".ivy2" / "cache").rglob(Path(name).name):
            if hashlib.sha256(copy.read_bytes()).hexdigest() != want[name]:
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
    lock.write_text(
        "".join(f"{digest}  {name}\n" for name, digest in digests(jars).items()), encoding="utf-8"
    )
