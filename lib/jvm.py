"""The only module that reaches into the JVM: Delta's log, file systems, a query's numbers.

Nothing here works under Spark Connect, which is why transforms may not use it and sinks must.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.java_gateway import is_instance_of  # type: ignore[import-untyped]
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType


def observed(query: StreamingQuery, name: str) -> dict[str, Any] | None:
    """Return what `observe(name, ...)` counted in the batch that runs now; None before an action.

    To be asked inside foreachBatch, after an action on the batch and before anything is committed.
    Spark adds up the
    counts of every task that ended: a stage that ran twice after a lost executor counts twice, so
    these numbers are to be checked against rows counted, never trusted alone. Observe numbers and
    text only, no timestamps.
    """
    execution = _jvm_query(query).lastExecution()
    if execution is None:
        return None
    row = execution.observedMetrics().get(name)
    if row.isEmpty():
        return None
    values = row.get()
    return {field: values.get(at) for at, field in enumerate(values.schema().fieldNames())}


def dropped_behind_watermark(query: StreamingQuery) -> int:
    """Return how many rows the stateful operators have left out as late in the batch that runs now.

    To be asked where `observed` is. An operator may have grouped the rows before it counts, or have
    made several of one: the number says whether rows were dropped, and not how many of the source.
    """
    execution = _jvm_query(query).lastExecution()
    if execution is None:
        return 0
    dropped = 0
    ahead = [execution.executedPlan()]
    while ahead:
        node = ahead.pop()
        found = node.metrics().get("numRowsDroppedByWatermark")
        if found.isDefined():
            dropped += int(found.get().value())
        children = node.children()
        ahead += [children.apply(at) for at in range(children.size())]
    return dropped


def message(error: Exception) -> str:
    """Return an error's text.

    `str` of one of Delta's errors raises another, as Spark does not know its class.
    """
    return str(getattr(error, "_desc", None) or error)


def conditions(error: BaseException) -> list[str]:
    """Return the names that Spark gives an error and its causes in the JVM, the outermost first."""
    found: list[str] = []
    cause = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    gateway = SparkContext._gateway
    while cause is not None and gateway is not None:
        if is_instance_of(gateway, cause, "org.apache.spark.SparkThrowable"):
            name = cause.getCondition()
            found += [] if name is None else [str(name)]
        cause = cause.getCause()
    return found


def _jvm_query(query: StreamingQuery) -> Any:
    return query._jsq.streamingQuery()


@contextmanager
def between_batches(query: StreamingQuery) -> Iterator[None]:
    """Keep a query from looking for new rows while the block runs.

    The lock is the one under which Spark asks all sources of the query for what is new, one after
    another: what the block does, each source sees before the same batch.
    """
    lock = _jvm_query(query).awaitProgressLock()
    lock.lock()
    try:
        yield
    finally:
        lock.unlock()


def has_class(spark: SparkSession, name: str) -> bool:
    """Return whether the driver finds a class, among the jars that the session was given too."""
    jvm: Any = spark._jvm
    return bool(jvm.org.apache.spark.util.Utils.classIsLoadable(name))


def java_version(spark: SparkSession) -> str:
    """Return the version of the Java that Spark runs in."""
    jvm: Any = spark._jvm
    return str(jvm.java.lang.System.getProperty("java.version"))


def read_bytes(spark: SparkSession, path: str) -> bytes | None:
    """Return a file's bytes through the Hadoop file system of its scheme; None without such a file.

    Raises OSError for a file that is there and cannot be read: no permission, or a check sum that
    does not fit.
    """
    jvm: Any = spark._jvm
    file = jvm.org.apache.hadoop.fs.Path(path)
    conf = _session(spark).sessionState().newHadoopConf()
    return _read(jvm, file, lambda: file.getFileSystem(conf))


def _read(jvm: Any, file: Any, opened: Callable[[], Any]) -> bytes | None:
    try:
        system = opened()
        if not system.exists(file):
            return None
        stream = system.open(file)
        try:
            return bytes(jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()
    except Py4JJavaError as error:
        told = error.java_exception.toString()
        raise OSError(f"{file.toString()} cannot be read: {told}") from error


class WholeFiles:
    """A folder of small files, each written whole or not at all, as Spark writes its checkpoints.

    Hadoop's check sums beside them are not looked at: of a writer that was killed they may be those
    of the content before. The files must bear a hash of their own. Each method raises OSError.
    """

    def __init__(self, spark: SparkSession, folder: str) -> None:
        jvm: Any = spark._jvm
        self._jvm = jvm
        self._made = jvm.org.apache.hadoop.fs.Path
        self._folder = self._made(folder)
        # A copy of all settings, which is made once.
        self._conf = _session(spark).sessionState().newHadoopConf()
        managers = jvm.org.apache.spark.sql.execution.streaming.checkpointing
        made = getattr(getattr(managers, "CheckpointFileManager$"), "MODULE$")
        with self._told(self._folder):
            self._manager = made.create(self._folder, self._conf)
            scheme = self._folder.getFileSystem(self._conf).getUri().getScheme()
        self._local = Path(self._folder.toUri().getPath()) if scheme == "file" else None

    def write(self, name: str, content: bytes, *, replace: bool) -> bool:
        """Write a file; return False where it is there and is not to be replaced."""
        if replace and self._local is not None:
            # Hadoop replaces a local file by deleting it first: for a moment it would be gone, and
            # for ever where the process is killed then.
            part = self._local / f".{name}.part"
            part.write_bytes(content)
            part.replace(self._local / name)
            return True
        file = self._made(self._folder, name)
        try:
            if not replace:
                self._manager.mkdirs(self._folder)
            stream = self._manager.createAtomic(file, replace)
            try:
                stream.write(bytearray(content))
            except BaseException:
                stream.cancel()
                raise
            stream.close()
        except Py4JJavaError as error:
            told = error.java_exception
            if "FileAlreadyExists" in told.getClass().getName():
                return False
            raise OSError(f"{file.toString()} cannot be written: {told.toString()}") from error
        return True

    def names(self) -> list[str]:
        """Return the names of the files; none where there is no such folder."""
        with self._told(self._folder):
            if not self._manager.exists(self._folder):
                return []
            return [status.getPath().getName() for status in self._manager.list(self._folder)]

    def read(self, name: str) -> bytes | None:
        """Return a file's bytes; None without such a file."""
        # The file system that Spark's session shares must go on to look at check sums.
        systems = self._jvm.org.apache.hadoop.fs.FileSystem
        own = systems.newInstance(self._folder.toUri(), self._conf)
        try:
            own.setVerifyChecksum(False)
            return _read(self._jvm, self._made(self._folder, name), lambda: own)
        finally:
            own.close()

    def delete(self, name: str) -> None:
        """Delete a file; nothing happens where there is none."""
        with self._told(self._folder):
            self._manager.delete(self._made(self._folder, name))

    @contextmanager
    def _told(self, path: Any) -> Iterator[None]:
        try:
            yield
        except Py4JJavaError as error:
            told = error.java_exception.toString()
            raise OSError(f"{path.toString()} cannot be used: {told}") from error


