"""The packages and jars that are there, held against those that are locked."""

from __future__ import annotations

import hashlib
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pyspark.sql import SparkSession

from ...jvm import java_version
from ..process.class_path import jars_given
from ..process.installation import locked_jars, project_root
from .findings import Concern

_PACKAGES = ("tidegate", "pyspark", "delta-spark", "pyarrow", "pandas", "numpy", "pydantic")
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)", re.MULTILINE)
_KIND = "spark/"


def versions(spark: SparkSession) -> str:
    """Tell the versions of the packages and of Java, and which are not those of the lock."""
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    told = ", ".join([*(f"{name} {number}" for name, number in found.items()),
                      f"Java {java_version(spark)}"])  # fmt: skip
    lock = project_root() / "requirements.lock"
    if not lock.is_file():
        return f"{told}; installed as a package, without a lock"
    locked = dict(_PIN.findall(lock.read_text(encoding="utf-8")))
    unlike = [
        f"{name} {number} is not {locked[name]}"
        for name, number in found.items()
        if locked.get(name, number) != number
    ]
    if unlike:
        return Concern(f"{told}; unlike requirements.lock: {', '.join(unlike)}; see make setup")
    return f"{told}; as requirements.lock has them"


def spark_jars(spark: SparkSession) -> str:
    """Tell which jars the session was given, by their hashes, against jars.lock."""
    given = {jar.name: jar for jar in jars_given(spark)}
    locked = {
        name.removeprefix(_KIND): digest
        for name, digest in locked_jars().items()
        if name.startswith(_KIND)
    }
    known = {name: jar for name, jar in given.items() if name in locked}
    if not known:
        return "of the session's own, with Delta and Kafka in them; not compared with jars.lock"
    wrong = [str(jar) for name, jar in known.items() if _digest(jar) != locked[name]]
    missing = sorted(locked.keys() - known.keys())
    if wrong or missing:
        told = [f"{jar} is another file" for jar in wrong] + [f"no {name}" for name in missing]
        return Concern(f"unlike jars.lock: {', '.join(told)}; see make setup")
    others = len(given) - len(known)
    beside = f", and {others} of your own" if others else ""
    return f"{len(known)} as jars.lock has them, by SHA-256{beside}"


def _digest(jar: Path) -> str | None:
    place = Path(str(jar).removeprefix("file:"))
    return hashlib.sha256(place.read_bytes()).hexdigest() if place.is_file() else None
