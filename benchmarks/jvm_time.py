"""What the JVM of a Spark session has spent since it started, by what it was spent on."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import psutil
from pyspark.sql import SparkSession

from tidegate.jvm.session import java_object
from tidegate.runtime.process.installation import java

COMPILING, LOADING, GENERATING, CLASSES, SHARED = (
    "compiling",
    "loading",
    "generating",
    "classes",
    "shared",
)


def spent(spark: SparkSession) -> dict[str, float]:
    """Return the JVM's sums so far.

    COMPILING: seconds of Java's compilers, which work beside everything else.
    LOADING: seconds in which classes were loaded.
    GENERATING: seconds in which Spark compiled the Java that it generates.
    CLASSES: how many were loaded. SHARED: how many of them from an archive.
    """
    counters = _counters()
    second = float(counters["sun.os.hrt.frequency"])
    codegen = java_object(spark, "org.apache.spark.metrics.source.CodegenMetrics")
    times = codegen.METRIC_COMPILATION_TIME()
    shared = float(counters["java.cls.sharedLoadedClasses"])
    return {
        COMPILING: float(counters["java.ci.totalTime"]) / second,
        LOADING: float(counters["sun.cls.time"]) / second,
        GENERATING: times.getCount() * times.getSnapshot().getMean() / 1e3,
        CLASSES: float(counters["java.cls.loadedClasses"]) + shared,
        SHARED: shared,
    }


def _counters() -> dict[str, str]:
    """Return the performance counters of the JVM that this process has started."""
    (jvm,) = [one for one in psutil.Process(os.getpid()).children(True) if one.name() == "java"]
    command = [str(Path(java()).with_name("jcmd")), str(jvm.pid), "PerfCounter.print"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [line.partition("=") for line in done.stdout.splitlines()]
    return {name: value for name, _, value in lines if value}
