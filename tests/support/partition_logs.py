"""The log of a partition, cut back on a stopped broker as by an unclean leader election."""

from __future__ import annotations

import struct

from tidegate.testing import Broker

_BATCH_HEADER = struct.Struct(">qi")
"""The first offset of a batch of records, and the number of bytes after this header."""
_CLEAN_SHUTDOWN = ".kafka_cleanshutdown"


def truncate_log(broker: Broker, topic: str, end: int, partition: int = 0) -> None:
    """Remove the records of a partition from an offset on, which must be the first of a batch.

    The broker must be stopped; at its next start it recovers the partition from what is left.
    """
    assert not broker.is_alive
    folder = broker.dir / "data" / f"{topic}-{partition}"
    (log,) = folder.glob("*.log")
    content, position, first = log.read_bytes(), 0, 0
    while position < len(content):
        first, size = _BATCH_HEADER.unpack_from(content, position)
        if first == end:
            break
        position += _BATCH_HEADER.size + size
    assert first == end, f"no batch starts at offset {end}"
    log.write_bytes(content[:position])
    for index in [*folder.glob("*.index"), *folder.glob("*.timeindex")]:
        index.unlink()
    (folder.parent / _CLEAN_SHUTDOWN).unlink(missing_ok=True)
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (folder.parent / name).unlink(missing_ok=True)
    (folder / "leader-epoch-checkpoint").unlink(missing_ok=True)
