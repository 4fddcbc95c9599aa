"""Time and class counts of the JVM of a Spark session since its start."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import psutil
from pyspark.sql import SparkSession

from tidegate.jvm.spark_internals import java_object
from tidegate.spark.jars import java_path

COMPILING, LOADING, GENERATING, CLASSES, SHARED = (
    "compiling",
    "loading",
    "generating",
    "classes",
    "shared",
)


def read_jvm_times(spark: SparkSession) -> dict[str, float]:
    """Return the sums since the start of the JVM.

    COMPILING: seconds of the JIT compilers, which run concurrently.
    LOADING: seconds of class loading.
    GENERATING: seconds in which Spark compiled generated code.
    CLASSES: the number of loaded classes. SHARED: those loaded from a CDS archive.
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
    """Return the performance counters of the JVM that this process started."""
    (jvm,) = [
        child for child in psutil.Process(os.getpid()).children(True) if child.name() == "java"
    ]
    command = [str(Path(java_path()).with_name("jcmd")), str(jvm.pid), "PerfCounter.print"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [line.partition("=") for line in done.stdout.splitlines()]
    return {name: value for name, _, value in lines if value}
