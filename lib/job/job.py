"""A job: named inputs, a transform, and a sink with its tables; and the checks of its arguments."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Any, Literal

from pyspark.sql import Column, DataFrame

from ..changelogs.change_schema import CHANGE_COLUMNS
from ..columns import nested_names, require_storable_names
from ..delta.catalog import is_schema_name
from ..delta.table_layout import TableLayout
from ..durations import microseconds
from ..errors import ArgumentError, ColumnError, ColumnTypeError
from ..formats.format import PartialFormat
from ..joins import IntervalJoin
from ..paths import normalize_path, require_disjoint
from ..sinks import Append, DeadLetterTopic, SideOutputTable, Sink
from ..sinks.side_table import require_shared_columns
from ..sinks.windows.alarms import corrected_windows_in
from ..sketches import NearDuplicates
from ..sources import Input
from ..sources.event_time_column import EVENT_TIME
from ..telemetry.prometheus import LOOPBACK
from ..transform import EvaluatesRows, Stateful, Stateless, Transform
from ..windows import (
    Cumulative,
    Deduplication,
    Hopping,
    Session,
    Sliding,
    Tumbling,
    WindowAggregation,
)
from .policies import Limits, Maintenance
from .validation import JOB_NAME_PATTERN, require_count, require_path, require_type

EmitMode = Literal["final", "changes"]
OFFSET_GAPS_SCHEMA = (
    "topic STRING, partition INT, start_offset BIGINT, end_offset BIGINT, batch BIGINT"
)
"""The columns of the offset gap table."""
_BACKFILL_WINDOWS = (Tumbling, Hopping, Cumulative, Session, Sliding)


@dataclass(frozen=True, kw_only=True)
class JobLocations:
    """The checkpoint of a job and the tables of its side outputs; late rows by input."""

    checkpoint: str
    dead_letters: SideOutputTable
    late_rows: Mapping[str, SideOutputTable]
    offset_gaps: SideOutputTable


@dataclass(frozen=True, kw_only=True)
class Job:
    """A streaming query: the rows of `inputs` -> `transform` -> `each_batch` -> `sink`.

    Rows that do not reach the sink are side outputs: dead letters (records that cannot be decoded
    or have no valid event time) and late rows, each in its own table.

    name: identifies the commits of the job; a checkpoint depends on it.
    inputs: inputs by name, in the order of the transform's arguments; a checkpoint depends on the
        order. The watermark is the minimum over all inputs, so an input without records delays the
        results (see `Input.idle_timeout`).
    transform: a value called with one DataFrame per input. It defines which rows are late: windows,
        joins and deduplication do, and `Stateless` and `Stateful` do so for a function. None writes
        each good row unchanged; the job checks in every batch that no row is lost.
    each_batch: a function called in every micro-batch with the transform's rows; it returns the
        rows of the sink. Without a transform it gets the rows of the one input, or the rows of each
        input as a keyword argument.
    emit: "final" writes a result once it can no longer change; "changes" also writes windows while
        they are open.
    allowed_lateness: how long after it became late a row still corrects its windows. This and
        emit="changes" require windows that merge and the sink `CorrectedWindows`.
    checkpoint, dead_letters, late_rows, offset_gaps: the paths of the checkpoint and of the tables
        of dead letters, late rows and lost offset ranges; by default next to the sink's table.
        `late_rows` is a path, or a path by input name. The output names of these tables are
        "dead_letters", "offset_gaps", and "late", or "late_<input>" with several inputs.
    dead_letter_topic: a topic that also receives the dead letters, at least once. The job must not
        read it.
    side_table_layout: the layout of the side output tables, by the columns that they share: topic
        and partition.
    limits: the dead letters above which the job stops, and the late rows that it warns of.
    maintenance: how often the tables are compacted and vacuumed; never by default.
    catalog: a schema such as `shop` or `main.shop`, in which each table is registered under the
        name of its folder once it exists. The tables stay at their paths.
    every: the trigger interval of a continuous job; None processes all available records, then
        ends.
    backfill_threshold: the number of available records above which a new checkpoint starts with a
        backfill: one batch over all of them, with the results that a stream would have. 0 always
        backfills; None, the default, never does. A backfill treats no row as late.
    revision: a text or number to change when one of the job's own functions changes its meaning. A
        checkpoint identifies a function by its module, its name, and the values that it binds
        (closure, arguments of a `functools.partial`, and default values of a lambda), not by its
        code. With a stateful transform, another revision needs a new checkpoint; otherwise it
        applies from the next batch.
    metrics_port, metrics_address: where Prometheus metrics are served, by default to this machine
        only: see `tidegate.telemetry.prometheus`.
    report: a local HTML file with metrics, charts and dead letters by reason, refreshed during the
        run and written at its end.

    Raises ArgumentError and ColumnTypeError, at construction, for parts that do not fit together:
    inputs that may read the same topic, a transform that does not define late rows or takes
    another number of frames, tables or a checkpoint inside one another, an idle timeout in a job
    without a trigger interval, allowed lateness without windows that merge, and a job that does not
    support a backfill.

    >>> from tidegate import Input, KafkaSource, aggregates as agg, json_format, sinks, windows
    >>> clicks = Input(
    ...     KafkaSource("localhost:9092", "clicks"),
    ...     json_format("page STRING, event_time TIMESTAMP"),
    ...     time="event_time",
    ...     watermark_delay="10 seconds",
    ... )
    >>> job = Job(
    ...     name="page_views",
    ...     inputs={"clicks": clicks},
    ...     transform=windows.WindowAggregation(
    ...         windows.Tumbling("1 minute"), by="page", aggs={"views": agg.count()}
    ...     ),
    ...     sink=sinks.Append("/tables/page_views"),
    ... )
    >>> job.locations.checkpoint
    '/tables/page_views.checkpoint'
    """

    name: str
    inputs: Mapping[str, Input]
    sink: Sink
    transform: Transform | None = None
    each_batch: Callable[..., DataFrame] | None = None
    emit: EmitMode = "final"
    allowed_lateness: str | timedelta | None = None
    checkpoint: str | None = None
    dead_letters: str | None = None
    dead_letter_topic: DeadLetterTopic | None = None
    side_table_layout: TableLayout = field(default_factory=TableLayout)
    late_rows: str | Mapping[str, str] | None = None
    offset_gaps: str | None = None
    limits: Limits = field(default_factory=Limits)
    maintenance: Maintenance = field(default_factory=Maintenance)
    catalog: str | None = None
    every: str | timedelta | None = None
    backfill_threshold: int | None = None
    revision: str | int | None = None
    metrics_port: int | None = None
    metrics_address: str = LOOPBACK
    report: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not re.match(JOB_NAME_PATTERN, self.name):
            raise ArgumentError(
                f"invalid name: {self.name!r}",
                "letters, digits, '_', '-' and '.', starting with a letter or a digit",
                'name="page_views"',
            )
        self._require_valid_inputs()
        if not isinstance(self.sink, Sink):
            raise ColumnTypeError(
                f"invalid sink: {self.sink!r}",
                "a sink of tidegate.sinks, or an instance of a subclass of tidegate.sinks.Sink",
                'sink=Append("/tables/views")',
            )
        self._require_valid_functions()
        self._require_valid_emit()
        self._require_complete_joins()
        if self.late_by_log:
            _refuse(
                self._log_lateness_obstacles(),
                "invalid watermarks: 'log'",
                "final results of windows, joins or deduplication, and the same watermarks in "
                "every input",
                "watermarks='partition'",
            )
        self._require_valid_settings()
        self._require_disjoint_locations()
        self._require_storable_fields()
        self._check_row_expressions()
        self._require_changes()
        self._pass_unavailable_values()
        if self.backfill_threshold is not None:
            require_count(self.backfill_threshold, "backfill_threshold")
            _refuse(
                self._backfill_obstacles(),
                f"invalid backfill_threshold: {self.backfill_threshold!r}",
                "final results of windows, joins, deduplication, near duplicates or stateless "
                "transforms; in Append, Projection or CommandHandler, in SnapshotJoin with a "
                "LookupJoin, or in Upsert where no two results share a key",
                "backfill_threshold=None, which reads the topic as a stream from its first record",
            )

    @property
    def locations(self) -> JobLocations:
        """The checkpoint and side output tables: as configured, or next to the sink's table."""
        prefix = self.sink.path.rstrip("/")
        outputs = {name: f"late_{name}" for name in self.inputs}
        late_paths = dict(self.late_rows) if isinstance(self.late_rows, Mapping) else {}
        if len(self.inputs) == 1:
            outputs = dict.fromkeys(self.inputs, "late")
        if isinstance(self.late_rows, str):
            late_paths = dict.fromkeys(self.inputs, self.late_rows)
        side_table = partial(SideOutputTable, layout=self.side_table_layout)
        return JobLocations(
            checkpoint=self.checkpoint or f"{prefix}.checkpoint",
            dead_letters=side_table(
                self.dead_letters or f"{prefix}.dead_letters",
                output="dead_letters",
                dead_letter_topic=self.dead_letter_topic,
            ),
            late_rows={
                name: side_table(late_paths.get(name, f"{prefix}.{output}"), output=output)
                for name, output in outputs.items()
            },
            offset_gaps=side_table(
                self.offset_gaps or f"{prefix}.offset_gaps", output="offset_gaps"
            ),
        )

    @property
    def late_by_log(self) -> bool:
        """Whether lateness is deterministic: it depends on the records of a partition only."""
        return any(job_input.late_by_log for job_input in self.inputs.values())

    @property
    def merges_windows(self) -> bool:
        """Whether the sink merges partial aggregates into the windows of its table."""
        return corrected_windows_in(self.sink) is not None

    @property
    def is_stateful(self) -> bool:
        """Whether the query's state holds rows that no table has yet."""
        if self.transform is None or self.emit == "changes":
            return False
        return not isinstance(self.transform, Stateless)

    @property
    def one_to_one(self) -> bool:
        """Whether the query returns exactly one row for each good row."""
        if isinstance(self.transform, Stateless):
            return self.transform.one_to_one
        return self.transform is None or self.emit == "changes"

    @property
    def streams_to_sink(self) -> bool:
        """Whether rows are written as they are read: without state or persisted rows."""
        return self.writes_while_computing and not self.is_stateful

    @property
    def writes_while_computing(self) -> bool:
        """Whether rows are written as they are computed, and counted by the write.

        This requires no `each_batch` and a sink that reads the rows once. The rows of other jobs
        are persisted and counted before they are written.
        """
        has_row_count = self.sink_preserves_rows or self.one_to_one
        return (
            self.each_batch is None
            and not self.merges_windows
            and has_row_count
            and self.sink.reads_once
        )

    @property
    def builds_rows_per_batch(self) -> bool:
        """Whether the sink gets rows that are built in each batch from those of the query."""
        return self.emit == "changes" or self.each_batch is not None

    @property
    def sink_preserves_rows(self) -> bool:
        """Whether the target gets exactly the rows of the query."""
        return isinstance(self.sink, Append)

    @property
    def _changes_results(self) -> bool:
        return self.emit == "changes" or self.allowed_lateness is not None

    def _require_valid_inputs(self) -> None:
        """Refuse invalid names of inputs, and topics that several inputs or an endless loop read.

        Rows are assigned to the inputs by topic.
        """
        example = 'inputs={"clicks": Input(...)}'
        if not isinstance(self.inputs, Mapping):
            raise ColumnTypeError(f"invalid inputs: {self.inputs!r}", "inputs by name", example)
        if not self.inputs or not all(
            isinstance(name, str) and name.isidentifier() for name in self.inputs
        ):
            raise ArgumentError(
                f"invalid names of inputs: {list(self.inputs)}",
                "at least one input, each with a name of letters, digits and '_'",
                example,
            )
        for name, job_input in self.inputs.items():
            require_type(job_input, Input, f"inputs[{name!r}]", example)
        sources = [job_input.source for job_input in self.inputs.values()]
        topic_names = [topic for source in sources for topic in source.topic_names]
        has_pattern = any(source.pattern for source in sources)
        if len(set(topic_names)) < len(topic_names) or (has_pattern and len(sources) > 1):
            raise ArgumentError(
                f"invalid topics of the inputs: {topic_names}",
                "each topic in one input only, and no pattern among several inputs",
                "one input for a topic that is needed twice; the transform can use its frame twice",
            )
        if self.dead_letter_topic is None:
            return
        require_type(
            self.dead_letter_topic,
            DeadLetterTopic,
            "dead_letter_topic",
            'dead_letter_topic=DeadLetterTopic("localhost:9092", topic="dead")',
        )
        topic = self.dead_letter_topic.topic
        # Java's pattern is matched as a Python pattern; most patterns are the same in both.
        if topic in topic_names or any(
            source.pattern and re.fullmatch(source.pattern, topic) for source in sources
        ):
            raise ArgumentError(
                f"invalid dead_letter_topic: {topic!r}, which the job reads", "another topic"
            )

    def _check_row_expressions(self) -> None:
        """Let the only input check the expressions of the transform for each row."""
        if isinstance(self.transform, EvaluatesRows) and len(self.inputs) == 1:
            ((name, job_input),) = self.inputs.items()
            expressions = tuple(self.transform.row_expressions)
            checked_input = replace(job_input, row_expressions=expressions)
            object.__setattr__(self, "inputs", {name: checked_input})

    @property
    def _passes_rows_through(self) -> bool:
        """Whether the sink gets the rows of the inputs as they are."""
        return self.transform is None and self.each_batch is None

    def _require_changes(self) -> None:
        """Refuse rows of the inputs that are not changes, for a sink that reads changes."""
        if not self._passes_rows_through or not self.sink.reads_changes:
            return
        for name, job_input in self.inputs.items():
            columns = {*job_input.format.schema.names, EVENT_TIME}
            missing = [column for column in CHANGE_COLUMNS if column not in columns]
            if missing:
                raise ColumnError(
                    f"invalid format of the input {name!r}: its rows are not changes",
                    f"the columns of a change; {', '.join(missing)} are missing",
                    "debezium_format or maxwell_format; a VersionedTable in a TemporalJoin, which "
                    "stores the rows of upsert_json_format; or a transform that returns changes",
                )

    def _pass_unavailable_values(self) -> None:
        """Let changes with values that were not sent reach a sink that stores those before."""
        if not self._passes_rows_through or not self.sink.fills_unavailable:
            return
        inputs = {
            name: replace(job_input, format=job_input.format.passing_unavailable())
            if isinstance(job_input.format, PartialFormat)
            else job_input
            for name, job_input in self.inputs.items()
        }
        object.__setattr__(self, "inputs", inputs)

    def _require_valid_functions(self) -> None:
        """Refuse a transform without late rows, and functions of another number of frames."""
        transform, each_batch = self.transform, self.each_batch
        if transform is not None:
            if not callable(transform) or not callable(getattr(type(transform), "late_at", None)):
                raise ColumnTypeError(
                    f"invalid transform: {transform!r} does not define which rows are late",
                    "a WindowAggregation, a stream join, a Deduplication, or a function in "
                    "Stateless or Stateful",
                    "transform=Stateless(function), for a function without state",
                )
            wrapped = transform.function if isinstance(transform, Stateless | Stateful) else None
            _require_callable_with(wrapped or transform, "transform", list(self.inputs), [])
        if each_batch is not None:
            if not callable(each_batch):
                raise ColumnTypeError(
                    f"invalid each_batch: {each_batch!r}", "a function of a DataFrame"
                )
            by_name = transform is None and len(self.inputs) > 1
            names = list(self.inputs) if by_name else []
            _require_callable_with(each_batch, "each_batch", [] if by_name else ["rows"], names)

    def _require_valid_emit(self) -> None:
        """Refuse windows that change after they are written, where they cannot be merged."""
        if self.emit not in ("final", "changes"):
            raise ArgumentError(f"invalid emit: {self.emit!r}", "'final' or 'changes'")
        if self.allowed_lateness is not None:
            microseconds(self.allowed_lateness, "allowed_lateness", min_value=0)
        if not self.merges_windows and not self._changes_results:
            return
        windows_sink = corrected_windows_in(self.sink)
        if windows_sink is None:
            raise ArgumentError(
                f"invalid sink: emit='changes' and allowed_lateness do not support "
                f"{type(self.sink).__name__}",
                "the sink CorrectedWindows",
                'CorrectedWindows("/tables/views", aggregation=views), with transform=views',
            )
        if len(self.inputs) != 1 or self.each_batch is not None:
            raise ArgumentError(
                f"invalid sink: CorrectedWindows with {len(self.inputs)} inputs"
                f"{' and each_batch' if self.each_batch is not None else ''}",
                "one input and no each_batch",
            )
        if not isinstance(self.transform, WindowAggregation):
            raise ArgumentError(
                f"invalid transform: {self.transform!r} with the sink CorrectedWindows",
                "a WindowAggregation, whose aggregates merge",
                'transform=WindowAggregation(Tumbling("1 minute"), ...)',
            )
        if windows_sink.aggregation != self.transform:
            raise ArgumentError(
                f"invalid transform: {self.transform!r}, while the sink merges "
                f"{windows_sink.aggregation!r}",
                "the same WindowAggregation in both",
                "views = WindowAggregation(...), then transform=views and "
                "CorrectedWindows(path, aggregation=views)",
            )

    def _require_complete_joins(self) -> None:
        """Refuse to add up counts of an early join, which emits the pairs of a row over batches."""
        join = _interval_join_of(self.transform)
        if join is None or join.emit != "early" or join.how in ("semi", "anti"):
            return
        if _adds_results(self.sink):
            raise ArgumentError(
                f"invalid emit of the join: 'early' with {type(self.sink).__name__}, which adds up "
                "batches",
                "'final', which emits all matches of a left row in one batch; with 'early' a row "
                "with matches in two batches would be counted twice",
                'IntervalJoin(..., emit="final")',
            )

    def _log_lateness_obstacles(self) -> Iterator[str]:
        """Yield the parts of a job with watermarks="log" that more than the log decides."""
        if not all(job_input.late_by_log for job_input in self.inputs.values()):
            yield "an input with other watermarks"
        if self._changes_results or self.merges_windows:
            yield "windows that change after they are written"
        if not self.is_stateful:
            yield "no transform that defines late rows"
        if any(job_input.source.on_data_loss == "record" for job_input in self.inputs.values()):
            yield "on_data_loss='record', which skips lost records"

    def _require_valid_settings(self) -> None:
        if self.every is not None:
            microseconds(self.every, "every", min_value=0)
        else:
            for name, job_input in self.inputs.items():
                if job_input.idle_timeout is not None:
                    raise ArgumentError(
                        f"invalid idle_timeout: {job_input.idle_timeout!r} in the input {name!r}",
                        "no idle timeout in a job that ends when all records are read",
                        'every="10 seconds", or idle_timeout=None',
                    )
        if self.metrics_port is not None:
            require_count(self.metrics_port, "metrics_port", min_value=1, max_value=65_535)
        require_type(self.metrics_address, str, "metrics_address", f'metrics_address="{LOOPBACK}"')
        if self.report is not None:
            require_path(self.report, "report")
        is_blank = isinstance(self.revision, str) and not self.revision.strip()
        if (
            is_blank
            or not isinstance(self.revision, str | int | None)
            or isinstance(self.revision, bool)
        ):
            raise ColumnTypeError(
                f"invalid revision: {self.revision!r}",
                "a text that is not blank, an integer, or None",
                "revision=2",
            )
        for label, expected_type, example in (
            ("limits", Limits, "Limits(dead_ratio=None)"),
            ("maintenance", Maintenance, "Maintenance(compact_every=200)"),
            ("side_table_layout", TableLayout, 'TableLayout(cluster_by=["topic", "partition"])'),
        ):
            require_type(getattr(self, label), expected_type, label, f"{label}={example}")
        for job_input in self.inputs.values():
            try:
                require_shared_columns(self.side_table_layout, job_input.format.schema)
            except (ColumnError, ColumnTypeError) as error:
                # The message must not be mistaken for one about the target's layout.
                problem = f"invalid side_table_layout: {error.problem}"
                raise type(error)(problem, error.detail, error.remedy) from None

    def _require_storable_fields(self) -> None:
        """Refuse field names that the target or a late row table cannot store."""
        if self._passes_rows_through or not isinstance(self.transform, Stateless | None):
            for name, job_input in self.inputs.items():
                fields = nested_names(job_input.format.schema)
                require_storable_names(fields, f"input {name!r}")

    def _require_disjoint_locations(self) -> None:
        self._require_late_rows_paths()
        if self.catalog is not None and (
            not isinstance(self.catalog, str) or not is_schema_name(self.catalog)
        ):
            raise ArgumentError(
                f"invalid catalog: {self.catalog!r}",
                "a schema, or a catalog and a schema, of letters, digits and '_'",
                'catalog="main.shop"',
            )
        for field_name in ("checkpoint", "dead_letters", "offset_gaps"):
            if getattr(self, field_name) is not None:
                require_path(getattr(self, field_name), field_name)
        locations = self.locations
        tables = self.sink.tables()
        outputs = Counter(output for _, output in tables)
        repeated = [output for output, number in outputs.items() if number > 1]
        if repeated:
            raise ArgumentError(
                f"invalid sink: several tables with the output {repeated[0]!r}",
                "a different output for each table of the sink",
                'output="hours"',
            )
        # Two outputs may share a table of the sink; no other paths may overlap.
        sink_paths = {normalize_path(path): f"the sink's {output!r}" for path, output in tables}
        late_tables = {
            "late_rows" if len(self.inputs) == 1 else f"late_rows[{name!r}]": table
            for name, table in locations.late_rows.items()
        }
        require_disjoint(
            [
                *((name, path) for path, name in sink_paths.items()),
                ("dead_letters", locations.dead_letters.path),
                ("offset_gaps", locations.offset_gaps.path),
                *((label, table.path) for label, table in late_tables.items()),
            ],
            locations.checkpoint,
        )

    def _require_late_rows_paths(self) -> None:
        late_rows, inputs = self.late_rows, list(self.inputs)
        if isinstance(late_rows, Mapping):
            unknown = [name for name in late_rows if name not in inputs]
            if unknown:
                raise ArgumentError(
                    f"invalid late_rows: unknown inputs {unknown}",
                    f"a path per input: {', '.join(inputs)}",
                )
            for name, path in late_rows.items():
                require_path(path, f"late_rows[{name!r}]")
        elif late_rows is not None and len(inputs) > 1:
            raise ArgumentError(
                f"invalid late_rows: {late_rows!r} with {len(inputs)} inputs",
                "a path for each input, by its name",
                f'late_rows={{"{inputs[0]}": "/tables/late_{inputs[0]}"}}',
            )
        elif late_rows is not None:
            require_path(late_rows, "late_rows")

    def _backfill_obstacles(self) -> Iterator[str]:
        """Yield the parts of the job whose backfill could have other results than a stream."""
        if self._changes_results:
            yield "windows that change after they are written"
        for name, job_input in self.inputs.items():
            source = job_input.source
            if source.on_data_loss == "record":
                yield f"on_data_loss='record' in the input {name!r}"
            if not isinstance(source.start, str | Mapping):
                yield f"a start time in the input {name!r}"
            if source.start == "latest":
                yield f"start='latest' in the input {name!r}"
        yield from _transform_obstacles(self.transform)
        if self.each_batch is not None and self.transform is None and len(self.inputs) > 1:
            yield "each_batch over several inputs, whose result may depend on batch boundaries"
        yield from _sink_obstacles(self.sink, self.transform)


