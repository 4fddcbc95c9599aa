"""The environment of a job: the tables that it writes, their disks, and the brokers that it reads.

Kafka's client retries an unreachable broker for minutes; a TCP connection answers at once.
"""

from __future__ import annotations

import logging
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pyspark.sql import SparkSession

from ..errors import SetupError, SourceError
from ..job.job import Job
from ..jvm import list_names, local_folders
from ..paths import local_path
from ..sources import KafkaSource

_LOG = logging.getLogger(__name__)
MIN_FREE_BYTES = 2 * 1024**3
"""A start logs a warning if the disk of a job has less free space, in bytes."""


def table_paths(job: Job) -> dict[str, str]:
    """Return the path of every table that a job writes, by its output."""
    side_tables = [job.locations.dead_letters, job.locations.offset_gaps]
    if job.transform is not None:
        side_tables += job.locations.late_rows.values()
    return {
        **{table.output: table.path for table in side_tables},
        **{output: path for path, output in job.sink.tables()},
    }


def visible_names(spark: SparkSession, folder: str) -> list[str]:
    """Return the sorted names in a folder, without those that Delta ignores; the name of a file."""
    return sorted(name for name in list_names(spark, folder) if not name.startswith(("_", ".")))


def require_no_file(path: str) -> None:
    """Raise SetupError for a local path of a folder that is a file, or is below one."""
    folder = local_path(path)
    file = (
        next((each for each in (folder, *folder.parents) if each.is_file()), None)
        if folder
        else None
    )
    if file is not None:
        raise SetupError(
            f"{path} cannot be a folder",
            f"{file} is a file.",
            "choose a path that is not below a file.",
        )


def written_paths(job: Job, spark: SparkSession) -> list[str]:
    """Return where a job writes: its tables, its checkpoint, and Spark's local folders."""
    return [*table_paths(job).values(), job.locations.checkpoint, *local_folders(spark)]


def prepare_locations(job: Job, spark: SparkSession) -> None:
    """Create the local folders of a job, and require its dead letter topic.

    Logs a warning if a disk is nearly full or no broker answers.

    Raises TopicError if the dead letter topic does not exist, and SetupError for a path that is a
    file.
    """
    if job.dead_letter_topic is not None:
        job.dead_letter_topic.check_topic(spark)
    for bootstrap_servers in {each.source.bootstrap_servers for each in job.inputs.values()}:
        if not is_reachable(bootstrap_servers):
            _LOG.warning(
                "no broker answers at %s; Kafka's client retries for some minutes",
                bootstrap_servers,
            )
    for path in (*table_paths(job).values(), job.locations.checkpoint):
        require_no_file(path)
    for path in {job.locations.checkpoint, job.sink.path}:
        folder = local_path(path)
        if folder is None:
            continue
        folder.parent.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder.parent).free
        if free < MIN_FREE_BYTES:
            _LOG.warning("only %s MiB are free under %s", f"{free / 1024**2:,.0f}", folder.parent)


def is_reachable(bootstrap_servers: str) -> bool:
    """Return whether one of the bootstrap servers accepts connections within two seconds."""
    for server in bootstrap_servers.split(","):
        host, _, port = server.strip().rpartition(":")
        # Kafka's client reports an invalid address.
        with (
            suppress(OSError, ValueError, OverflowError),
            socket.create_connection((host, int(port)), timeout=2),
        ):
            return True
    return False


@contextmanager
def explain_unreadable(source: KafkaSource, values: str) -> Iterator[None]:
    """Raise SourceError for values, such as "partitions", that no broker returns in the block."""
    try:
        yield
    except OSError as error:
        raise SourceError(
            f"the {values} of {', '.join(source.topic_names)} cannot be read",
            f"{error}.",
            f"check that a broker answers at {source.bootstrap_servers}.",
        ) from error
