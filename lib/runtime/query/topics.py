"""A job's topics while it runs: are they there, the same, and whole?"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from pyspark.sql import SparkSession

from ...commit import Batch
from ...errors import SourceError, TidegateError
from ...jvm import KafkaClient, TopicState
from ...offsets import Offsets
from ...sources.topics import asked_states, client, require_same_topics, states_of, topics_like
from ..job import Job
from ..process.failures import is_of_lost_records, plain
from .gaps import Gap, found_gaps, lost
from .streams import Stream

_LOG = logging.getLogger(__name__)
_LOOK_SECONDS = 10.0


class Topics:
    """Looks after the topics of a run, by one client for each of its inputs.

    A context manager. Where a broker does not answer, nothing is said of its topics: Spark waits
    for it, and tells. But what was lost has to be known of an input that records it.

    known: by name, the ids of the topics that the checkpoint has read.
    """

    def __init__(
        self,
        job: Job,
        inputs: Mapping[str, Sequence[Stream]],
        spark: SparkSession,
        known: Mapping[str, str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spark = spark
        self._clock = clock
        self._looked = clock()
        self._alone = len(job.inputs) == 1
        self._sources = {name: given.reading.source for name, given in job.inputs.items()}
        self._recording = [
            name for name, source in self._sources.items() if source.on_data_loss == "record"
        ]
        # An input whose partitions are shared out reads those alone, until the job starts again.
        self._read = {
            name: {place for stream in inputs[name] for place in stream.reads}
            for name, given in job.inputs.items()
            if given.watermarks != 1 and not given.reading.source.partitions
        }
        self._clients: dict[str, KafkaClient] = {}
        self._asked: dict[str, Callable[[], dict[str, TopicState]]] = {}
        self._known = dict(known)
        self._noted = {
            name: {topic: known[topic] for topic in source.named if topic in known}
            for name, source in self._sources.items()
        }
        self._told: set[str] = set()

    def __enter__(self) -> Topics:
        for name in self._sources:
            with suppress(OSError):
                self._note(name, self._states(name))
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._clients.values():
            each.close()

    @property
    def ids(self) -> dict[str, str]:
        """The ids of all topics, by name, as far as a broker has told them."""
        return {topic: each for noted in self._noted.values() for topic, each in noted.items()}

    def lost(self, batch: Batch) -> list[Gap]:
        """Return what a batch would have to read and is gone, of the inputs that record it.

        To be asked before anything of the batch is read. Raises SourceError for a topic whose log
        ends before the batch begins, and for a broker that does not answer.
        """
        return self._gaps(batch, self._recording)

    def ask(self) -> None:
        """Ask the brokers what `require_same` has to know, so that it need not wait for them.

        To be called when the batch, without what `lost` told, has been read.
        """
        for name, source in self._sources.items():
            with suppress(OSError):
                self._asked[name] = asked_states(self.client(name), source)

    def require_same(self, batch: Batch) -> None:
        """Refuse a batch whose topics were made again, or lost records while they were read.

        To be called before anything of the batch is written. What `ask` has not asked is asked now.
        """
        for name in self._sources:
            answer = self._asked.pop(name, None)
            with suppress(OSError):
                states = self._states(name) if answer is None else answer()
                self._note(name, states)
                require_same_topics(self._noted[name], states)
        moved = self._gaps(batch, self._recording)
        if moved:
            raise lost(moved, recorded=True)

    def explained(self, error: Exception, batch: Batch) -> TidegateError | None:
        """Return the error that names what was lost, where a batch failed because of that."""
        if isinstance(error, TidegateError) or not is_of_lost_records(plain(error)):
            return None
        stopping = [name for name in self._sources if name not in self._recording]
        for names in (stopping, self._recording):
            with suppress(SourceError):
                gaps = self._gaps(batch, names)
                if gaps:
                    return lost(gaps, recorded=names is self._recording)
        return None

    def look(self) -> None:
        """Tell of partitions that were added to a topic of which each stream reads its own."""
        if self._read and self._clock() - self._looked >= _LOOK_SECONDS:
            self._looked = self._clock()
            for name in self._read:
                with suppress(OSError):
                    self._tell_added(name, self._states(name))

    def _tell_added(self, name: str, states: Mapping[str, TopicState]) -> None:
        there = {
            f"{topic}-{part}" for topic, state in states.items() for part in range(state.partitions)
        }
        added = sorted(there - self._read[name] - self._told)
        if added:
            self._told.update(added)
            _LOG.warning(
                "%s: partitions were added, and %s are read from the next start of the job on",
                name,
                ", ".join(added),
            )

    def _gaps(self, batch: Batch, names: Sequence[str]) -> list[Gap]:
        found: list[Gap] = []
        for name in names:
            own = batch if self._alone else batch.of(self._sources[name].named)
            found += found_gaps(own.start, own.end, self._earliest(name, own.end))
        return found

    def _note(self, name: str, states: Mapping[str, TopicState]) -> None:
        for topic, state in states.items():
            self._noted[name].setdefault(topic, self._known.get(topic, state.id))

    def client(self, name: str) -> KafkaClient:
        """Return the client of an input; it is closed with the run."""
        if name not in self._clients:
            self._clients[name] = client(self._spark, self._sources[name])
        return self._clients[name]

    def _states(self, name: str) -> dict[str, TopicState]:
        return states_of(self.client(name), self._sources[name])

    def _earliest(self, name: str, partitions: Offsets) -> Offsets:
        try:
            return self.client(name).earliest(partitions)
        except OSError as error:
            raise SourceError(
                f"{error}.",
                "a broker that tells what it still has, where lost records are recorded.",
                "check the broker's address and the options of Kafka's client.",
            ) from error


def missing_topic(job: Job, spark: SparkSession) -> SourceError | None:
    """Return the error that names the topics that a job reads and the broker does not have.

    None where all are there, or the broker does not answer.
    """
    for given in job.inputs.values():
        source = given.reading.source
        try:
            with client(spark, source) as asked:
                there = asked.names()
        except OSError:
            continue
        missing = [] if source.pattern else [name for name in source.named if name not in there]
        if missing:
            return SourceError(
                f"there is no topic {', '.join(missing)} at {source.servers}.",
                topics_like(missing[0], there),
                "create the topic, or check the input's topics.",
            )
    return None
