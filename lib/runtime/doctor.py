"""The doctor: every check of a start, and what was found, without starting anything."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pyspark.sql import SparkSession
from rich.table import Table

from ..commit.batch import parsed
from ..errors import SourceError, TidegateError
from ..jvm import java_version
from ..offsets import Offsets
from ..sources.topics import client
from .job import Job
from .locations import local
from .query.brokers import answers
from .query.preflight import Check, Preflight

_PACKAGES = ("tidegate", "pyspark", "delta-spark", "pyarrow")
_LOGS = ("offsets", "commits")


@dataclass(frozen=True)
class Finding:
    """What one check has found; `error` where a start would be refused for it."""

    check: str
    found: str
    error: TidegateError | None = None


def examine(
    job: Job, spark: SparkSession, *, resume_from_table: bool = False, recreate: Sequence[str] = ()
) -> list[Finding]:
    """Do every check of a start, and some that warn alone; nothing is written or claimed."""
    preflight = Preflight(job, spark, resume=resume_from_table, recreate=recreate)
    findings: list[Finding] = []
    for name, check in [*_around(job, spark), *preflight.checks(), *_ahead(preflight)]:
        findings.append(_finding(name, check, findings))
    return findings


def shown(findings: Sequence[Finding]) -> Table:
    """Return the findings as a table for a terminal."""
    table = Table("check", "", "found")
    for each in findings:
        mark = "[green]ok[/]" if each.error is None else "[red]refused[/]"
        table.add_row(each.check, mark, each.found)
    return table


def require_sound(findings: Sequence[Finding]) -> None:
    """Raise the first error that was found."""
    for each in findings:
        if each.error is not None:
            raise each.error


def _finding(name: str, check: Callable[[], str], before: Sequence[Finding]) -> Finding:
    try:
        return Finding(name, check())
    except TidegateError as error:
        same = [each.check for each in before if str(each.error) == str(error)]
        found = f"not checked, for the reason above ({same[0]})" if same else error.given
        return Finding(name, found, error)


def _around(job: Job, spark: SparkSession) -> Iterator[Check]:
    """Return the checks of what a job stands on."""
    yield "versions", partial(_versions, spark)
    for place in sorted({job.places.checkpoint, job.sink.path}):
        folder = local(place)
        if folder is not None:
            yield f"disk of {place}", partial(_disk, folder)


def _ahead(preflight: Preflight) -> Iterator[Check]:
    """Return the checks of what may stop the job later."""
    for name, given in preflight.job.inputs.items():
        if answers(given.reading.source.servers):
            yield f"retention {name}", partial(_retention, preflight, name)
    folder = local(preflight.job.places.checkpoint)
    if folder is not None:
        yield "check sums", partial(_orphans, folder)


def _versions(spark: SparkSession) -> str:
    found = []
    for package in _PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return ", ".join([*found, f"Java {java_version(spark)}"])


def _disk(folder: Path) -> str:
    there = next(each for each in (folder, *folder.parents) if each.exists())
    return f"{shutil.disk_usage(there).free / 1024**2:,.0f} MiB free"


def _retention(preflight: Preflight, name: str) -> str:
    """Tell how many records that were read the topic still holds: so far retention may go."""
    source = preflight.job.inputs[name].reading.source
    topics = preflight.topics.get(name, {})
    read = {topic: parts for topic, parts in _read(preflight).items() if topic in topics}
    if not read:
        return "nothing was read yet"
    try:
        with client(preflight.spark, source) as asked:
            first = asked.earliest(read)
    except OSError as error:
        return f"not checked: {error}"
    left = {
        (topic, part): at - first[topic][part]
        for topic, parts in read.items()
        for part, at in parts.items()
    }
    lost = [
        f"{topic}-{part} from {read[topic][part]} to {first[topic][part]}"
        for (topic, part), room in left.items()
        if room < 0
    ]
    if lost:
        raise SourceError(
            f"the topic's retention has deleted records that were not read: {'; '.join(lost)}.",
            "records that are read before they are deleted.",
            "see the retention of the topic; read it again into new tables.",
        )
    topic, part = min(left, key=lambda place: left[place])
    return f"{left[topic, part]:,} offsets until unread ones are reached, in {topic}-{part}"


def _read(preflight: Preflight) -> Offsets:
    """Return the offsets up to which the last whole batch has read."""
    logs = preflight.logs
    if logs.last not in logs.offsets:
        return {}
    path = f"{logs.path}/offsets/{logs.last}"
    found: Offsets = {}
    for source in parsed(path, logs.offsets[logs.last])[1]:
        for topic, parts in source.items():
            found[topic] = {**found.get(topic, {}), **parts}
    return found


def _orphans(checkpoint: Path) -> str:
    """Name the check sums without a file that a killed writer has left.

    Spark takes one for a second query on the checkpoint when it writes the file that it is of.
    """
    left = [
        str(file)
        for log in _LOGS
        for file in sorted((checkpoint / log).glob(".*.crc"))
        if not (file.parent / file.name[1:].removesuffix(".crc")).exists()
    ]
    if not left:
        return "none without its file"
    return f"left over by a killed run, to be deleted while the job is stopped: {', '.join(left)}"
