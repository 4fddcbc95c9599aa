"""A job with a mirror in PostgreSQL, killed around each commit: the mirror equals the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.crash_leftovers import batches
from tests.support.delta_tables import rows
from tests.support.kafka_topics import pages_input, send_records
from tests.support.killed_steps import AFTER_TARGET, Step, kill_at
from tests.support.postgres_server import Server
from tidegate import Job, run
from tidegate.sinks import Append, FanOut, Mirror
from tidegate.testing import Broker

pytestmark = [pytest.mark.broker, pytest.mark.crash, pytest.mark.slow, pytest.mark.timeout(900)]

PROGRAM = """
import sys
from pathlib import Path

from tests.crash.test_mirror_kill import mirror_job
from tests.support.postgres_server import Server
from tidegate import run, spark_session

servers, topic, root, port = sys.argv[1:]
spark = spark_session("local[2]")
run(mirror_job(servers, topic, Path(root), Server(int(port), Path("unused"))), spark)
"""
IN_TRANSACTION = [
    Step("tidegate.stores._postgres_writer:BatchWriter.apply"),
    Step("tidegate.stores.postgres:PostgresStore.apply"),
]
"""The moments before and after the commit of PostgreSQL."""
STEPS = [
    Step("tidegate.stores._postgres_writer:BatchWriter.apply", before=True),
    *IN_TRANSACTION,
    Step("tidegate.commit.delta_commit:DeltaCommitter.commit"),
    Step("tidegate.commit.delta_commit:DeltaCommitter.commit", call=2, before=True),
    AFTER_TARGET,
]
AUDIT = """
CREATE TABLE audited (n bigint);
CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql
AS 'BEGIN INSERT INTO audited VALUES (NEW."offset"); RETURN NEW; END';
CREATE TRIGGER audit AFTER INSERT OR UPDATE ON mirrored FOR EACH ROW EXECUTE FUNCTION audit();
"""
"""Record each row that is written to the mirror: an upsert would hide a batch applied twice."""


def mirror_job(servers: str, topic: str, root: Path, server: Server) -> Job:
    """Return a job that appends page views to a table and mirrors them, five records a batch."""
    pages = pages_input(servers, topic, max_records=5)
    mirror = Mirror(str(root / "applied"), store=server.store("mirrored"), key="offset")
    return Job(
        name="mirror",
        inputs={"pages": replace(pages, kafka_columns=["offset"])},
        sink=FanOut(Append(str(root / "pages")), other_sinks=[mirror]),
    )


@pytest.mark.draws("steps", short=[IN_TRANSACTION], long=[STEPS], ids=lambda steps: str(len(steps)))
def test_a_killed_job_mirrors_each_row_once(
    steps: Sequence[Step],
    spark: SparkSession,
    postgres: Server,
    broker: Broker,
    topic: str,
    tmp_path: Path,
) -> None:
    servers = broker.bootstrap_servers
    broker.create_topic(topic, partitions=1, retention_ms=-1)
    job = mirror_job(servers, topic, tmp_path, postgres)
    send_records(servers, topic, range(5))
    run(job, spark)
    postgres.run(AUDIT)
    for step in steps:
        send_records(servers, topic, range(10))
        arguments = [servers, topic, str(tmp_path), str(postgres.port)]
        kill_at(step, *arguments, log=tmp_path / "job.log", program=PROGRAM)
    run(job, spark)
    offsets = list(range(5 + 10 * len(steps)))
    stored = sorted((row["offset"], row["page"]) for row in rows(tmp_path / "pages"))
    assert [offset for offset, _ in stored] == offsets
    mirrored = postgres.run('SELECT "offset", page FROM mirrored ORDER BY 1')
    assert list(map(tuple, mirrored)) == stored
    audited = [n for (n,) in postgres.run("SELECT n FROM audited ORDER BY 1")]
    assert audited == offsets[5:], "a batch was applied twice"
    for table in ("applied", "pages"):
        written = batches(tmp_path, table)
        assert written == sorted(set(written)), f"{table} has a batch twice: {written}"
