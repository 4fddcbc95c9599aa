"""Paths of the project, its configuration files, the jars and Java.

A checkout has its jars from `make setup`. An installed package downloads the jars of conf/ivy.xml
once, with the Ivy that pyspark ships, into the user's cache, and verifies them with jars.lock. Each
version of Spark has its own jars.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import subprocess
import tempfile
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Literal

import pyspark
from pyspark.sql import SparkSession

from ..errors import SetupError
from ..versions import SUPPORTED_SPARK, spark_version
from .presets import local_cores

_LOG = logging.getLogger(__name__)
_IVY_TIMEOUT_SECONDS = 900
_JAR_PATH_PATTERN = "[conf]/[artifact]-[revision](-[classifier]).[ext]"
# By default Java waits forever for a repository that does not respond.
_TIMEOUT_OPTIONS = (
    "-Dsun.net.client.defaultConnectTimeout=20000",
    "-Dsun.net.client.defaultReadTimeout=60000",
)
_SETTINGS_VARIABLE = "IVY_SETTINGS"
_JARS_VARIABLE = "TIDEGATE_JARS"
_LOCK = "jars.lock"
# Added to the installation's spark.driver.extraClassPath, which remains in effect.
_CLASS_PATH_KEY = "spark.driver.defaultExtraClassPath"

SPARK_SUBMIT_HINT = (
    "for spark-submit: --properties-file conf/spark-defaults.conf --jars '.jars/spark/*.jar'"
)
"""Remedy for a Spark without the jars."""


def jars(group: Literal["spark", "broker"]) -> list[Path]:
    """Return the jars for Spark's class path, or those of the embedded broker.

    The folder is `.jars/<group>` of a checkout, `.jars-4.1/<group>` for a version of Spark that is
    not the newest, or a cache that is filled once. The environment variable TIDEGATE_JARS replaces
    `.jars`.

    Raises SetupError for missing jars.
    """
    home = jars_home()
    if not home.is_dir() and _configured_jars_home() is None:
        _download_jars(home)
    jar_files = sorted((home / group).glob("*.jar"))
    if not jar_files:
        raise SetupError(
            f"no jars in {home / group}",
            f"the jars of jars.lock belong into {checkout_jars(spark_version()).name} or into the "
            f"folder of {_JARS_VARIABLE}",
            f"make setup SPARK={spark_version()}",
        )
    return jar_files


def jars_home() -> Path:
    """Return the folder of the jars; a cache folder may not exist yet.

    A cache folder has the version of Spark and the hash of ivy.xml and jars.lock as its name.
    """
    configured_home = _configured_jars_home()
    if configured_home is not None:
        return configured_home
    digest = hashlib.sha256(f"{read_conf('ivy.xml')}\n{read_conf(_LOCK)}".encode()).hexdigest()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "tidegate" / "jars" / f"{spark_version()}-{digest[:16]}"


def _configured_jars_home() -> Path | None:
    """Return the folder of TIDEGATE_JARS or of a checkout; None for an installed package."""
    configured = os.environ.get(_JARS_VARIABLE)
    if configured:
        return Path(configured)
    return checkout_jars(spark_version()) if (project_root() / _LOCK).exists() else None


def checkout_jars(spark: str) -> Path:
    """Return the folder of a checkout for the jars of a version of Spark."""
    return project_root() / (".jars" if spark == SUPPORTED_SPARK[-1] else f".jars-{spark}")


def _download_jars(home: Path) -> None:
    """Download the jars of conf/ivy.xml into a folder, which appears atomically.

    The environment variable IVY_SETTINGS names an Ivy settings file, for other repositories.
    """
    _LOG.warning("downloading the jars of Delta and Kafka into %s, once", home)
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="download-", dir=home.parent) as folder:
        downloaded = Path(folder) / home.name
        downloaded.mkdir()
        _retrieve_jars(downloaded)
        require_locked(downloaded, read_conf(_LOCK))
        try:
            downloaded.rename(home)
        except OSError:
            # Another process has published the same jars.
            if not home.is_dir():
                raise


def _retrieve_jars(folder: Path) -> None:
    program = sorted((Path(pyspark.__path__[0]) / "jars").glob("ivy-*.jar"))[-1]
    module = folder / "ivy.xml"
    log = folder / "ivy.log"
    module.write_text(read_conf("ivy.xml"), encoding="utf-8")
    settings = os.environ.get(_SETTINGS_VARIABLE)
    command = [java_path(), *_TIMEOUT_OPTIONS, "-jar", str(program), "-ivy", str(module)]
    command += ["-settings", settings] if settings else []
    versioned = f"spark-{spark_version()}"
    command += ["-confs", versioned, "broker", "-retrieve", str(folder / _JAR_PATH_PATTERN)]
    with log.open("wb") as out:
        try:
            run = subprocess.run(command, stdout=out, stderr=out, timeout=_IVY_TIMEOUT_SECONDS)
            has_failed = run.returncode != 0
        except subprocess.TimeoutExpired:
            has_failed = True
    if has_failed:
        last_lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-8:]
        raise SetupError(
            "cannot download the jars of Delta and Kafka:\n    " + "\n    ".join(last_lines),
            remedy=f"set {_SETTINGS_VARIABLE} to Ivy settings with a reachable Maven repository, "
            f"or {_JARS_VARIABLE} to a folder with the jars",
        )
    (folder / versioned).rename(folder / "spark")


def require_locked(folder: Path, lock: str) -> None:
    """Raise SetupError if the jars of a folder do not match the contents of jars.lock."""
    expected = _parse_lock(lock)
    actual = {
        jar.relative_to(folder).as_posix(): hashlib.sha256(jar.read_bytes()).hexdigest()
        for jar in folder.glob("*/*.jar")
    }
    mismatched = sorted(name for name in expected if actual.get(name) != expected[name])
    if mismatched:
        raise SetupError(
            f"downloaded jars do not match jars.lock: {', '.join(mismatched)}",
            "their SHA-256 hashes differ",
            "check the Maven repository in the Ivy settings",
        )


def _parse_lock(text: str) -> dict[str, str]:
    """Return the SHA-256 hash of each jar for this version of Spark.

    A folder `spark-4.1` in the lock has the jars of `spark` that belong to Spark 4.1 only.
    """
    found = {}
    for digest, path in (line.split() for line in text.splitlines() if line):
        folder, _, name = path.partition("/")
        kind, _, spark = folder.partition("-")
        if spark in ("", spark_version()):
            found[f"{kind}/{name}"] = digest
    return found


def locked_jar_hashes() -> dict[str, str]:
    """Return the SHA-256 hash of each jar of this version of Spark, by its path under `.jars`."""
    lock = project_root() / _LOCK
    return _parse_lock(lock.read_text(encoding="utf-8") if lock.is_file() else read_conf(_LOCK))


def project_root() -> Path:
    """Return the folder of the package: a checkout, or site-packages."""
    return Path(__file__).resolve().parents[2]


def read_conf(name: str) -> str:
    """Return the contents of a file of `conf`."""
    return conf_file(name).read_text(encoding="utf-8")


def conf_file(name: str) -> Traversable:
    """Return a file of `conf`: the checkout's, or the copy in a wheel or zip archive.

    Raises SetupError if the file is missing.
    """
    for folder in (files("tidegate").joinpath("..", "conf"), files("tidegate").joinpath("conf")):
        file = folder.joinpath(name)
        if file.is_file():
            return file
    raise SetupError(
        f"missing file: conf/{name}", remedy="run from a checkout of tidegate, or install its wheel"
    )


def java_path() -> str:
    """Return the path of Java: of JAVA_HOME, or the first on the PATH."""
    home = os.environ.get("JAVA_HOME")
    executable = shutil.which(str(Path(home) / "bin" / "java")) if home else shutil.which("java")
    if executable is None:
        searched = f"JAVA_HOME ({home})" if home else "the PATH"
        remedy = "install Java 17 or 21; make setup prints how"
        raise SetupError(f"no Java in {searched}", remedy=remedy)
    return executable


def jar_settings(master: str) -> dict[str, str]:
    """Return the settings that add the jars to a session.

    The jars are on the class path of the driver's JVM, because a class archive contains only
    classes of the class path. A cluster's executors fetch them with spark.jars.

    >>> list(jar_settings("local[2]")), list(jar_settings("spark://host:7077"))
    (['spark.driver.defaultExtraClassPath'], ['spark.driver.defaultExtraClassPath', 'spark.jars'])
    """
    spark_jars = jars("spark")
    settings = {_CLASS_PATH_KEY: str(spark_jars[0].parent.absolute() / "*")}
    if not local_cores(master):
        settings["spark.jars"] = ",".join(map(str, spark_jars))
    return settings


def session_jars(spark: SparkSession) -> list[Path]:
    """Return the jars in a session's settings."""
    jar_list = (spark.conf.get("spark.jars", None) or "").split(",")
    class_path = spark.conf.get(_CLASS_PATH_KEY, None)
    class_path_jars = sorted(Path(class_path).parent.glob("*.jar")) if class_path else []
    return [*(Path(jar) for jar in jar_list if jar), *class_path_jars]
