"""A storm: repeated kills of a job's driver and broker while records arrive."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from tests.chaos.measurements import Gauges, committed, listed
from tests.chaos.scenarios import World
from tests.support.crash_leftovers import written
from tests.support.delta_tables import Reader
from tests.support.spark_submit import SubmittedJob
from tidegate.testing.child_process import GuardedProcess

Kind = Literal["driver", "broker", "broker, during sends"]
POINTS = ("planned", "state written", "files written", "any table", "target", "committed", "moment")
"""Points at which a driver is killed: as soon as a new batch has reached it; "moment" is some time
after its plan."""
_LONGEST_SECONDS = 300.0
_SPARE = 2


@dataclass(frozen=True)
class Fault:
    """A kill: its target, its point, and the seconds of delay (driver) or downtime (broker)."""

    kind: Kind
    point: str
    seconds: float


@dataclass
class Storm:
    """A storm with its results: the time of each fault, and the exit codes of the runs."""

    world: World
    job: SubmittedJob
    faults: list[dict[str, Any]] = field(default_factory=list)
    ends: list[int | None] = field(default_factory=list)
    lag: list[tuple[float, int]] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def checkpoint(self) -> Path:
        """The job's checkpoint."""
        return self.job.root / "_checkpoints" / self.world.job

    def play(self, faults: Sequence[Fault], say: Callable[[str], None]) -> None:
        """Send a chunk of records and inject a fault, repeatedly; then run the job to its end.

        Each chunk is acknowledged before the job reads it, so that partitions advance evenly and
        lateness is deterministic."""
        chunk = self.world.count // (len(faults) + _SPARE) + 1
        # Each chunk divides evenly over the four partitions.
        chunk += -chunk % 4
        with Gauges(self._lag) as gauges:
            waiting = list(faults)
            while waiting and self.world.sent < self.world.count:
                fault = waiting.pop(0)
                start_time = gauges.now
                met = self._inject(fault, chunk)
                entry = {**asdict(fault), "from": start_time, "until": gauges.now, "met": met}
                self.faults.append({**entry, "left": self._left()})
                say(f"{gauges.now:6.0f} s  {fault.kind} at {fault.point}: {self.faults[-1]}")
                if not met and fault.kind == "driver":
                    waiting.append(Fault("driver", "planned", 0.0))
            self.world.send(self.world.count)
            summary = self.job.run()
            say(f"{gauges.now:6.0f} s  to the end: {summary}")
            self.seconds = gauges.now
        self.lag = gauges.seen

    def _lag(self) -> int:
        return self.world.records - committed(self.checkpoint)

    def _inject(self, fault: Fault, chunk: int) -> bool:
        if fault.kind == "broker, during sends":
            self._send_through_a_kill(fault, chunk)
            return True
        self.world.send(chunk)
        there = self._point(fault.point)
        process = self.job.started()
        try:
            if not reached(there, process):
                self._ended(process)
                return False
            if fault.kind == "driver":
                idle(fault.seconds)
                alive = process.is_alive
                if not alive:
                    self._ended(process)
                return alive
            self.world.broker.kill()
            idle(fault.seconds)
            self.world.broker.restart()
            reached(lambda: False, process)
            self._ended(process)
            return True
        finally:
            process.kill()

    def _send_through_a_kill(self, fault: Fault, chunk: int) -> None:
        """Kill the broker while records are sent; the producer retries until acknowledged."""
        broker = self.world.broker

        def kill() -> None:
            idle(fault.seconds / 20)
            broker.kill()
            broker.restart()

        killer = threading.Thread(target=kill)
        killer.start()
        self.world.send(chunk)
        killer.join()

    def _ended(self, process: GuardedProcess) -> None:
        """Record the exit code of a job that ended: success, or an unreachable broker."""
        self.ends.append(process.exit_code)
        assert process.exit_code in (0, 3), f"exit code {process.exit_code}:\n{process.tail(40)}"

    def _point(self, point: str) -> Callable[[], bool]:
        before = self._traces(point)
        return lambda: bool(self._traces(point) - before)

    def _traces(self, point: str) -> set[str]:
        """Return the traces of a point; each batch that reaches it adds a name."""
        root, target = self.job.root, self.world.target
        if point == "state written":
            stores = self.checkpoint / "state" / "0"
            return {
                f"{part}/{name}" for part in listed(stores) for name in listed(stores / part)
            } or self._traces("planned")
        if point == "files written":
            return {name for name in listed(root / target) if name.endswith(".parquet")}
        if point in ("any table", "target"):
            tables = self.world.tables if point == "any table" else [target]
            logs = {table: root / table / "_delta_log" for table in tables}
            return {f"{table}/{name}" for table, log in logs.items() for name in written(log)}
        folder = "commits" if point == "committed" else "offsets"
        return {name for name in listed(self.checkpoint / folder) if name.isdigit()}

    def _left(self) -> dict[str, int]:
        """Return the latest planned and the latest committed batch."""
        newest = {}
        for folder in ("offsets", "commits"):
            numbers = [int(name) for name in listed(self.checkpoint / folder) if name.isdigit()]
            newest[folder] = max(numbers, default=-1)
        return newest


def reached(there: Callable[[], bool], process: GuardedProcess) -> bool:
    """Wait for a condition; return whether it was true before the process ended."""
    deadline = time.monotonic() + _LONGEST_SECONDS
    while process.is_alive:
        if there():
            return True
        assert time.monotonic() < deadline, f"nothing happened:\n{process.tail(40)}"
        time.sleep(0.002)
    return False


def idle(seconds: float) -> None:
    """Wait for the duration of a fault."""
    threading.Event().wait(seconds)


def drawn(seed: int, drivers: int, brokers: int) -> list[Fault]:
    """Return the random faults of a seed."""
    chance = random.Random(seed)
    faults = [
        Fault("driver", point, round(chance.random() * (2.5 if point == "moment" else 0.15), 3))
        for point in _cycled(chance, POINTS, drivers)
    ]
    kinds: tuple[Kind, ...] = ("broker", "broker, during sends")
    for number in range(brokers):
        point = chance.choice(["planned", "any table", "moment"])
        faults.append(Fault(kinds[number % 2], point, round(chance.random() * 5, 3)))
    chance.shuffle(faults)
    return faults


def _cycled(chance: random.Random, values: Sequence[str], count: int) -> Iterator[str]:
    """Yield each value equally often, for a count that is a multiple of their number."""
    for number in range(count):
        if number % len(values) == 0:
            order = chance.sample(values, len(values))
        yield order[number % len(values)]


def differences(world: World, root: Path, readers: dict[str, Reader]) -> dict[str, dict[str, int]]:
    """Return the number of lost and duplicated rows per table and engine."""
    expected = world.expected(root)
    result: dict[str, dict[str, int]] = {}
    for engine, read in readers.items():
        for table, actual in world.actual(root, read).items():
            result[f"{table} by {engine}"] = {
                "expected": expected[table].total(),
                "actual": actual.total(),
                "lost": (expected[table] - actual).total(),
                "doubled": (actual - expected[table]).total(),
            }
    return result


def storm(world: World, folder: Path, faults: int) -> Storm:
    """Return a storm with this number of faults; each chunk of records is one batch."""
    batches = faults + _SPARE
    root = folder / "tables"
    world.create_tables(root)
    job = SubmittedJob(world.job, root, folder / "job.log", world.options(batches))
    return Storm(world, job)
