"""[fold] and [decide]: a fold over events, and the commands that it decides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from ..changelogs import Command, Decider, Fold
from ..errors import ConfigError
from .config_types import Names, Section, config_errors


class FoldSection(Section):
    """[fold]: the key, the state's columns and initial values, and a handler per event type.

    >>> section = FoldSection(
    ...     key="account",
    ...     state={"balance": "bigint"},
    ...     initial={"balance": 0},
    ...     handlers={"deposited": {"balance": "state.balance + event.amount"}},
    ... )
    >>> section.handlers["deposited"]
    {'balance': 'state.balance + event.amount'}
    """

    key: Names = Field(description="key columns of the state")
    type_column: str = Field(default="type", description="column with the event type")
    state: dict[str, str] = Field(description="columns of the state, and their types")
    initial: dict[str, bool | int | float | str] = Field(
        default={}, description="initial values of state columns; null if not set"
    )
    handlers: dict[str, dict[str, str]] = Field(
        description="for each event type, the SQL expressions of the state columns that it changes"
    )

    def to_fold(self, log_position: Sequence[str], on_unknown: Literal["refuse", "ignore"]) -> Fold:
        """Return the fold; a state column without an initial value starts as null.

        Raises ConfigError.
        """
        undeclared = sorted(set(self.initial) - set(self.state))
        if undeclared:
            raise ConfigError(
                f"invalid fold.initial: unknown columns {', '.join(undeclared)}",
                f"columns of [fold.state]: {', '.join(self.state)}",
            )
        initial = {
            name: (self.initial.get(name), column_type) for name, column_type in self.state.items()
        }
        with config_errors("fold"):
            return Fold(
                key=self.key,
                type_column=self.type_column,
                initial=initial,
                handlers=self.handlers,
                on_unknown=on_unknown,
                log_position=log_position,
            )


class CommandSection(Section):
    """[decide.handlers.<type>]: the event that a command becomes, and why it can be rejected."""

    emits: str = Field(description="type of the event")
    values: dict[str, str] = Field(default={}, description="SQL expressions of the event's columns")
    refuse: dict[str, str] = Field(
        default={}, description="SQL conditions that reject the command, by their reasons"
    )


class DecideSection(Section):
    """[decide]: the columns of the events, and a handler per command type.

    >>> handlers = {"deposit": {"emits": "deposited"}}
    >>> DecideSection(events="amount bigint", handlers=handlers).handlers["deposit"].emits
    'deposited'
    """

    type_column: str = Field(default="type", description="column with the command type")
    events: str = Field(
        description="columns of the events except key, type, time and log position; DDL"
    )
    handlers: dict[str, CommandSection] = Field(
        description="for each command type, the event that it becomes, and when it is rejected"
    )

    def to_decider(self, fold: Fold, log_position: Sequence[str]) -> Decider:
        """Return the decider, which ignores commands of unknown types.

        Raises ConfigError.
        """
        handlers = {
            command_type: Command(**dict(command))
            for command_type, command in self.handlers.items()
        }
        with config_errors("decide"):
            return Decider(
                fold=fold,
                events=self.events,
                handlers=handlers,
                type_column=self.type_column,
                on_unknown="ignore",
                log_position=log_position,
            )
