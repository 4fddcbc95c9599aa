"""The call that an aggregate's text says: a function of the library's, and its arguments.

Which functions there are, and what each takes, follows from those of `tidegate.aggregates` and
`tidegate.sketches`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TypeAlias

from ... import aggregates, sketches
from ...aggregates import Aggregate
from ...errors import TidegateError
from ._aggregate_words import Word, refuse

Value: TypeAlias = "int | float | str | list[Value]"


@dataclass(frozen=True)
class Argument:
    """A value, the name that it was given by, and the words that it is made of."""

    name: str | None
    value: Value
    words: tuple[Word, ...]


def named() -> dict[str, Callable[..., Aggregate]]:
    """Return the aggregates that a text may name: all functions that make one of a value."""
    return {
        name: function
        for module in (aggregates, sketches)
        for name, function in sorted(vars(module).items())
        if inspect.isfunction(function) and not name.startswith("_") and _of_a_value(function)
    }


def _of_a_value(function: Callable[..., object]) -> bool:
    signature = inspect.signature(function)
    return (
        signature.return_annotation == "Aggregate" and next(iter(signature.parameters)) == "value"
    )


@dataclass(frozen=True)
class Call:
    """A function, and the arguments that it is to be called with."""

    text: str
    name: Word
    function: Callable[..., Aggregate]
    arguments: list[Argument]
    last: Word

    def made(self) -> tuple[Aggregate, tuple[Word, ...]]:
        """Return the aggregate, and the words that name its columns."""
        given = self._bound()
        first = given.get("value")
        columns = () if first is None else self._columns(first)
        for name, argument in given.items():
            if name != "value":
                self._require_kind(name, argument)
        try:
            made = self.function(**{name: argument.value for name, argument in given.items()})
        except TidegateError as error:
            culprit = given.get(error.given.split(" ", 1)[0])
            word = self.name if culprit is None else culprit.words[-1]
            refuse(self.text, word, f"cannot be: {error.given[:-1]}", error.allowed, error.hint)
        return made, columns

    def _bound(self) -> dict[str, Argument]:
        """Return each argument by the name of its parameter."""
        parameters = inspect.signature(self.function).parameters
        free = [one.name for one in parameters.values() if one.kind is not one.KEYWORD_ONLY]
        found: dict[str, Argument] = {}
        for argument in self.arguments:
            name = argument.name
            if name is None and not free:
                refuse(self.text, argument.words[0], "is one value too many", self._form)
            name = free[0] if name is None else name
            if name not in parameters:
                near = get_close_matches(name, list(parameters), 1, 0.5)
                hint = f"{near[0]}=..." if near else ""
                what = f"is nothing that {self.name.text} takes"
                refuse(self.text, argument.words[0], what, self._form, hint)
            if name in found:
                refuse(self.text, argument.words[0], f"gives {name} a second time", self._form)
            free = [other for other in free if other != name]
            found[name] = argument
        needed = [one.name for one in parameters.values() if one.default is one.empty]
        missing = [_told(name) for name in needed if name not in found]
        if missing:
            what = f"ends {self.name.text} without its {' and '.join(missing)}"
            refuse(self.text, self.last, what, self._form)
        return found

    def _columns(self, argument: Argument) -> tuple[Word, ...]:
        several = "Key" in str(inspect.signature(self.function).parameters["value"].annotation)
        listed = argument.value if isinstance(argument.value, list) else [argument.value]
        if not listed or not all(isinstance(one, str) for one in listed):
            what = "is no column"
            refuse(self.text, argument.words[-1], what, f"the name of a column: {self._form}")
        if isinstance(argument.value, list) and not several:
            allowed = f"one column: {self._form}"
            refuse(self.text, argument.words[0], "begins a list", allowed)
        named = argument.words if argument.name is None else argument.words[2:]
        return tuple(word for word in named if word.kind in ("name", "quoted"))

    def _require_kind(self, name: str, argument: Argument) -> None:
        annotation = str(inspect.signature(self.function).parameters[name].annotation)
        value = argument.value
        fits = isinstance(value, int) if annotation == "int" else isinstance(value, int | float)
        allowed = "a whole number" if annotation == "int" else "a number"
        if "Sequence[float]" in annotation:
            allowed = "a number, or a list of numbers"
            numbers = value if isinstance(value, list) else [value]
            fits = all(isinstance(one, int | float) for one in numbers)
        if not fits:
            what = f"is no {name}"
            refuse(self.text, argument.words[-1], what, f"{allowed}: {self._form}")

    @property
    def _form(self) -> str:
        """The call as it may be written."""
        parameters = inspect.signature(self.function).parameters.values()
        parts = [
            _told(one.name) if one.default in (one.empty, None) else f"{one.name}={one.default}"
            for one in parameters
        ]
        bare = f"{self.name.text}, or " if parameters and parts == [_told("value")] else ""
        required = any(one.default is one.empty for one in parameters)
        return f"{'' if required else bare}{self.name.text}({', '.join(parts)})."


def _told(name: str) -> str:
    return "column" if name == "value" else name