def _refuse(obstacles: Iterator[str], problem: str, expected: str, hint: str) -> None:
    obstacle = next(obstacles, None)
    if obstacle is not None:
        raise ArgumentError(f"{problem} with {obstacle}", expected, hint)


def _require_callable_with(
    function: Callable[..., object], label: str, positional: Sequence[str], keywords: Sequence[str]
) -> None:
    try:
        signature = inspect.signature(function)
    except ValueError:  # Functions written in C have no signature; the call itself is the check.
        return
    try:
        signature.bind(*positional, **dict.fromkeys(keywords))
    except TypeError as error:
        frames = ", ".join([*positional, *(f"{name}=" for name in keywords)])
        raise ArgumentError(
            f"invalid {label}: it takes {signature}: {error}",
            f"a callable with the arguments ({frames})",
        ) from None


def _transform_obstacles(transform: Any) -> Iterator[str]:
    if transform is None or isinstance(transform, Stateless):
        return
    transform_type = type(transform)
    if transform_type not in (WindowAggregation, Deduplication, IntervalJoin, NearDuplicates):
        yield f"{transform_type.__name__}, which does not declare the results that a row can change"
        return
    times = transform.time if isinstance(transform.time, tuple) else (transform.time,)
    if set(times) != {EVENT_TIME}:
        yield f"a transform by {', '.join(times)}, while lateness is by {EVENT_TIME}"
    if isinstance(transform, WindowAggregation):
        window = transform.window
        if type(window) not in _BACKFILL_WINDOWS:
            yield f"windows of {type(window).__name__}"
        if isinstance(window, Session) and isinstance(window.gap, Column):
            yield "sessions with a gap per event"
        if isinstance(window, Sliding) and window.windows != "each":
            yield f"sliding windows with windows={window.windows!r}"