def names_in(spark: SparkSession, folder: str) -> list[str]:
    """Return the names of a folder's files; none where there is no such folder."""
    jvm: Any = spark._jvm
    place = jvm.org.apache.hadoop.fs.Path(folder)
    try:
        system = place.getFileSystem(_session(spark).sessionState().newHadoopConf())
        if not system.exists(place):
            return []
        return [status.getPath().getName() for status in system.listStatus(place)]
    except Py4JJavaError as error:
        raise OSError(f"{folder} cannot be listed: {error.java_exception.toString()}") from error


@dataclass(frozen=True)
class DeltaState:
    """One version of a Delta table's log; version -1 is a table that does not exist."""

    version: int
    log_path: str
    _snapshot: Any

    def transaction(self, app_id: str) -> int | None:
        """Return the last transaction number of an application id; None where it never wrote.

        Delta works this out from the log by a Spark job, once for each version.
        """
        found = self._snapshot.transactions().get(app_id)
        return None if found.isEmpty() else int(found.get())

    def writers(self) -> list[str]:
        """Return all application ids that the table has transaction numbers of; a Spark job too."""
        found = self._snapshot.transactions().keys().iterator()
        names = []
        while found.hasNext():
            names.append(str(found.next()))
        return names

    def table_id(self) -> str:
        """Return the id that the table got when it was made."""
        return str(self._snapshot.metadata().id())

    def schema(self) -> StructType:
        """Return the table's columns."""
        return StructType.fromJson(json.loads(self._snapshot.schema().json()))

    def property(self, name: str) -> str | None:
        """Return one of the table's properties; None where it is not set."""
        found = self._snapshot.metadata().configuration().get(name)
        return None if found.isEmpty() else str(found.get())

    def partition_columns(self) -> list[str]:
        """Return the columns by which the table's files are partitioned."""
        columns = self._snapshot.metadata().partitionColumns()
        return [columns.apply(i) for i in range(columns.size())]


def delta_state(spark: SparkSession, path: str) -> DeltaState:
    """Read a table's log up to its newest version.

    Costs a listing of the log when nothing has changed.
    """
    jvm: Any = spark._jvm
    log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(_session(spark), path)
    nothing = jvm.scala.Option.empty()
    snapshot = log.update(False, nothing, nothing)
    return DeltaState(int(snapshot.version()), str(log.logPath().toString()), snapshot)


