"""Each file of a checkpoint truncated, changed, emptied or removed between two runs: each record
once, or an error with the name of the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.checkpoint_files import FIRST, SECOND, THIRD, JobFiles
from tests.support.event_clock import RECORDS, data_files, require_each_once
from tests.support.kafka_topics import send_records
from tidegate import run
from tidegate.errors import CheckpointError, TidegateError
from tidegate.process.exit_codes import exit_code
from tidegate.testing import Broker

pytestmark = [pytest.mark.broker, pytest.mark.crash]
SNAPSHOTS = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"


@pytest.fixture(scope="session")
def base(spark: SparkSession, broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> JobFiles:
    """What two runs have left, whose state is snapshots of the first and changes of the second."""
    topic = broker.create_topic("files-of-a-checkpoint", partitions=1, retention_ms=-1)
    folder = tmp_path_factory.mktemp("files")
    job_files = JobFiles(broker, topic, folder / "job", folder)
    before = spark.conf.get(SNAPSHOTS, None)
    spark.conf.set(SNAPSHOTS, "false")
    try:
        send_records(broker.bootstrap_servers, topic, FIRST)
        run(job_files.job(), spark)
    finally:
        spark.conf.set(SNAPSHOTS, str(before))
    send_records(broker.bootstrap_servers, topic, SECOND)
    run(job_files.job(), spark)
    send_records(broker.bootstrap_servers, topic, THIRD)
    return job_files


Damage = Callable[[Path], object]


def flipped(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


DAMAGES: dict[str, Damage] = {
    "cut off": lambda file: file.write_bytes(file.read_bytes()[: file.stat().st_size // 2]),
    "a bit": flipped,
    "emptied": lambda file: file.write_bytes(b""),
    "removed": lambda file: file.unlink(),
}
NAMED = (
    "metadata",
    "offsets/3",
    "offsets/2",
    "commits/3",
    "commits/2",
    "sources/0/0",
    "state/0/_metadata/metadata",
    "state/0/0/_metadata/schema",
)
"""Files that a start requires and whose hashes are recorded: the error names them."""
OTHERS = (
    "offsets/0",
    "commits/0",
    "tidegate/lineage-000002.json",
    "tidegate/lineage-000001.json",
    "state/0/*/2.zip",
    "state/0/*/SSTs/*.sst",
    "state/0/*/4.changelog",
    "state/0/*/3.changelog",
    "state/0/*/.4.changelog.crc",
    "state/0/*/.2.zip.crc",
    "state/0/*/1.zip",
)
"""Each pattern means the largest of its files."""
CELLS = [(pattern, damage) for pattern in [*NAMED, *OTHERS] for damage in DAMAGES]


def drawn() -> list[tuple[str, str]]:
    """Return all damages of the required files; of each other file its removal and one more."""
    changes = [damage for damage in DAMAGES if damage != "removed"]
    turn = {pattern: changes[number % len(changes)] for number, pattern in enumerate(OTHERS)}
    return [cell for cell in CELLS if cell[0] in NAMED or cell[1] in ("removed", turn[cell[0]])]


@pytest.mark.draws(("pattern", "damage"), short=drawn(), long=CELLS)
def test_a_damaged_file_of_a_checkpoint_changes_no_answer(
    base: JobFiles, spark: SparkSession, tmp_path: Path, pattern: str, damage: str
) -> None:
    job_files = base.copy_to(tmp_path / "copy")
    found = sorted(job_files.checkpoint.glob(pattern), key=lambda file: file.stat().st_size)
    assert found, f"no file matches {pattern}"
    DAMAGES[damage](found[-1])
    before = data_files(job_files.root)
    refusal: TidegateError | None = None
    try:
        run(job_files.job(), spark)
    except TidegateError as error:
        refusal = error
    print(f"{pattern}, {damage}: {type(refusal).__name__}: {refusal}")
    if refusal is None:
        assert pattern not in NAMED
        require_each_once(job_files, dict(enumerate(RECORDS)))
    else:
        assert isinstance(refusal, CheckpointError)
        assert exit_code(refusal) == 5
        assert data_files(job_files.root) == before
        assert pattern not in NAMED or pattern in str(refusal)
