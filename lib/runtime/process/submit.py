"""The spark-submit command of a job, for those who start one from a program: the demo and tests."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyspark

from .class_path import jar_settings
from .installation import project_root
from .java_options import java_options

FIRST_COMPILER = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
"""Java's first compiler alone. The cache of compiled code keeps the size that it has by default, a
fifth of which it would get: what Spark generates fills that, and is compiled again and again."""
QUICK = f"{FIRST_COMPILER} -XX:+UseSerialGC"
"""For runs of a minute or two: the JVM then spends half as long compiling. A long run is slower by
it."""


def command(
    script: Path,
    *arguments: str,
    master: str = "local[2]",
    conf: Mapping[str, str] | None = None,
    java: str = "",
) -> list[str]:
    """Return the command that runs a job with the project's settings, its jars and a quiet log.

    `java` are options for the driver's JVM.

    >>> command(Path("jobs/page_views.py"), "--show-config")[-2:]           # doctest: +SKIP
    ['jobs/page_views.py', '--show-config']
    """
    settings = {**jar_settings(master), **(conf or {})}
    return [
        *(_spark_submit(), "--master", master, "--name", script.stem),
        *("--properties-file", str(project_root() / "conf" / "spark-defaults.conf")),
        *("--driver-java-options", java_options(java)),
        *[part for key, value in settings.items() for part in ("--conf", f"{key}={value}")],
        *(str(script), *arguments),
    ]


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment for that command.

    The driver and the workers run under this interpreter, with its pyspark.
    """
    here = Path(sys.executable).parent
    own = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    path = os.pathsep.join([str(here), os.environ.get("PATH", "")])
    return {
        **os.environ,
        **own,
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "PATH": path,
        **(extra or {}),
    }


def _spark_submit() -> str:
    beside = Path(sys.executable).parent / "spark-submit"
    return str(beside) if beside.exists() else shutil.which("spark-submit") or "spark-submit"


def with_options(options: Mapping[str, object]) -> Sequence[str]:
    """Return `--set` arguments from keys and values.

    >>> list(with_options({"window.size": "1 minute"}))
    ['--set', 'window.size=1 minute']
    """
    return [part for key, value in options.items() for part in ("--set", f"{key}={value}")]