class _AtTheCommit:
    """Delta's observer of a thread's transactions: looks right before what one does is committed.

    Delta has begun the transaction by then, so that a commit which another writer makes after the
    look is one that this transaction meets.
    """

    def __init__(self, look: Callable[[], None]) -> None:
        self._look = look
        self.failure: BaseException | None = None

    # The names are Delta's, which calls them.
    def createChild(self) -> _AtTheCommit:  # noqa: N802
        return self

    def startingTransaction(self, start: Any) -> Any:  # noqa: N802
        return start.apply()

    def preparingCommit(self, prepare: Any) -> Any:  # noqa: N802
        try:
            self._look()
        except BaseException as error:
            self.failure = error
            raise
        return prepare.apply()

    def beginDoCommit(self) -> None:  # noqa: N802
        return None

    beginBackfill = beginPostCommit = transactionCommitted = beginDoCommit  # noqa: N815
    transactionAborted = advanceToNextThreadObserver = beginDoCommit  # noqa: N815

    class Java:
        """What py4j asks for."""

        implements = ("org.apache.spark.sql.delta.TransactionExecutionObserver",)


@contextmanager
def at_the_commit(spark: SparkSession, look: Callable[[], None]) -> Iterator[None]:
    """Call `look` within every Delta transaction of this thread, right before its commit.

    What it raises is raised here, and nothing is committed.
    """
    ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]
    delta: Any = spark._jvm.org.apache.spark.sql.delta  # type: ignore[union-attr]
    observers = getattr(getattr(delta, "TransactionExecutionObserver$"), "MODULE$")
    before = observers.getObserver()
    mine = _AtTheCommit(look)
    observers.setObserver(mine)
    try:
        yield
    except Exception as error:
        raise (mine.failure or error) from error
    finally:
        observers.setObserver(before)


def touch_transaction(spark: SparkSession, path: str, app_id: str, number: int) -> None:
    """Make a commit that says the number of an application id anew, and no more.

    A transaction that has read this id and is not committed yet meets it, and is refused.
    """
    jvm: Any = spark._jvm
    delta = jvm.org.apache.spark.sql.delta
    said = delta.actions.SetTransaction(app_id, number, jvm.scala.Option.empty())
    actions = jvm.java.util.ArrayList()
    actions.add(said)
    begun = delta.DeltaLog.forTable(_session(spark), path).startTransaction()
    update = getattr(getattr(delta, "DeltaOperations$ManualUpdate$"), "MODULE$")
    begun.commit(jvm.scala.jdk.javaapi.CollectionConverters.asScala(actions).toSeq(), update)


def release(frame: DataFrame) -> None:
    """Free the rows of a frame that `localCheckpoint` gave; it cannot be read again."""
    frame._jdf.queryExecution().analyzed().rdd().unpersist(False)


@dataclass(frozen=True)
class TopicState:
    """What a broker says of a topic: the id that it got when it was made, and its partitions."""

    id: str
    partitions: int


class KafkaClient:
    """Asks a broker of its topics, by Kafka's own client and the `kafka.*` options of a source.

    A context manager, and usable by several threads. Each question raises OSError where the broker
    gives no answer within ten seconds.
    """

    def __init__(self, spark: SparkSession, servers: str, options: Mapping[str, str]) -> None:
        jvm: Any = spark._jvm
        self._jvm = jvm
        self._servers = servers
        settings = jvm.java.util.Properties()
        for name, value in {**options, "kafka.bootstrap.servers": servers}.items():
            if name.lower().startswith("kafka."):
                settings.put(name[len("kafka.") :], value)
        self._package = jvm.org.apache.kafka.clients.admin
        with self._answered("has no client"):
            self._client = self._package.Admin.create(settings)

    def __enter__(self) -> KafkaClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._client.close(self._jvm.java.time.Duration.ZERO)

    def names(self, pattern: str = ".*") -> list[str]:
        """Return the topics that a Java regular expression names, the internal ones left out."""
        options = self._package.ListTopicsOptions().timeoutMs(_KAFKA_MS)
        with self._answered("does not tell its topics"):
            found = self._client.listTopics(options).names().get()
            matches = self._jvm.java.util.regex.Pattern.matches
            return sorted(name for name in found if matches(pattern, name))

    def states(self, topics: Sequence[str]) -> dict[str, TopicState]:
        """Return the state of each of the topics that are there."""
        options = self._package.DescribeTopicsOptions().timeoutMs(_KAFKA_MS)
        wanted = self._jvm.java.util.ArrayList()
        for topic in topics:
            wanted.add(topic)
        states: dict[str, TopicState] = {}
        with self._answered(f"does not tell of {', '.join(topics)}"):
            found = self._client.describeTopics(wanted, options).topicNameValues()
            for topic in topics:
                told = _unless_unknown(found.get(topic))
                if told is not None:
                    size = int(told.partitions().size())
                    states[topic] = TopicState(str(told.topicId().toString()), size)
        return states

    def earliest(self, partitions: Mapping[str, Iterable[int]]) -> dict[str, dict[int, int]]:
        """Return the first offset that each partition still has, by topic and number."""
        return self._offsets(partitions, self._package.OffsetSpec.earliest())

    def latest(self, partitions: Mapping[str, Iterable[int]]) -> dict[str, dict[int, int]]:
        """Return where each partition ends, without transactions that are open."""
        return self._offsets(partitions, self._package.OffsetSpec.latest())

    def _offsets(
        self, partitions: Mapping[str, Iterable[int]], spec: Any
    ) -> dict[str, dict[int, int]]:
        committed = self._jvm.org.apache.kafka.common.IsolationLevel.READ_COMMITTED
        options = self._package.ListOffsetsOptions(committed).timeoutMs(_KAFKA_MS)
        made = self._jvm.org.apache.kafka.common.TopicPartition
        wanted = self._jvm.java.util.HashMap()
        places = [(topic, part) for topic, parts in partitions.items() for part in parts]
        asked = {place: made(*place) for place in places}
        for place in asked.values():
            wanted.put(place, spec)
        offsets: dict[str, dict[int, int]] = {}
        with self._answered("does not tell the offsets"):
            found = self._client.listOffsets(wanted, options).all().get()
            for (topic, part), place in asked.items():
                offsets.setdefault(topic, {})[part] = int(found.get(place).offset())
        return offsets

    @contextmanager
    def _answered(self, what: str) -> Iterator[None]:
        try:
            yield
        except Py4JJavaError as error:
            told = error.java_exception
            cause = told.getCause() or told
            raise OSError(f"{self._servers} {what}: {cause.toString()}") from error


