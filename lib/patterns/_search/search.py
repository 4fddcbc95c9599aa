"""The search for matches: all beginnings at once, each step of the search over arrays.

Each event that a match can begin with has a walker. A walker stands at a node: an event that a
step has taken, with the node before it. In each round every walker tries the next way on from its
node, goes to a new node where an event is found, and goes back where there is no way left. What
failed once from an event and a step fails again, and is not tried twice by one walker; but with
comparisons it depends on the whole path, and is tried for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .automaton import FREE, FULL, LACKING, Automaton, Option
from .events import NEVER, Events, Flags, Ints
from .nodes import NONE, Nodes, Tries


@dataclass(frozen=True)
class Found:
    """What became of each beginning.

    begin: the events that the first step can take. node: the last node of its match; NONE without
    one. decided: from which instant that is certain, in microseconds: when all events up to it are
    known. waited: whether only the time ended it. best: the last node of the attempt that
    came farthest. stop: the first event that is too late for it, or of another key.
    """

    begin: Ints
    node: Ints
    decided: Ints
    waited: Flags
    best: Ints
    stop: Ints
    nodes: Nodes

    @property
    def matched(self) -> Flags:
        """Which beginnings have a match."""
        found: Flags = self.node != NONE
        return found


def search(events: Events, automaton: Automaton, begin: Ints, within: int) -> Found:
    """Return what becomes of matches that begin with some events."""
    return _Search(events, automaton, begin, within).found()


class _Search:
    def __init__(self, events: Events, automaton: Automaton, begin: Ints, within: int) -> None:
        self.events = events
        self.automaton = automaton
        self.begin = begin
        self.stop = events.stops(begin, within)
        self.deadline = events.time[begin] + within
        self.decided = events.time[begin].copy()
        self.waited = np.zeros(len(begin), dtype=bool)
        self.node = np.full(len(begin), NONE, dtype=np.int64)
        self.nodes = Nodes(len(automaton.earlier))
        self.at = self._first_nodes()
        self.best = self.at.copy()
        self.failed = np.empty(0, dtype=np.int64)
        self.remembers = automaton.chooses and not automaton.earlier

    def found(self) -> Found:
        walking = np.arange(len(self.begin))
        while len(walking):
            self._round(walking)
            walking = walking[(self.at[walking] != NONE) & (self.node[walking] == NONE)]
        walked = (self.node, self.decided, self.waited, self.best)
        return Found(self.begin, *walked, self.stop, self.nodes)

    def _first_nodes(self) -> Ints:
        same = np.ones_like(self.begin)
        earlier = np.full((len(self.automaton.earlier), len(self.begin)), NONE, dtype=np.int64)
        for row, asked in enumerate(self.automaton.earlier):
            if asked.step <= 0:
                earlier[row] = self.begin
        return self.nodes.add([self.begin, 0 * same, same, NONE * same, 0 * same], earlier)

    def _round(self, walking: Ints) -> None:
        node = self.at[walking]
        step = self.nodes.row(Nodes.STEP)[node]
        phase = self._phases(step, self.nodes.row(Nodes.COUNT)[node])
        kind = step * 3 + phase
        for each in np.unique(kind):
            options = self.automaton.options[each // 3][each % 3]
            self._go_on(walking[kind == each], options)

    def _phases(self, step: Ints, count: Ints) -> Ints:
        least = np.array(self.automaton.least)[step]
        most = np.array([NEVER if most is None else most for most in self.automaton.most])[step]
        return np.where(count < least, LACKING, np.where(count >= most, FULL, FREE))

    def _go_on(self, walkers: Ints, options: Sequence[Option]) -> None:
        """Take each walker one step on by the first option that passes, or one step back."""
        node = self.at[walkers]
        tries = self._tries(walkers, node, options)
        chosen = self._choose(walkers, node, tries, tries.order(options))
        for way, option in enumerate(options):
            here = np.flatnonzero(chosen == way)
            if option.step is None:
                self.node[walkers[here]] = node[here]
            elif len(here):
                self._take(walkers[here], node[here], option.step, tries.event[way, here])
        self._go_back(walkers[chosen == NONE])

    def _choose(self, walkers: Ints, node: Ints, tries: Tries, order: Ints) -> Ints:
        """Return the first option that passes, of those that are untried at a walker's node.

        order: by turn and walker, the option that is asked. NONE where no option is left.
        """
        tried = self.nodes.row(Nodes.TRIED)[node]
        chosen = np.full(len(walkers), NONE, dtype=np.int64)
        for turn in range(len(order)):
            asked = np.flatnonzero((chosen == NONE) & (turn >= tried))
            way = order[turn, asked]
            asking = walkers[asked]
            # Whether the option passes or not, the answer rests on what was looked at.
            self.decided[asking] = np.maximum(self.decided[asking], tries.looked[way, asked])
            self.waited[asking] |= tries.waited[way, asked]
            tried[asked] = turn + 1
            passing = tries.passes[way, asked]
            chosen[asked[passing]] = way[passing]
        self.nodes.row(Nodes.TRIED)[node] = tried
        return chosen

    def _tries(self, walkers: Ints, node: Ints, options: Sequence[Option]) -> Tries:
        shape = (len(options), len(walkers))
        tries = Tries(
            event=np.full(shape, NEVER, dtype=np.int64),
            passes=np.zeros(shape, dtype=bool),
            looked=np.zeros(shape, dtype=np.int64),
            waited=np.zeros(shape, dtype=bool),
        )
        for way, option in enumerate(options):
            self._try(tries, way, option, walkers, node)
        return tries

    def _try(self, tries: Tries, way: int, option: Option, walkers: Ints, node: Ints) -> None:
        """Note which event each walker would take by an option, and whether it may."""
        at = self.nodes.row(Nodes.EVENT)[node]
        stop = self.stop[walkers]
        earlier = self.nodes.earlier(node)
        event = self._event(option, at, stop, earlier)
        forbidden = np.full(len(at), NEVER, dtype=np.int64)
        for guard in option.guards:
            forbidden = np.minimum(forbidden, self.events.next(guard, at, stop, earlier))
        seen = np.minimum(event, forbidden)
        if option.direct:
            # The very next event is looked at, and none behind it.
            seen = np.where(at + 1 < stop, at + 1, NEVER)
            forbidden = np.where(forbidden == seen, forbidden, NEVER)

        # Where nothing is there to be seen, the answer is known when the time is up.
        nothing = seen == NEVER
        tries.waited[way] = nothing & (option.step is not None)
        times = self.events.time[np.where(nothing, 0, seen)]
        tries.looked[way] = np.where(nothing, self.deadline[walkers], times)
        if option.step is None:
            tries.passes[way] = forbidden == NEVER
            if not option.guards:
                tries.looked[way] = self.decided[walkers]
        else:
            tries.event[way] = event
            tries.passes[way] = (event != NEVER) & (event < forbidden)

    def _event(self, option: Option, at: Ints, stop: Ints, earlier: Ints) -> Ints:
        if option.test is None:
            return np.full(len(at), NEVER, dtype=np.int64)
        if not option.direct:
            return self.events.next(option.test, at, stop, earlier)
        inside = np.flatnonzero(at + 1 < stop)
        passing = self.events.passes(option.test, at[inside] + 1, earlier[:, inside])
        event = np.full(len(at), NEVER, dtype=np.int64)
        event[inside[passing]] = at[inside[passing]] + 1
        return event

    def _take(self, walkers: Ints, node: Ints, step: int, event: Ints) -> None:
        fresh = self._untried(walkers, event, step, self._count(node, step))
        walkers = walkers[fresh]
        node = node[fresh]
        event = event[fresh]
        same = np.ones_like(event)
        rows = [event, step * same, self._count(node, step), node, 0 * same]
        added = self.nodes.add(rows, self._earlier(node, step, event))
        self.at[walkers] = added
        farther = event > self.nodes.row(Nodes.EVENT)[self.best[walkers]]
        self.best[walkers[farther]] = added[farther]

    def _count(self, node: Ints, step: int) -> Ints:
        """Return how many events a step has taken, with one more after a node."""
        same = self.nodes.row(Nodes.STEP)[node] == step
        count: Ints = np.where(same, self.nodes.row(Nodes.COUNT)[node], 0) + 1
        return count

    def _earlier(self, node: Ints, step: int, event: Ints) -> Ints:
        found = self.nodes.earlier(node)
        for row, asked in enumerate(self.automaton.earlier):
            if asked.step not in (step, -1):
                continue
            if asked.first:
                found[row] = np.where(found[row] == NONE, event, found[row])
            else:
                found[row] = event
        return found

    def _go_back(self, walkers: Ints) -> None:
        node = self.at[walkers]
        parent = self.nodes.row(Nodes.PARENT)[node]
        if self.remembers and (parent != NONE).any():
            event = self.nodes.row(Nodes.EVENT)[node]
            step = self.nodes.row(Nodes.STEP)[node]
            count = self.nodes.row(Nodes.COUNT)[node]
            failed = self._states(walkers, event, step, count)
            self.failed = np.union1d(self.failed, failed)
        self.at[walkers] = parent

    def _untried(self, walkers: Ints, event: Ints, step: int, count: Ints) -> Flags:
        if not len(self.failed):
            return np.ones(len(walkers), dtype=bool)
        states = self._states(walkers, event, np.full_like(event, step), count)
        place = np.searchsorted(self.failed, states)
        known: Flags = self.failed[np.minimum(place, len(self.failed) - 1)] == states
        return ~known

    def _states(self, walkers: Ints, event: Ints, step: Ints, count: Ints) -> Ints:
        """Return a number for each walker, event, step and what the step may still take."""
        bounds = zip(self.automaton.least, self.automaton.most, strict=True)
        enough = [least if most is None else most for least, most in bounds]
        counted = np.minimum(count, np.array(enough)[step])
        steps = len(enough)
        state = (event - self.begin[walkers]) * steps + step
        found: Ints = (walkers * len(self.events) * steps + state) * (max(enough) + 1) + counted
        return found
