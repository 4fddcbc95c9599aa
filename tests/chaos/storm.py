"""A job whose driver and broker are killed again and again while records come."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from tidegate.testing.process import GuardedProcess

from ..crash.left import written
from ..crash.submitted import SubmittedJob
from ..tables import Reader
from .gauges import Gauges, committed, listed
from .worlds import World

Kind = Literal["driver", "broker", "broker, while it is sent to"]
POINTS = ("planned", "state written", "files written", "any table", "target", "committed", "moment")
"""Where a driver is killed: the moment that this is there of a new batch, or some time after its
plan."""
_LONGEST_SECONDS = 300.0
_SPARE = 2


@dataclass(frozen=True)
class Fault:
    """A kill: of what, at what point, and so many seconds past it or of absence."""

    kind: Kind
    point: str
    seconds: float


@dataclass
class Storm:
    """What happened: each fault with its time, and how the runs between them ended."""

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
        """Send a portion and meet a fault, again and again; then let the job come to the end.

        A portion has been acknowledged before it is read, so that partitions are read evenly: a
        record is then late by its own time alone."""
        portion = self.world.count // (len(faults) + _SPARE) + 1
        # All portions divide evenly over the partitions.
        portion += -portion % 4
        with Gauges(self._lag) as gauges:
            waiting = list(faults)
            while waiting and self.world.sent < self.world.count:
                fault = waiting.pop(0)
                began = gauges.now
                met = self._meet(fault, portion)
                told = {**asdict(fault), "from": began, "until": gauges.now, "met": met}
                self.faults.append({**told, "left": self._left()})
                say(f"{gauges.now:6.0f} s  {fault.kind} at {fault.point}: {self.faults[-1]}")
                if not met and fault.kind == "driver":
                    waiting.append(Fault("driver", "planned", 0.0))
            self.world.send(self.world.count)
            summary = self.job.run()
            say(f"{gauges.now:6.0f} s  to the end: {summary}")
            self.seconds = gauges.now
        self.lag = gauges.seen

    def _lag(self) -> int:
        return self.world.sent - committed(self.checkpoint)

    def _meet(self, fault: Fault, portion: int) -> bool:
        if fault.kind == "broker, while it is sent to":
            self._send_through_a_kill(fault, portion)
            return True
        self.world.send(portion)
        there = self._point(fault.point)
        process = self.job.started()
        try:
            if not reached(there, process):
                self._ended(process)
                return False
            if fault.kind == "driver":
                idle(fault.seconds)
                alive = process.alive
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

    def _send_through_a_kill(self, fault: Fault, portion: int) -> None:
        """Kill the broker while records come: the producer sends them until they are
        acknowledged."""
        broker = self.world.broker

        def kill() -> None:
            idle(fault.seconds / 20)
            broker.kill()
            broker.restart()

        killer = threading.Thread(target=kill)
        killer.start()
        self.world.send(portion)
        killer.join()

    def _ended(self, process: GuardedProcess) -> None:
        """Note a job that ended by itself: as it should, or since the broker did not answer."""
        self.ends.append(process.code)
        assert process.code in (0, 3), f"exit code {process.code}:\n{process.tail(40)}"

    def _point(self, point: str) -> Callable[[], bool]:
        before = self._traces(point)
        return lambda: bool(self._traces(point) - before)

    def _traces(self, point: str) -> set[str]:
        """Return what shows that a batch has come to a point: one more name with each batch."""
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
        """Return the newest batch that was planned, and the newest that was committed."""
        newest = {}
        for folder in ("offsets", "commits"):
            numbers = [int(name) for name in listed(self.checkpoint / folder) if name.isdigit()]
            newest[folder] = max(numbers, default=-1)
        return newest


def reached(there: Callable[[], bool], process: GuardedProcess) -> bool:
    """Wait until something is there; say whether it came before the process ended."""
    deadline = time.monotonic() + _LONGEST_SECONDS
    while process.alive:
        if there():
            return True
        assert time.monotonic() < deadline, f"nothing happened:\n{process.tail(40)}"
        time.sleep(0.002)
    return False


def idle(seconds: float) -> None:
    """Let some time pass, which is the fault's."""
    threading.Event().wait(seconds)


def drawn(seed: int, drivers: int, brokers: int) -> list[Fault]:
    """Draw the faults of a seed, in a random order."""
    chance = random.Random(seed)
    faults = [
        Fault("driver", point, round(chance.random() * (2.5 if point == "moment" else 0.15), 3))
        for point in _cycled(chance, POINTS, drivers)
    ]
    kinds: tuple[Kind, ...] = ("broker", "broker, while it is sent to")
    for number in range(brokers):
        point = chance.choice(["planned", "any table", "moment"])
        faults.append(Fault(kinds[number % 2], point, round(chance.random() * 5, 3)))
    chance.shuffle(faults)
    return faults


def _cycled(chance: random.Random, values: Sequence[str], count: int) -> Iterator[str]:
    """Return each value as often as any other, for a count that is a multiple of theirs."""
    for number in range(count):
        if number % len(values) == 0:
            order = chance.sample(values, len(values))
        yield order[number % len(values)]


def differences(world: World, root: Path, readers: dict[str, Reader]) -> dict[str, dict[str, int]]:
    """Return for each table and each engine what is lost, and what is there without reason."""
    wanted = world.wanted(root)
    told: dict[str, dict[str, int]] = {}
    for engine, read in readers.items():
        for table, found in world.found(root, read).items():
            told[f"{table} by {engine}"] = {
                "wanted": wanted[table].total(),
                "found": found.total(),
                "lost": (wanted[table] - found).total(),
                "doubled": (found - wanted[table]).total(),
            }
    return told


def storm(world: World, folder: Path, faults: int) -> Storm:
    """Return a storm of so many faults over a world whose tables lie in a folder; a portion makes
    one batch."""
    batches = faults + _SPARE
    job = SubmittedJob(world.job, folder / "tables", folder / "job.log", world.options(batches))
    return Storm(world, job)
