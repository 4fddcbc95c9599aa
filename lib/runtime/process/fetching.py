"""The jars of an installed package: fetched once by the Ivy that pyspark brings, and kept.

A checkout has its jars from `make setup`. Elsewhere the first session fetches those that
conf/ivy.xml names, into a folder of the user's cache, and compares them with jars.lock.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pyspark

from ...errors import SetupError

_LOG = logging.getLogger(__name__)
_SECONDS = 900
_PLACE = "[conf]/[artifact]-[revision](-[classifier]).[ext]"
# Java waits for ever by default, and a repository that does not answer would never be named.
_TIMEOUTS = (
    "-Dsun.net.client.defaultConnectTimeout=20000",
    "-Dsun.net.client.defaultReadTimeout=60000",
)
SETTINGS_VARIABLE = "IVY_SETTINGS"


def kept(ivy: str, lock: str) -> Path:
    """Return the folder of the user's cache that has the jars, or will have them.

    `ivy` and `lock` are the texts of ivy.xml and jars.lock. The folder bears a hash of what it must
    hold.
    """
    return _cache() / hashlib.sha256(f"{ivy}\n{lock}".encode()).hexdigest()[:16]


def fetched(ivy: str, lock: str, java: str) -> Path:
    """Return that folder, and fill it where it is not there yet; it is as `.jars` is.

    `java` is a path. The folder gets its name when it is whole. The environment variable
    IVY_SETTINGS names a file of Ivy's settings, for repositories of one's own.

    Raises SetupError where Ivy cannot fetch the jars, or gets others than jars.lock names.
    """
    place = kept(ivy, lock)
    if not place.is_dir():
        place.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix="fetching-", dir=place.parent))
        try:
            _LOG.warning("fetching the jars of Delta and Kafka into %s, once", place)
            _retrieve(part, ivy, java)
            require_locked(part, lock)
            _publish(part, place)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return place


def require_locked(folder: Path, lock: str) -> None:
    """Refuse a folder of jars that does not hold what the text of jars.lock says.

    Raises SetupError.
    """
    wanted = {name: digest for digest, name in (line.split() for line in lock.splitlines() if line)}
    have = {
        jar.relative_to(folder).as_posix(): hashlib.sha256(jar.read_bytes()).hexdigest()
        for jar in folder.glob("*/*.jar")
    }
    wrong = sorted(name for name in wanted if have.get(name) != wanted[name])
    if wrong:
        raise SetupError(
            f"the jars that were fetched are not those of jars.lock: {', '.join(wrong)}.",
            "the jars whose hashes jars.lock has.",
            "see whether the Maven repository is the one that you mean.",
        )


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "tidegate" / "jars"


def _retrieve(folder: Path, ivy: str, java: str) -> None:
    program = sorted((Path(pyspark.__path__[0]) / "jars").glob("ivy-*.jar"))[-1]
    module = folder / "ivy.xml"
    log = folder / "ivy.log"
    module.write_text(ivy, encoding="utf-8")
    settings = os.environ.get(SETTINGS_VARIABLE)
    command = [java, *_TIMEOUTS, "-jar", str(program), "-ivy", str(module)]
    command += ["-settings", settings] if settings else []
    command += ["-confs", "spark", "broker", "-retrieve", str(folder / _PLACE)]
    with log.open("wb") as out:
        try:
            code = subprocess.run(command, stdout=out, stderr=out, timeout=_SECONDS).returncode
        except subprocess.TimeoutExpired:
            code = -1
    if code:
        last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-8:]
        raise SetupError(
            "the jars of Delta and Kafka could not be fetched:\n    " + "\n    ".join(last),
            f"a Maven repository that answers; {SETTINGS_VARIABLE} names a file of Ivy's settings.",
            "TIDEGATE_JARS names a folder that has the jars already.",
        )


def _publish(part: Path, place: Path) -> None:
    try:
        part.rename(place)
    except OSError:
        # Another process was first; what it has is the same.
        if not place.is_dir():
            raise