def _interval_join_of(transform: Transform | None) -> IntervalJoin | None:
    """Return the join of a transform, also of a function that has the lateness of a join."""
    owner: object = transform
    if isinstance(transform, Stateful) and inspect.ismethod(transform.late_from):
        owner = transform.late_from.__self__
    return owner if isinstance(owner, IntervalJoin) else None


def _adds_results(sink: Sink) -> bool:
    return sink.adds_results or any(map(_adds_results, sink.inner_sinks))


def _sink_obstacles(sink: Sink, transform: Any) -> Iterator[str]:
    if not sink.supports_backfill:
        yield f"the sink {type(sink).__name__}"
        return
    for inner_sink in sink.inner_sinks:
        yield from _sink_obstacles(inner_sink, transform)
    # A window and its grouping columns identify a result, but several sliding windows can be equal.
    has_unique_keys = (
        isinstance(transform, WindowAggregation)
        and not isinstance(transform.window, Sliding)
        and {"window", *transform.by} <= set(sink.result_keys or ())
    )
    if sink.result_keys and not sink.adds_results and not has_unique_keys:
        keys = ", ".join(sink.result_keys)
        yield f"the sink {type(sink).__name__} by {keys}, where two results may share a key"


def require_job(job: object) -> None:
    """Raise ColumnTypeError unless the value is a job."""
    require_type(job, Job, "job", "Job(name=..., inputs=..., sink=...)")
