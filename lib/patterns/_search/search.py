"""The backtracking search for matches, vectorized over all start events.

Each event that can begin a match has a walker. A walker is at a node: an event that a step
consumed, with its parent node. In each round, every walker tries the next transition of its node.
It moves to a new node if the transition consumes an event, and back to the parent node if no
transition remains. A state (event, step, count) that failed once fails again and is not tried twice
by a walker. With comparisons the outcome depends on the path, so that states are not memoized.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...arrow_kernels import Flags, Ints
from .event_buffer import NEVER, EventBuffer
from .nfa import AT_MAX, BELOW_MIN, MAY_REPEAT, Automaton, Transition

NONE = -1


class Nodes:
    """The nodes of the search tree: a consumed event with its parent node, in growing arrays.

    Rows: the event, the step, the number of events of the step so far, the parent node, the number
    of tried transitions, and the earlier events that comparisons read.
    """

    EVENT, STEP, COUNT, PARENT, TRIED_COUNT, EARLIER = range(6)

    def __init__(self, earlier_count: int) -> None:
        self._values = np.empty((self.EARLIER + earlier_count, 1024), dtype=np.int64)
        self.size = 0

    def add(self, rows: Sequence[Ints], earlier_events: Ints) -> Ints:
        added = np.arange(self.size, self.size + len(rows[0]))
        self.size += len(added)
        while self.size > self._values.shape[1]:
            self._values = np.concatenate([self._values, np.empty_like(self._values)], axis=1)
        self._values[: self.EARLIER, added] = rows
        self._values[self.EARLIER :, added] = earlier_events
        return added

    def row(self, row: int) -> Ints:
        values: Ints = self._values[row, : self.size]
        return values

    def earlier_events(self, node: Ints) -> Ints:
        """Return the earlier events that comparisons read, one row for each."""
        events: Ints = self._values[self.EARLIER :, node]
        return events


@dataclass(frozen=True)
class TransitionOutcomes:
    """The outcomes of transitions for some walkers, one row for each transition.

    event: the event that the transition would consume, or NEVER.
    is_possible: whether the transition is possible.
    examined_until: the time up to which events were examined.
    timed_out: whether the transition found no event before the deadline.
    """

    event: Ints
    is_possible: Flags
    examined_until: Ints
    timed_out: Flags

    def preference(self, transitions: Sequence[Transition]) -> Ints:
        """Return the order in which each walker tries its transitions."""
        transition_count, walker_count = self.event.shape
        rank = np.zeros((transition_count, walker_count), dtype=np.int64)
        earliest = np.where(self.is_possible, self.event, NEVER)
        for index in range(transition_count - 2, -1, -1):
            earliest_of_rest = earliest[index + 1 :].min(axis=0)
            is_preferred = transitions[index].greedy & (earliest[index] <= earliest_of_rest)
            rank[index] = np.where(is_preferred, index - transition_count, transition_count - index)
        return np.argsort(rank, axis=0, kind="stable")


@dataclass(frozen=True)
class MatchCandidates:
    """The outcome for each start event.

    start: the events that the first step can consume.
    node: the last node of the match, or NONE.
    decided_at: the time in microseconds up to which events determine the outcome.
    timed_out: whether the deadline ended a partial match.
    best_node: the last node of the attempt that got furthest.
    stop: the first event after the deadline or of another key.
    """

    start: Ints
    node: Ints
    decided_at: Ints
    timed_out: Flags
    best_node: Ints
    stop: Ints
    nodes: Nodes

    @property
    def matched(self) -> Flags:
        is_matched: Flags = self.node != NONE
        return is_matched


def find_candidates(
    events: EventBuffer, automaton: Automaton, start: Ints, within: int
) -> MatchCandidates:
    return _Search(events, automaton, start, within).run()


class _Search:
    def __init__(self, events: EventBuffer, automaton: Automaton, start: Ints, within: int) -> None:
        self.events = events
        self.automaton = automaton
        self.start = start
        self.stop = events.stop_positions(start, within)
        self.deadline = events.time[start] + within
        self.decided_at = events.time[start].copy()
        self.timed_out = np.zeros(len(start), dtype=bool)
        self.node = np.full(len(start), NONE, dtype=np.int64)
        self.nodes = Nodes(len(automaton.earlier_events))
        self.current_node = self._first_nodes()
        self.best_node = self.current_node.copy()
        self.failed_states = np.empty(0, dtype=np.int64)
        self.memoizes = automaton.has_choices and not automaton.earlier_events

    def run(self) -> MatchCandidates:
        active = np.arange(len(self.start))
        while len(active):
            self._advance_all(active)
            active = active[(self.current_node[active] != NONE) & (self.node[active] == NONE)]
        results = (self.node, self.decided_at, self.timed_out, self.best_node)
        return MatchCandidates(self.start, *results, self.stop, self.nodes)

    def _first_nodes(self) -> Ints:
        ones = np.ones_like(self.start)
        shape = (len(self.automaton.earlier_events), len(self.start))
        earlier_events = np.full(shape, NONE, dtype=np.int64)
        for row, earlier_event in enumerate(self.automaton.earlier_events):
            if earlier_event.step_index <= 0:
                earlier_events[row] = self.start
        return self.nodes.add([self.start, 0 * ones, ones, NONE * ones, 0 * ones], earlier_events)

    def _advance_all(self, active: Ints) -> None:
        node = self.current_node[active]
        step = self.nodes.row(Nodes.STEP)[node]
        state = step * 3 + self._phases(step, self.nodes.row(Nodes.COUNT)[node])
        for state_number in np.unique(state):
            transitions = self.automaton.transitions[state_number // 3][state_number % 3]
            self._advance(active[state == state_number], transitions)

    def _phases(self, step: Ints, count: Ints) -> Ints:
        max_counts = [NEVER if max_ is None else max_ for max_ in self.automaton.max_counts]
        is_at_max = count >= np.array(max_counts)[step]
        is_below_min = count < np.array(self.automaton.min_counts)[step]
        return np.where(is_below_min, BELOW_MIN, np.where(is_at_max, AT_MAX, MAY_REPEAT))

    def _advance(self, walkers: Ints, transitions: Sequence[Transition]) -> None:
        """Move each walker along its first possible transition, or back to the parent node."""
        node = self.current_node[walkers]
        outcomes = self._evaluate_all(walkers, node, transitions)
        choice = self._choose(walkers, node, outcomes, outcomes.preference(transitions))
        for index, transition in enumerate(transitions):
            selected = np.flatnonzero(choice == index)
            if transition.step is None:
                self.node[walkers[selected]] = node[selected]
            elif len(selected):
                event = outcomes.event[index, selected]
                self._consume(walkers[selected], node[selected], transition.step, event)
        self._backtrack(walkers[choice == NONE])

    def _choose(
        self, walkers: Ints, node: Ints, outcomes: TransitionOutcomes, preference: Ints
    ) -> Ints:
        """Return the first possible untried transition of each walker, or NONE.

        preference: for each turn and walker, the transition to try.
        """
        tried_count = self.nodes.row(Nodes.TRIED_COUNT)[node]
        choice = np.full(len(walkers), NONE, dtype=np.int64)
        for turn in range(len(preference)):
            undecided = np.flatnonzero((choice == NONE) & (turn >= tried_count))
            index = preference[turn, undecided]
            undecided_walkers = walkers[undecided]
            # Possible or not, the outcome depends on the examined events.
            self.decided_at[undecided_walkers] = np.maximum(
                self.decided_at[undecided_walkers], outcomes.examined_until[index, undecided]
            )
            self.timed_out[undecided_walkers] |= outcomes.timed_out[index, undecided]
            tried_count[undecided] = turn + 1
            passing = outcomes.is_possible[index, undecided]
            choice[undecided[passing]] = index[passing]
        self.nodes.row(Nodes.TRIED_COUNT)[node] = tried_count
        return choice

    def _evaluate_all(
        self, walkers: Ints, node: Ints, transitions: Sequence[Transition]
    ) -> TransitionOutcomes:
        rows = [self._evaluate(transition, walkers, node) for transition in transitions]
        return TransitionOutcomes(*map(np.stack, zip(*rows, strict=True)))

    def _evaluate(
        self, transition: Transition, walkers: Ints, node: Ints
    ) -> tuple[Ints, Flags, Ints, Flags]:
        """Return one row of `TransitionOutcomes`."""
        position = self.nodes.row(Nodes.EVENT)[node]
        stop = self.stop[walkers]
        earlier_events = self.nodes.earlier_events(node)
        event = self._next_event(transition, position, stop, earlier_events)
        forbidden = np.full(len(position), NEVER, dtype=np.int64)
        for guard in transition.guards:
            passing = self.events.next_passing(guard, position, stop, earlier_events)
            forbidden = np.minimum(forbidden, passing)
        examined = np.minimum(event, forbidden)
        if transition.contiguous:
            # Only the next event is examined.
            examined = np.where(position + 1 < stop, position + 1, NEVER)
            forbidden = np.where(forbidden == examined, forbidden, NEVER)

        # Without an event to examine, the deadline decides.
        is_missing = examined == NEVER
        times = self.events.time[np.where(is_missing, 0, examined)]
        examined_until = np.where(is_missing, self.deadline[walkers], times)
        if transition.step is not None:
            is_possible = (event != NEVER) & (event < forbidden)
            return event, is_possible, examined_until, is_missing
        if not transition.guards:
            examined_until = self.decided_at[walkers]
        return event, forbidden == NEVER, examined_until, np.zeros_like(is_missing)

    def _next_event(
        self, transition: Transition, position: Ints, stop: Ints, earlier_events: Ints
    ) -> Ints:
        if transition.test is None:
            return np.full(len(position), NEVER, dtype=np.int64)
        if not transition.contiguous:
            return self.events.next_passing(transition.test, position, stop, earlier_events)
        following = position + 1
        in_time = np.flatnonzero(following < stop)
        passing = in_time[
            self.events.passes(transition.test, following[in_time], earlier_events[:, in_time])
        ]
        event = np.full(len(position), NEVER, dtype=np.int64)
        event[passing] = following[passing]
        return event

    def _consume(self, walkers: Ints, node: Ints, step: int, event: Ints) -> None:
        is_untried = self._is_untried(walkers, event, step, self._next_count(node, step))
        walkers = walkers[is_untried]
        node = node[is_untried]
        event = event[is_untried]
        ones = np.ones_like(event)
        rows = [event, step * ones, self._next_count(node, step), node, 0 * ones]
        added = self.nodes.add(rows, self._next_earlier_events(node, step, event))
        self.current_node[walkers] = added
        farther = event > self.nodes.row(Nodes.EVENT)[self.best_node[walkers]]
        self.best_node[walkers[farther]] = added[farther]

    def _next_count(self, node: Ints, step: int) -> Ints:
        """Return the number of events of a step after it consumes one more."""
        is_same_step = self.nodes.row(Nodes.STEP)[node] == step
        count: Ints = np.where(is_same_step, self.nodes.row(Nodes.COUNT)[node], 0) + 1
        return count

    def _next_earlier_events(self, node: Ints, step: int, event: Ints) -> Ints:
        earlier_events = self.nodes.earlier_events(node)
        for row, earlier_event in enumerate(self.automaton.earlier_events):
            if earlier_event.step_index in (step, -1):
                is_set = earlier_event.is_first & (earlier_events[row] != NONE)
                earlier_events[row] = np.where(is_set, earlier_events[row], event)
        return earlier_events

    def _backtrack(self, walkers: Ints) -> None:
        node = self.current_node[walkers]
        parent = self.nodes.row(Nodes.PARENT)[node]
        if self.memoizes and (parent != NONE).any():
            event = self.nodes.row(Nodes.EVENT)[node]
            step = self.nodes.row(Nodes.STEP)[node]
            count = self.nodes.row(Nodes.COUNT)[node]
            new_states = self._state_codes(walkers, event, step, count)
            self.failed_states = np.union1d(self.failed_states, new_states)
        self.current_node[walkers] = parent

    def _is_untried(self, walkers: Ints, event: Ints, step: int, count: Ints) -> Flags:
        if not len(self.failed_states):
            return np.ones(len(walkers), dtype=bool)
        states = self._state_codes(walkers, event, np.full_like(event, step), count)
        position = np.searchsorted(self.failed_states, states)
        nearest = self.failed_states[np.minimum(position, len(self.failed_states) - 1)]
        is_untried: Flags = nearest != states
        return is_untried

    def _state_codes(self, walkers: Ints, event: Ints, step: Ints, count: Ints) -> Ints:
        """Return a code for each walker, event, step and count, capped where the count is moot."""
        bounds = zip(self.automaton.min_counts, self.automaton.max_counts, strict=True)
        moot_at = [at_least if at_most is None else at_most for at_least, at_most in bounds]
        steps = len(moot_at)
        state = (event - self.start[walkers]) * steps + step
        walker_state = walkers * len(self.events) * steps + state
        capped_count = np.minimum(count, np.array(moot_at)[step])
        codes: Ints = walker_state * (max(moot_at) + 1) + capped_count
        return codes


@dataclass(frozen=True)
class MatchSelection:
    """The candidates to emit at a watermark.

    is_emitted: which candidates are emitted, as a match or a timeout.
    is_open: which candidates are undecided.
    decided_at: the time in microseconds at which each candidate is decided.
    """

    is_emitted: Flags
    is_open: Flags
    decided_at: Ints


def select_to_next(
    candidates: MatchCandidates, watermark: int, *, timeouts: bool
) -> MatchSelection:
    """Select every match, also matches that share events."""
    is_decided = candidates.decided_at < watermark
    is_emitted = is_decided & _is_emitted(candidates, timeouts=timeouts)
    return MatchSelection(is_emitted, ~is_decided, candidates.decided_at)


def select_past_last(
    candidates: MatchCandidates, events: EventBuffer, watermark: int, *, timeouts: bool
) -> MatchSelection:
    """Select matches of a key that begin after the last event of the previously selected match.

    A start event is decided when all reachable start events before it are decided.
    """
    is_decided = candidates.decided_at < watermark
    code = events.code[candidates.start]
    is_first_of_key = np.diff(code, prepend=code[:1] - 1) != 0
    is_reachable = _reachable(is_first_of_key, _next_starts(candidates, is_decided, code))
    is_blocked = _at_or_after_marked(is_first_of_key, is_reachable & ~is_decided)
    earliest = candidates.decided_at.min(initial=0)
    reachable_times = np.where(is_reachable, candidates.decided_at, earliest)
    decided_at = _running_max(is_first_of_key, reachable_times)
    is_emitted = is_reachable & is_decided & _is_emitted(candidates, timeouts=timeouts)
    decided_at = np.where(is_reachable, decided_at, candidates.decided_at)
    return MatchSelection(is_emitted, is_blocked, decided_at)


def _is_emitted(candidates: MatchCandidates, *, timeouts: bool) -> Flags:
    return candidates.matched | candidates.timed_out if timeouts else candidates.matched


def _next_starts(candidates: MatchCandidates, is_decided: Flags, code: Ints) -> Ints:
    """Return the next start event to consider after each; the number of start events for none."""
    nowhere = len(candidates.start)
    event = candidates.nodes.row(Nodes.EVENT)[candidates.node]
    last = np.where(candidates.matched, event, candidates.start)
    follower = np.searchsorted(candidates.start, last, side="right")
    clipped = np.minimum(follower, nowhere - 1)
    is_same_key = (follower < nowhere) & (code[clipped] == code)
    return np.where(is_decided & is_same_key, follower, nowhere)


def _reachable(is_first_of_key: Flags, next_start: Ints) -> Flags:
    """Return the start events reachable from the first of each key, in O(log n) rounds."""
    is_reachable = np.append(is_first_of_key, False)
    jump = np.append(next_start, len(next_start))
    for _ in range(len(next_start).bit_length()):
        is_reachable[jump[is_reachable]] = True
        jump = jump[jump]
    return is_reachable[:-1]


def _at_or_after_marked(is_first_of_key: Flags, is_marked: Flags) -> Flags:
    """Return the positions at or after a marked position of the same key."""
    count = np.cumsum(is_marked)
    key_starts = np.flatnonzero(is_first_of_key)
    count_before: Ints = np.repeat(
        count[key_starts] - is_marked[key_starts], np.diff(key_starts, append=len(is_first_of_key))
    )
    is_at_or_after: Flags = count > count_before
    return is_at_or_after


def _running_max(is_first_of_key: Flags, values: Ints) -> Ints:
    """Return the running maximum of each key."""
    instants, rank = np.unique(values, return_inverse=True)
    # Ranks of a key are higher than those of the previous keys.
    key = np.cumsum(is_first_of_key) * len(instants)
    highest: Ints = np.maximum.accumulate(key + rank) - key
    return instants[highest]
