"""The sections of a fold, and of the commands that are decided by it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from ...changes import Command, Commands, Fold
from ...errors import ConfigError, TidegateError
from .base import Section
from .values import Names


class FoldSection(Section):
    """[fold]: the key, the types of the state, its first values, and what each event does to it."""

    key: Names
    kind: str = "type"
    state: dict[str, str]
    initial: dict[str, bool | int | float | str] = Field(default={})
    on: dict[str, dict[str, str]]

    def value(self, place: Sequence[str], unknown: Literal["refuse", "ignore"]) -> Fold:
        """Return the fold; a column of the state without a first value begins as null.

        Raises ConfigError.
        """
        strange = sorted(set(self.initial) - set(self.state))
        if strange:
            raise ConfigError(
                f"fold.initial names {', '.join(strange)}.",
                f"columns of [fold.state]: {', '.join(self.state)}.",
            )
        initial = {name: (self.initial.get(name), kind) for name, kind in self.state.items()}
        try:
            return Fold(
                key=self.key,
                kind=self.kind,
                initial=initial,
                on=self.on,
                unknown=unknown,
                place=place,
            )
        except TidegateError as error:
            raise ConfigError(f"[fold] {error.given}", error.allowed, error.hint) from error


class CommandSection(Section):
    """[decide.on.<type>]: what refuses a command, by reasons, and the event that it becomes."""

    emits: str
    values: dict[str, str] = Field(default={})
    refuse: dict[str, str] = Field(default={})


class DecideSection(Section):
    """[decide]: the columns of the events, and the commands by their types."""

    kind: str = "type"
    events: str = Field(description="columns beside key, type, time and place; DDL")
    on: dict[str, CommandSection]

    def value(self, fold: Fold, place: Sequence[str]) -> Commands:
        """Return the commands, of which those of another type are left out.

        Raises ConfigError.
        """
        on = {
            kind: Command(emits=one.emits, values=one.values, refuse=one.refuse)
            for kind, one in self.on.items()
        }
        try:
            return Commands(
                fold=fold, events=self.events, on=on, kind=self.kind, unknown="ignore", place=place
            )
        except TidegateError as error:
            raise ConfigError(f"[decide] {error.given}", error.allowed, error.hint) from error
