"""Each file of a checkpoint cut off, changed by a bit, emptied or removed between two runs: each
record once, or a refusal by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidegate.errors import CheckpointError, TidegateError
from tidegate.runtime.process.exit_codes import code_of
from tidegate.runtime.query.run import run
from tidegate.testing import Broker

from ..runtime.left import FIRST, SECOND, THIRD, Left
from ..runtime.moments import RECORDS, contents, require_each_once
from ..runtime.topics import sent

pytestmark = [pytest.mark.broker, pytest.mark.crash]
SNAPSHOTS = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"


@pytest.fixture(scope="session")
def base(spark: SparkSession, broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Left:
    """What two runs have left, whose state is snapshots of the first and changes of the second."""
    topic = broker.create_topic("files-of-a-checkpoint", partitions=1, retention_ms=-1)
    folder = tmp_path_factory.mktemp("files")
    left = Left(broker, topic, folder / "job", folder)
    before = spark.conf.get(SNAPSHOTS, None)
    spark.conf.set(SNAPSHOTS, "false")
    try:
        sent(broker.servers, topic, FIRST)
        run(left.job(), spark)
    finally:
        spark.conf.set(SNAPSHOTS, str(before))
    sent(broker.servers, topic, SECOND)
    run(left.job(), spark)
    sent(broker.servers, topic, THIRD)
    return left


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
"""What a start depends on and has noted: these are refused with their name."""
OTHERS = (
    "offsets/0",
    "commits/0",
    "tidegate/identity-000002.json",
    "tidegate/identity-000001.json",
    "state/0/*/2.zip",
    "state/0/*/SSTs/*.sst",
    "state/0/*/4.changelog",
    "state/0/*/3.changelog",
    "state/0/*/.4.changelog.crc",
    "state/0/*/.2.zip.crc",
    "state/0/*/1.zip",
)
"""The largest of the files that a pattern names is meant."""
CELLS = [(pattern, damage) for pattern in [*NAMED, *OTHERS] for damage in DAMAGES]


def drawn() -> list[tuple[str, str]]:
    """Return all cells of the files that are refused, which is soon told; of each other file that
    it is gone, and one change of its content, in turn."""
    changes = [damage for damage in DAMAGES if damage != "removed"]
    turn = {pattern: changes[number % len(changes)] for number, pattern in enumerate(OTHERS)}
    return [cell for cell in CELLS if cell[0] in NAMED or cell[1] in ("removed", turn[cell[0]])]


@pytest.mark.draws(("pattern", "damage"), short=drawn(), long=CELLS)
def test_a_damaged_file_of_a_checkpoint_changes_no_answer(
    base: Left, spark: SparkSession, tmp_path: Path, pattern: str, damage: str
) -> None:
    left = base.copied(tmp_path / "copy")
    found = sorted(left.checkpoint.glob(pattern), key=lambda file: file.stat().st_size)
    assert found, f"there is no {pattern}"
    DAMAGES[damage](found[-1])
    before = contents(left.root)
    refusal: TidegateError | None = None
    try:
        run(left.job(), spark)
    except TidegateError as error:
        refusal = error
    print(f"{pattern}, {damage}: {type(refusal).__name__}: {refusal}")
    if refusal is None:
        assert pattern not in NAMED
        require_each_once(left, dict(enumerate(RECORDS)))
    else:
        assert isinstance(refusal, CheckpointError)
        assert code_of(refusal) == 5
        assert contents(left.root) == before
        assert pattern not in NAMED or pattern in str(refusal)
