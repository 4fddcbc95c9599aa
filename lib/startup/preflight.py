"""A start in four steps: inspect, decide, check and claim; only the claim writes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY, dataclass
from functools import cached_property, partial

from pyspark.sql import SparkSession

from ..checkpoint.lineage import CheckpointLineage
from ..checkpoint.lineage_files import LineageFiles
from ..checkpoint.spark_logs import HadoopCheckpoint, read_consistently, require_lineage
from ..commit.delta_commit import read_table_log
from ..commit.driver_lease import DriverLease
from ..commit.table_log import TableLog
from ..errors import TableMismatchError, TidegateError
from ..job.fingerprint import job_fingerprint
from ..job.job import Job
from ..jvm import TopicState
from ..offsets import Offsets
from ..sources.topics import fetch_topic_states, open_kafka_client
from ..spark.spark_errors import raise_disk_error, translate_error
from .decision import Inspection, StartDecision, decide_start
from .environment import is_reachable, require_no_file, table_paths, visible_names
from .resume import describe_resume_point
from .start_checks import (
    check_checkpoint,
    check_fingerprint,
    check_job,
    check_table,
    check_topics,
    missing_topic_warnings,
    schema_checks,
    state_setting_differences,
)
from .swap_journal import require_no_swap

_LOG = logging.getLogger(__name__)
Check = tuple[str, Callable[[], str]]
"""The name of a check, and the check: it returns its result as text, or raises the error."""


@dataclass
class Preflight:
    """The start of a job: checkpoint, tables and configuration must match before a query starts.

    resume_from_table: whether a new checkpoint resumes at the last commit of the target.
    recreate: the outputs whose missing table is created again, or "all" of them; and the new
        outputs that start with the next batch.
    """

    job: Job
    spark: SparkSession
    _: KW_ONLY
    resume_from_table: bool = False
    recreate: Sequence[str] = ()

    @cached_property
    def table_logs(self) -> Mapping[str, TableLog]:
        """The log of each output's table; readable also if the checkpoint is damaged."""
        for path in table_paths(self.job).values():
            require_no_file(path)
        return {output: self.read_table_log(output) for output in table_paths(self.job)}

    def read_table_log(self, output: str) -> TableLog:
        """Return the current log of an output's table.

        Raises TableMismatchError for a log that cannot be read.
        """
        with self.explain_damaged_log(output):
            return read_table_log(self.spark, table_paths(self.job)[output]).load_metadata()

    @contextmanager
    def explain_damaged_log(self, output: str) -> Iterator[None]:
        """Raise TableMismatchError for a failure to read the log of an output's table."""
        try:
            yield
        except TidegateError:
            raise
        except Exception as error:
            raise_disk_error(error)
            failure = translate_error(error)
            raise TableMismatchError(
                f"output {output!r}: the log of {table_paths(self.job)[output]} cannot be read",
                failure.detail or failure.problem,
                "restore the table from a copy; or remove its folder and use --recreate "
                f"{output}, which creates an empty table. Nothing was written.",
            ) from error

    @cached_property
    def inspection(self) -> Inspection:
        """Step 1: what the start reads.

        Raises CheckpointError for a checkpoint that cannot be read or has no lineage.
        """
        path = self.job.locations.checkpoint
        lineage_files = LineageFiles(self.spark, path)
        logs, lineage = read_consistently(HadoopCheckpoint(self.spark, path), lineage_files.read)
        require_lineage(lineage, logs)
        states_by_input: dict[str, dict[str, TopicState]] = {}
        ends_by_input: dict[str, Offsets] = {}
        for name, job_input in self.job.inputs.items():
            # Kafka's client would wait for ten seconds, and the query connects again anyway.
            if is_reachable(job_input.source.bootstrap_servers):
                with suppress(OSError), open_kafka_client(self.spark, job_input.source) as kafka:
                    states = fetch_topic_states(kafka, job_input.source)
                    states_by_input[name] = states
                    partitions = {topic: range(each.partitions) for topic, each in states.items()}
                    ends_by_input[name] = kafka.latest_offsets(partitions)
        return Inspection(
            logs=logs,
            lineage=lineage,
            tables=self.table_logs,
            topic_states=states_by_input,
            fingerprint=job_fingerprint(self.job),
            foreign_files={
                output: names[0]
                for output, log in self.table_logs.items()
                if log.id is None and (names := visible_names(self.spark, log.path))
            },
            end_offsets=ends_by_input,
        )

    @cached_property
    def decision(self) -> StartDecision:
        """Step 2: what the start does."""
        return decide_start(
            self.job,
            self.inspection,
            resume_from_table=self.resume_from_table,
            recreate=self.recreate,
        )

    def checks(self) -> Iterator[Check]:
        """Step 3: yield all checks in their order."""
        yield "checkpoint", self._check_checkpoint
        yield "job", partial(self._run, check_job)
        for output in table_paths(self.job):
            yield f"table {output}", partial(self._run, check_table, output)
        for name in self.job.inputs:
            yield f"topics {name}", partial(self._run, check_topics, name)
        yield "plan", partial(self._run, check_fingerprint)
        yield from schema_checks(
            self.job, self.spark, lambda output: self.table_logs[output].id is not None
        )

    def _check_checkpoint(self) -> str:
        # Before the inspection, because some folders may already be swapped.
        require_no_swap(self.job)
        return self._run(check_checkpoint)

    def _run(self, check: Callable[..., str], *names: str) -> str:
        return check(self.job, self.inspection, self.decision, *names)

    def require_all(self) -> CheckpointLineage:
        """Run all checks, and return the lineage that the start claims.

        Raises CheckpointError, TableMismatchError, SourceError or TableError for the first check
        that fails.
        """
        for _, check in self.checks():
            check()
        return self.decision.lineage

    def claim(self) -> DriverLease:
        """Step 4: run all checks, log their warnings, and claim the checkpoint for this driver."""
        lineage = self.require_all()
        for warning in self._warnings():
            _LOG.warning("%s: %s", self.job.name, warning)
        recorded, query_id = self.inspection.lineage, self.decision.query_id
        # A table that its sink rebuilds may be missing, so its version is not recorded.
        tracked_paths = {
            output: path
            for output, path in table_paths(self.job).items()
            if output not in self.job.sink.rebuildable_outputs
        }
        lineage_files = LineageFiles(self.spark, self.job.locations.checkpoint)
        lease = DriverLease.acquire(lineage_files, lineage, tracked_paths)
        if recorded is not None and not recorded.released and query_id is not None:
            lease.fence(self.table_logs, query_id)
        return lease

    def _warnings(self) -> Iterator[str]:
        inspection = self.inspection
        decision = self.decision
        yield from decision.fingerprint_diff.descriptions
        yield from missing_topic_warnings(self.job, inspection, decision)
        yield from state_setting_differences(self.spark, inspection.logs)
        for output in sorted(decision.previous.tables.keys() - decision.lineage.tables.keys()):
            yield f"the table of output {output!r} is created again, empty"
        resume_point = decision.lineage.resume_point
        if inspection.lineage is None and resume_point is not None:
            description = describe_resume_point(self.job, resume_point)
            yield f"the checkpoint was lost; the job {description}"
