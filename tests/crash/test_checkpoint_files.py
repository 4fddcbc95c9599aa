"""Each file of a checkpoint truncated, changed, emptied or removed between two runs: each record
once, or an error with the name of the file, which the doctor reports without a start."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.operations.test_doctor import examine
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


def replaced_by_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


EXAMINED_DAMAGES: dict[str, Damage] = {**DAMAGES, "a folder": replaced_by_folder}
STATE_FILES = ("state/0/*/2.zip", "state/0/*/SSTs/*.sst", "state/0/*/4.changelog")
"""Files that a start reads in its first batch only; Spark names another file than the damaged one,
such as the changes that would replace a snapshot."""
EXAMINED = [
    *[(name, damage) for name in (*NAMED, *STATE_FILES) for damage in EXAMINED_DAMAGES],
    ("state/0/1", "removed"),
    ("tidegate/lineage-000002.json", "emptied"),
]


def examined() -> list[tuple[str, str]]:
    """Return one damage of each required file, and two of each file of the state."""
    damages = list(EXAMINED_DAMAGES)
    one_each = [(name, damages[at % len(damages)]) for at, name in enumerate(NAMED)]
    states = [(name, damage) for name in STATE_FILES for damage in ("cut off", "removed")]
    return [*one_each, *states, *EXAMINED[-2:]]


@pytest.mark.draws(("pattern", "damage"), short=examined(), long=EXAMINED)
def test_the_doctor_names_a_damaged_file_of_a_checkpoint_and_a_remedy(
    base: JobFiles, spark: SparkSession, tmp_path: Path, pattern: str, damage: str
) -> None:
    job_files = base.copy_to(tmp_path / "copy")
    found = max(job_files.checkpoint.glob(pattern), key=lambda file: file.stat().st_size)
    if found.is_dir():
        shutil.rmtree(found)
    else:
        EXAMINED_DAMAGES[damage](found)
    findings = examine(job_files, spark)
    errors = [each.error for each in findings.values() if each.error is not None]
    assert errors
    first = errors[0]
    assert isinstance(first, CheckpointError)
    assert exit_code(first) == 5
    if pattern in NAMED:
        assert f"{job_files.checkpoint}/{pattern}" in f"{first.problem} {first.detail}"
    elif pattern.startswith("state/"):
        assert f"the state in {job_files.checkpoint}/state/0 " in first.problem
        assert [name for name, each in findings.items() if each.error] == ["state"]
        assert first.detail
    else:
        assert f"the lineage file ends with batch {base.lineage.last_batch - 2}" in first.problem
    assert "restore the complete checkpoint from a copy" in first.remedy
    assert len(str(first).splitlines()) == 3


def test_the_doctor_reports_the_size_of_an_undamaged_state(
    base: JobFiles, spark: SparkSession, tmp_path: Path
) -> None:
    findings = examine(base.copy_to(tmp_path / "copy"), spark)
    # The window of the last record is open.
    assert findings["state"].result == "1 rows in 2 partitions"
    assert findings["state"].status == "ok"