_KAFKA_MS = 10_000
_UNKNOWN = "org.apache.kafka.common.errors.UnknownTopicOrPartitionException"


def _unless_unknown(future: Any) -> Any:
    """Return what a future of Kafka's client holds; None where it says that there is no topic."""
    try:
        return future.get()
    except Py4JJavaError as error:
        cause = error.java_exception.getCause()
        if cause is not None and cause.getClass().getName() == _UNKNOWN:
            return None
        raise


def _session(spark: SparkSession) -> Any:
    return spark._jsparkSession


class SignalHandler:
    """A sun.misc.SignalHandler that calls Python with the signal's number."""

    def __init__(self, action: Callable[[int], None]) -> None:
        self._action = action

    def handle(self, number: Any) -> None:
        """Called by the JVM."""
        self._action(int(number.getNumber()))

    class Java:
        """What py4j asks for."""

        implements = ("sun.misc.SignalHandler",)


@contextmanager
def jvm_signals(
    spark: SparkSession, names: tuple[str, ...], action: Callable[[int], None]
) -> Iterator[None]:
    """Let Python decide on signals that the JVM gets, such as ("TERM", "INT"), in the block.

    Under spark-submit the JVM is the parent, and a signal to the whole process group reaches it as
    well: by itself it would stop Spark in the middle of a batch. `action` runs in a thread of its
    own.
    """
    ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]
    signals: Any = spark._jvm.sun.misc.Signal  # type: ignore[union-attr]
    handler = SignalHandler(action)
    before = [(signals(name), signals.handle(signals(name), handler)) for name in names]
    try:
        yield
    finally:
        for name, old in before:
            signals.handle(name, old)


def executions(spark: SparkSession) -> int:
    """Return how many queries the session has executed, once all of them have been reported."""
    session = _session(spark)
    session.sparkContext().listenerBus().waitUntilEmpty()
    found = session.sharedState().statusStore().executionsList()
    return 1 + max((found.apply(at).executionId() for at in range(found.size())), default=-1)


def scans(spark: SparkSession, first: int) -> Iterator[tuple[str, dict[str, int]]]:
    """Return what each scan of Parquet files since the execution `first` says of itself.

    A pair for each scan: Spark's description, and the scan's metrics by name. A metric that several
    executions show is counted with the first of them.
    """
    store = _session(spark).sharedState().statusStore()
    seen: set[int] = set()
    for execution in range(first, executions(spark)):
        values = store.executionMetrics(execution)
        nodes = store.planGraph(execution).allNodes()
        for node in (nodes.apply(at) for at in range(nodes.size())):
            if node.name().startswith("Scan parquet"):
                yield node.desc(), _metrics(node, values, seen)


def _metrics(node: Any, values: Any, seen: set[int]) -> dict[str, int]:
    found = {}
    for metric in (node.metrics().apply(at) for at in range(node.metrics().size())):
        number = metric.accumulatorId()
        value = values.get(number)
        if value.isDefined() and number not in seen:
            seen.add(number)
            digits = value.get().replace(",", "")
            found[metric.name()] = int(digits) if digits.isdigit() else 0
    return found
