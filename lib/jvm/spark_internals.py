"""Spark's JVM: its classes, session, connections, signals and errors."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any

from py4j.clientserver import ClientServer  # type: ignore[import-untyped]
from py4j.java_gateway import is_instance_of, java_import  # type: ignore[import-untyped]
from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.classic.column import Column as ClassicColumn

from ..errors import ConfigError
from ..versions import is_spark_at_least

_SESSION = "org.apache.spark.sql.classic.SparkSession"
_PYTHON_UTILS = "org.apache.spark.api.python.PythonUtils"
_CHECKPOINTING = "org.apache.spark.sql.execution.streaming" + (
    ".checkpointing" if is_spark_at_least("4.1") else ""
)
CHECKPOINT_MANAGER = f"{_CHECKPOINTING}.CheckpointFileManager"
"""Spark's factory of the managers that write the files of a checkpoint."""
RENAMING_CHECKPOINT_MANAGER = f"{_CHECKPOINTING}.FileSystemBasedCheckpointFileManager"
"""Spark's checkpoint manager that writes a file and renames it."""
_CONSTANTS_OF_QUERY = ("Now", "LocalTimestamp", "SparkVersion")
"""Expressions besides Current* that have another value in another query."""
_SPECIAL_DATES = ("now", "today", "tomorrow", "yesterday")
_DEFAULT_LOG_SETTINGS = "org/apache/spark/log4j2-defaults.properties"
PIN_THREAD = "PYSPARK_PIN_THREAD"
UNPINNED_EFFECT = "a commit would pass without its checks and without the number of its batch"
"""The effect of PYSPARK_PIN_THREAD=false: Delta stores the observer of a commit by thread."""
LOST_ROWS_CONDITION = "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"
"""Spark's condition for lost rows of `localCheckpoint`, which cannot be recomputed."""


def java_class(spark: SparkSession, name: str) -> Any:
    """Return a class of the JVM by its full name.

    Attribute access would resolve one package at a time, and the JVM would search all jars for a
    class with the name of each package.
    """
    return _cached_attribute(spark._jvm, name)


_cached_attribute = lru_cache(maxsize=1_000)(getattr)


def java_object(spark: SparkSession, name: str) -> Any:
    """Return a Scala object by its full name."""
    return getattr(java_class(spark, f"{name}$"), "MODULE$")


def import_python_utils(spark: SparkSession) -> None:
    """Import the class that creates lists of columns.

    PySpark refers to it without its package, for each list, and would search all jars five times.
    """
    java_import(spark._jvm, _PYTHON_UTILS)


def has_class(spark: SparkSession, name: str) -> bool:
    """Return whether the driver has a class, also in the jars of the session."""
    return bool(java_class(spark, "org.apache.spark.util.Utils").classIsLoadable(name))


def has_default_log() -> bool:
    """Return whether the log of the running JVM has a default configuration, of Log4j or Spark."""
    jvm: Any = SparkContext._jvm
    context = jvm.org.apache.logging.log4j.LogManager.getContext(False)
    location = context.getConfiguration().getConfigurationSource().getLocation()
    return location is None or str(location).endswith(_DEFAULT_LOG_SETTINGS)


def java_version(spark: SparkSession) -> str:
    """Return the Java version of Spark."""
    return str(java_class(spark, "java.lang.System").getProperty("java.version"))


def stop_jvm(spark: SparkSession) -> None:
    """Stop Spark, and wait for the end of its JVM; this process cannot start another one."""
    gateway: Any = spark.sparkContext._gateway
    spark.stop()
    gateway.shutdown()
    # The JVM exits at the end of its standard input.
    gateway.proc.stdin.close()
    gateway.proc.wait()


def try_expression(spark: SparkSession, value: Column, *, guard: Column) -> Column:
    """Return a struct with the field `value`; null for a row in which the expression raises.

    Rows without the guard are not evaluated and have a null `value`. The guard also keeps Spark
    from computing parts of the expression in advance, outside of the try: it does so for a part
    that occurs twice, unless a condition decides whether the part is computed at all.

    guard: a condition on columns, not a constant.
    """
    attempt = F.when(guard, F.struct(value.alias("value")))
    skipped = F.struct(F.lit(None).alias("value"))
    expressions = java_object(spark, "org.apache.spark.sql.classic.ExpressionUtils")
    try_eval = java_class(spark, "org.apache.spark.sql.catalyst.expressions.TryEval")
    child: Any = attempt.otherwise(skipped)
    return ClassicColumn(expressions.column(try_eval(expressions.expression(child._jc))))


def nondeterministic_part(rows: DataFrame, value: Column) -> str | None:
    """Return the part of an expression that can change when the same row is computed again.

    Random numbers, clocks, the names of the user and of the catalog, and functions that are
    declared nondeterministic. None if the expression is deterministic.
    """
    frame: Any = rows.select(value)
    (expression,) = _elements(frame._jdf.queryExecution().analyzed().expressions())
    return _nondeterministic_part(expression)


