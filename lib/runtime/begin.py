"""A snapshot as the beginning of a sink's tables, before the job that reads the log."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import datetime

from pyspark.sql import DataFrame

from ..changes import snapshot_of
from ..columns import names
from ..commit import EPOCH, Batch, Outcome
from ..frames import ROWS
from ..sinks import Sink
from ._checks import require_writer


def begin(
    rows: DataFrame,
    sink: Sink,
    *,
    job: str,
    key: str | Sequence[str],
    position: Sequence[int],
    at: datetime,
) -> Outcome:
    """Write a snapshot to the sink of a job, exactly once, before the job reads the log.

    The job then takes the log by `after_snapshot`, or by a `KafkaSource` that starts at the
    snapshot's offsets, so that older changes are skipped. Run it again after a crash: the tables
    that have the snapshot are passed over.

    Args:
        rows: a batch, such as a Delta table of a version or a Parquet folder.
        sink: `Current`, `History`, or a `FanOut` of both.
        job: the job's name.
        key: as for `snapshot_of`, and so are position and at.
        position: where the log stood when the snapshot was taken.
        at: when it was taken.

    Returns:
        "written", or "skipped" where the sink has it.

    Raises:
        ReplayMismatchError: for a sink that has begun with another snapshot.
        And what `snapshot_of` and the sink raise.
    """
    require_writer(job)
    changes = snapshot_of(rows, key=key, position=position, at=at)
    plan = json.dumps([names(key, "key"), list(position), at.isoformat()])
    batch = Batch(
        job=f"{job}.snapshot",
        query_id="snapshot",
        run_id="snapshot",
        number=0,
        offsets_hash=hashlib.sha256(plan.encode()).hexdigest(),
        start={},
        end={},
        watermark=EPOCH,
    )
    return sink.write({ROWS: changes}, batch)
