"""The jars: resolved by the Ivy of pyspark, and verified with jars.lock."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Collection, Mapping
from pathlib import Path
from xml.etree import ElementTree

from .machine import NO_JARS, WRONG_JAR, SetupError, find_java

_SECONDS = 900
# Java has no timeouts by default, so an unreachable repository would never be reported.
_TIMEOUTS = (
    "-Dsun.net.client.defaultConnectTimeout=20000",
    "-Dsun.net.client.defaultReadTimeout=60000",
)
_PLACE = "[conf]/[artifact]-[revision](-[classifier]).[ext]"


def spark_versions(ivy: Path) -> list[str]:
    """Return the versions of Spark for which an ivy.xml has a configuration, the oldest first."""
    names = [conf.get("name", "") for conf in ElementTree.parse(ivy).iter("conf")]
    return [name.partition("-")[2] for name in names if name.startswith("spark-")]


def retrieve(ivy: Path, jars: Path, confs: Mapping[str, str], python: Path, log: Path) -> None:
    """Resolve configurations of an ivy.xml, and copy the jars of each to its subfolder.

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
    for conf, folder in confs.items():
        if conf != folder:
            _move_jars(jars / conf, jars / folder)


def _move_jars(source: Path, target: Path) -> None:
    """Move the jars of a folder to another one, and delete the folder."""
    target.mkdir(parents=True, exist_ok=True)
    for jar in source.glob("*.jar"):
        jar.replace(target / jar.name)
    source.rmdir()


def _ivy(python: Path) -> Path:
    """Return the latest Ivy jar of the pyspark of an interpreter."""
    script = "import pyspark; print(pyspark.__path__[0])"
    site = subprocess.run([str(python), "-c", script], capture_output=True, text=True, check=True)
    return sorted((Path(site.stdout.strip()) / "jars").glob("ivy-*.jar"))[-1]


def locked(lock: Path, spark: str = "") -> dict[str, str]:
    """Return the SHA-256 of each jar in jars.lock, by its path under `.jars`.

    The format is that of sha256sum. A folder `spark-4.1` in the lock has those jars of the folder
    `spark` that belong to Spark 4.1; the function leaves out the jars of other versions."""
    found = {}
    for path, digest in _entries(lock).items():
        folder, _, name = path.partition("/")
        kind, _, version = folder.partition("-")
        if version in ("", spark):
            found[f"{kind}/{name}"] = digest
    return found


def _entries(lock: Path) -> dict[str, str]:
    lines = lock.read_text(encoding="utf-8").splitlines()
    pairs = [line.split() for line in lines if line.strip()]
    return {name: digest for digest, name in pairs}


def digests(jars: Path) -> dict[str, str]:
    """Return the SHA-256 of each jar under a folder."""
    return {name: _digest(jars / name) for name in sorted(_names(jars))}


def complete(jars: Path, lock: Path, spark: str = "") -> bool:
    """Return whether all jars exist, by name; the quick check before each run."""
    return _names(jars) == set(locked(lock, spark))


def verify(jars: Path, lock: Path, cache: Path | None = None, *, spark: str = "") -> None:
    """Raise SetupError for jars that are missing, or differ from jars.lock.

    A jar that differs is deleted, here and in the Ivy cache, so that the next setup fetches it
    again. A jar of an earlier version, which is not in the lock, is deleted too."""
    expected = locked(lock, spark)
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


def write_lock(jars: Path, lock: Path, spark: str = "", versioned: Collection[str] = ()) -> None:
    """Write the existing jars to jars.lock, which keeps the jars of other versions of Spark.

    versioned: the file names of the jars that belong to this version of Spark only."""
    entries = {
        path: digest
        for path, digest in (_entries(lock).items() if spark and lock.exists() else ())
        if "-" in path.partition("/")[0] and not path.startswith(f"spark-{spark}/")
    }
    for path, digest in digests(jars).items():
        folder, _, name = path.partition("/")
        entries[f"{folder}-{spark}/{name}" if name in versioned else path] = digest
    lines = [f"{entries[path]}  {path}\n" for path in sorted(entries)]
    lock.write_text("".join(lines), encoding="utf-8")


def versioned_names(ivy: Path, spark: str) -> set[str]:
    """Return the file names of the jars of an ivy.xml that belong to one version of Spark only."""
    return {
        f"{each.get('name')}-{each.get('rev')}.jar"
        for each in ElementTree.parse(ivy).iter("dependency")
        if each.get("conf", "").startswith(f"spark-{spark}->")
    }


def _names(jars: Path) -> set[str]:
    return {jar.relative_to(jars).as_posix() for jar in jars.glob("*/*.jar")}


def _digest(jar: Path) -> str:
    return hashlib.sha256(jar.read_bytes()).hexdigest()