def _nondeterministic_part(expression: Any) -> str | None:
    children = _elements(expression.children())
    for child in children:
        part = _nondeterministic_part(child)
        if part is not None:
            return part
    # Spark regards what is constant during a query as deterministic.
    name = expression.getClass().getSimpleName()
    is_constant_of_query = name.startswith("Current") or name in _CONSTANTS_OF_QUERY
    if (
        is_constant_of_query
        or not expression.deterministic()
        or (name == "Cast" and _is_special_date(expression, children))
    ):
        return str(expression.sql())
    return None


def _is_special_date(expression: Any, children: Sequence[Any]) -> bool:
    """Return whether an expression casts a text such as 'now', which Spark replaces by a clock."""
    target_type = expression.dataType().typeName()
    text = str(children[0].sql()).strip("' ").lower()
    return target_type.startswith(("date", "timestamp")) and text in _SPECIAL_DATES


def _elements(sequence: Any) -> list[Any]:
    return [sequence.apply(index) for index in range(sequence.size())]


def jvm_session(spark: SparkSession) -> Any:
    """Return the JVM session of a Python session."""
    return spark._jsparkSession


@contextmanager
def active_session(spark: SparkSession) -> Iterator[None]:
    """Make a session the active one of this thread in the block."""
    sessions = java_class(spark, _SESSION)
    previous_session = sessions.getActiveSession()
    sessions.setActiveSession(jvm_session(spark))
    try:
        yield
    finally:
        if previous_session.isDefined():
            sessions.setActiveSession(previous_session.get())
        else:
            sessions.clearActiveSession()


def copy_session(spark: SparkSession) -> SparkSession:
    """Return a session with copies of the settings, temporary views and functions of another.

    It shares the cache and the Spark context, and listeners of streaming queries.
    """
    copy = jvm_session(spark).cloneSession()
    for listener in jvm_session(spark).streams().listListeners():
        copy.streams().addListener(listener)
    return SparkSession(spark.sparkContext, copy)


def session_copies(spark: SparkSession, count: int) -> list[SparkSession]:
    """Return sessions in which as many threads can write with settings of their own.

    They have copies of the settings and share the cache, and are made once for each session.
    """
    session = jvm_session(spark)
    session_id = str(session.sessionUUID())
    if session_id not in _COPIES:
        _COPIES.clear()
        _COPIES[session_id] = []
    copies = _COPIES[session_id]
    while len(copies) < count:
        copies.append(SparkSession(spark.sparkContext, session.cloneSession()))
    return copies[:count]


_COPIES: dict[str, list[SparkSession]] = {}
"""The copies of the last session that had any."""


def with_short_plan(frame: DataFrame) -> DataFrame:
    """Return the rows of a frame as a frame whose plan does not contain the plan of the first.

    Spark prints the plan of a persisted frame wherever it is read, which takes minutes where
    persisted frames are built on each other. The rows are recomputed if an executor is lost.
    """
    spark = frame.sparkSession
    rows, schema = frame._jdf.queryExecution().toRdd(), frame._jdf.schema()
    session = jvm_session(spark)
    return DataFrame(session.internalCreateDataFrame(rows, schema, False), spark)


def frame_in_session(frame: DataFrame, spark: SparkSession) -> DataFrame:
    """Return a DataFrame that is computed in another session; its expressions stay as they are."""
    if jvm_session(frame.sparkSession).equals(jvm_session(spark)):
        return frame
    plan = frame._jdf.queryExecution().analyzed()
    dataset = java_class(spark, "org.apache.spark.sql.classic.Dataset")
    return DataFrame(dataset.ofRows(jvm_session(spark), plan), spark)


def set_active_session(spark: SparkSession) -> None:
    """Make a session the active one of this thread."""
    SparkSession._activeSession = spark
    java_class(spark, _SESSION).setActiveSession(jvm_session(spark))


def zero_digit(spark: SparkSession) -> str:
    """Return the digit 0 of the locale by which the JVM formats numbers."""
    symbols = java_class(spark, "java.text.DecimalFormatSymbols")
    return str(symbols.getInstance().getZeroDigit())


def require_pinned_threads(spark: SparkSession) -> None:
    """Raise ConfigError unless each thread of Python has its own thread in the JVM."""
    environment = java_class(spark, "java.lang.System").getenv(PIN_THREAD)
    is_pinned_in_jvm = str(environment or "true").lower() == "true"
    if not is_pinned_in_jvm or not isinstance(spark.sparkContext._gateway, ClientServer):
        raise ConfigError(
            f"invalid {PIN_THREAD}: 'false', {UNPINNED_EFFECT}",
            "true",
            f"unset {PIN_THREAD}, and start Python again",
        )


def local_folders(spark: SparkSession) -> list[str]:
    """Return the folders of this machine for shuffled rows and for rows that exceed the memory."""
    utils = java_class(spark, "org.apache.spark.util.Utils")
    return list(utils.getConfiguredLocalDirs(spark.sparkContext._jsc.sc().conf()))


