"""The initial load of a sink's tables from a snapshot, before the job reads the log."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import datetime

from pyspark.sql import DataFrame

from ..changelogs import snapshot_as_changes
from ..columns import require_column_names
from ..commit.batch import UNIX_EPOCH, BatchPlan, CommitContext
from ..commit.protocol import Outcome
from ..input_frames import ROWS
from ..job.validation import require_writer_name
from ..jvm import frame_in_session
from ..sinks import Sink
from ..spark.job_session import job_session


def write_initial_snapshot(
    rows: DataFrame,
    sink: Sink,
    *,
    job: str,
    key: str | Sequence[str],
    log_position: Sequence[int],
    snapshot_time: datetime,
) -> Outcome:
    """Write a snapshot to the sink of a job, exactly once, before the job reads its topics.

    The job then drops older changes with `drop_covered_by_snapshot`, or reads from a `KafkaSource`
    that starts at the snapshot's offsets. After a crash, run it again: tables that contain the
    snapshot are skipped.

    Args:
        rows: a batch DataFrame, such as a version of a Delta table or a Parquet folder.
        sink: `CurrentTable`, `HistoryTable`, or a `FanOut` of both.
        job: the name of the job.
        key: as for `snapshot_as_changes`.
        log_position: the end of the log when the snapshot was taken.
        snapshot_time: when the snapshot was taken.

    Returns:
        "written", or "skipped" if the sink contains the snapshot.

    Raises:
        TableMismatchError: if the sink was loaded from another snapshot.
        TidegateError: as `snapshot_as_changes` and the sink raise.

    >>> from tempfile import mkdtemp
    >>> from tidegate.sinks import CurrentTable
    >>> users = spark.createDataFrame([(1, "Anna"), (2, "Ben")], "id INT, name STRING")
    >>> write_initial_snapshot(
    ...     users,
    ...     CurrentTable(f"{mkdtemp()}/users"),
    ...     job="users",
    ...     key="id",
    ...     log_position=[7],
    ...     snapshot_time=datetime(2026, 3, 2, tzinfo=UTC),
    ... )
    'written'
    """
    require_writer_name(job)
    plan_values = [require_column_names(key, "key"), [*log_position], snapshot_time.isoformat()]
    plan = BatchPlan(
        job=f"{job}.snapshot",
        query_id="snapshot",
        run_id="snapshot",
        number=0,
        offsets_hash=hashlib.sha256(json.dumps(plan_values).encode()).hexdigest(),
        start={},
        end={},
        watermark=UNIX_EPOCH,
    )
    changes = snapshot_as_changes(rows, key=key, position=log_position, snapshot_time=snapshot_time)
    with job_session(rows.sparkSession) as spark:
        return sink.write({ROWS: frame_in_session(changes, spark)}, CommitContext(plan=plan))