def enable_state_reading(spark: SparkSession) -> None:
    """Enable a session to read the state of a query that it has not run.

    A state store that is loaded from a snapshot reports to the coordinator of all stores, which
    Spark creates together with the session's streams.
    """
    jvm_session(spark).streams()


def repartition_state(spark: SparkSession, checkpoint: str, partitions: int) -> None:
    """Rewrite the state of a checkpoint into a number of partitions, as its next batch.

    Finishes a rewrite that has started to the same number. Requires Spark 4.2. Raises what Spark
    raises.
    """
    enable_state_reading(spark)
    # The last argument refuses a checkpoint with an unfinished batch.
    jvm_session(spark).streamingCheckpointManager().repartition(checkpoint, partitions, True)


def close_connection(spark: SparkSession) -> None:
    """Close the connection of this thread to the JVM before the thread ends.

    py4j closes it itself unless the JVM has called Python within a call, as Delta calls an observer
    of transactions. Then py4j stores the connection twice and releases it once, which would leak
    two sockets and a thread of the JVM.
    """
    client = spark.sparkContext._gateway._gateway_client  # type: ignore[union-attr]
    connection = client.get_thread_connection()
    if connection is None:
        return
    with suppress(ValueError):
        while True:
            client.deque.remove(connection)
    connection.close()


class _SignalHandler:
    """A sun.misc.SignalHandler that calls Python with the signal's number."""

    def __init__(self, action: Callable[[int], None]) -> None:
        self._action = action

    def handle(self, number: Any) -> None:
        self._action(int(number.getNumber()))

    class Java:
        """The Java interface, for py4j."""

        implements = ("sun.misc.SignalHandler",)


@contextmanager
def handle_jvm_signals(
    spark: SparkSession, names: tuple[str, ...], action: Callable[[int], None]
) -> Iterator[None]:
    """Handle signals to the JVM, such as ("TERM", "INT"), in Python during the block.

    Under spark-submit the JVM is the parent process and receives the signals of the process group
    too; its own handler would stop Spark in the middle of a batch. `action` runs in a separate
    thread.
    """
    ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]
    signals = java_class(spark, "sun.misc.Signal")
    handler = _SignalHandler(action)
    previous_handlers = [(signals(name), signals.handle(signals(name), handler)) for name in names]
    try:
        yield
    finally:
        for name, previous_handler in previous_handlers:
            signals.handle(name, previous_handler)


JVM_ENDED = "Spark's JVM has ended"
_JVM_END_SECONDS = 10.0


def error_text(error: Exception) -> str:
    """Return the text of an error, which begins with JVM_ENDED if there is no JVM to ask for it.

    `str` of Delta's errors raises another error, because Spark does not know their classes.
    """
    if isinstance(error, Py4JError) and (exit_code := _jvm_exit_code()) is not None:
        return f"{JVM_ENDED} with exit code {exit_code}"
    return str(getattr(error, "_desc", None) or error)


def _jvm_exit_code() -> int | None:
    """Return the exit code of the JVM that this process has started; None while it runs.

    A JVM that does not respond is waited for, because it ends in a moment.
    """
    gateway = SparkContext._gateway
    process = getattr(gateway, "proc", None)
    if gateway is None or process is None:
        return None
    try:
        gateway.jvm.System.nanoTime()
    except (Py4JError, OSError):
        with suppress(subprocess.TimeoutExpired):
            process.wait(_JVM_END_SECONDS)
    code: int | None = process.poll()
    return code


def condition_names(error: BaseException) -> list[str]:
    """Return Spark's condition names of an error and of its causes, the outermost first."""
    gateway = SparkContext._gateway
    if gateway is None or (isinstance(error, Py4JError) and _jvm_exit_code() is not None):
        return []
    conditions = [
        cause.getCondition()
        for cause in _java_causes(error)
        if is_instance_of(gateway, cause, "org.apache.spark.SparkThrowable")
    ]
    return [str(name) for name in conditions if name is not None]


def _java_causes(error: BaseException) -> Iterator[Any]:
    cause = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    while cause is not None:
        yield cause
        cause = cause.getCause()


def cause_texts(error: BaseException) -> str:
    """Return the texts of an error in the JVM and of its causes, complete, as lines."""
    return "\n".join(str(cause.toString()) for cause in _java_causes(error))


def root_cause_text(error: Exception) -> str:
    """Return the first line of the root cause of an error in the JVM."""
    causes = list(_java_causes(error))
    text = str(causes[-1].toString()) if causes else error_text(error)
    return (text.splitlines() or [""])[0]


@contextmanager
def raising_os_errors(path: Any, problem: str) -> Iterator[None]:
    """Raise OSError for an exception of the JVM; `path` is a text or a Hadoop path."""
    try:
        yield
    except Py4JJavaError as error:
        name = path if isinstance(path, str) else path.toString()
        raise OSError(f"{name} {problem}: {error.java_exception.toString()}") from error
