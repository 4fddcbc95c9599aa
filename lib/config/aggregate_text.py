"""Aggregates as text, such as `count`, `avg(ms)` or `approx_quantile(ms, 0.99)`.

The text has the syntax of a Python call and is parsed, never evaluated. It names a function of
`tidegate.aggregates` or `tidegate.sketches`; the first argument is a column, or a list of columns,
and the others are numbers or lists of numbers. A column is a name, or text in quotes:
`avg('payload.ms')`.
"""

from __future__ import annotations

import ast
import inspect
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from keyword import iskeyword
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator

from .. import aggregates, sketches
from ..aggregates import Aggregate
from ..errors import ConfigError, TidegateError
from .config_types import VALUE, require_column_list

_SYNONYMS = {
    "average": "avg",
    "mean": "avg",
    "total": "sum",
    "percentile": "approx_quantile",
    "quantile": "approx_quantile",
    "distinct": "approx_count_distinct",
}
"""Other names of some aggregates, for suggestions."""

_EXPECTED = "one aggregate: count, avg(column), ..."

_Place: TypeAlias = ast.expr | ast.keyword | tuple[int, int]
"""What an error points at: a node of the syntax tree, or a start and an end."""


def aggregate_functions() -> dict[str, Callable[..., Aggregate]]:
    """Return the functions that a text can call: all that make an aggregate of a value.

    >>> "approx_quantile" in aggregate_functions()
    True
    """
    return {
        name: function
        for module in (aggregates, sketches)
        for name, function in sorted(vars(module).items())
        if inspect.isfunction(function) and not name.startswith("_") and _takes_value(function)
    }


def _takes_value(function: Callable[..., object]) -> bool:
    signature = inspect.signature(function)
    return (
        signature.return_annotation == "Aggregate" and next(iter(signature.parameters)) == "value"
    )


def parse_aggregate(
    text: str, *, fields: Sequence[str] | None = None, key: str = VALUE
) -> Aggregate:
    """Parse one aggregate.

    fields: the columns of the input; None accepts any column.
    key: the configuration key of the text, for errors.

    Raises ConfigError with a pointer to the invalid part of the text.

    >>> parse_aggregate("approx_quantile(ms, 0.99)").inputs[0]
    ('ms', 'number')
    >>> parse_aggregate("mean(ms)")
    Traceback (most recent call last):
    tidegate.errors.ConfigError: invalid value: 'mean(ms)'; unknown aggregate 'mean'
        mean(ms)
        ^^^^
      expected: ...
      try: avg(...)
    """
    return _AggregateCall(_Source(text, key)).build(fields)


def parse_aggregates(texts: Mapping[str, str], fields: Iterable[str]) -> dict[str, Aggregate]:
    """Parse a section [aggregates]; all columns must be among the fields.

    Raises ConfigError.

    >>> list(parse_aggregates({"views": "count", "mean_ms": "avg(ms)"}, ["page", "ms"]))
    ['views', 'mean_ms']
    """
    available = list(fields)
    return {
        name: parse_aggregate(text, fields=available, key=f"aggregates.{name}")
        for name, text in texts.items()
    }


class _Source:
    """A text, the parts of its syntax tree, and errors that point at them."""

    def __init__(self, text: str, key: str) -> None:
        self._problem = f"invalid {key}: {text!r}; "
        self._line = re.sub(r"\s", " ", text)
        self._indent = len(self._line) - len(self._line.lstrip())

    def error(self, place: _Place, problem: str, expected: str, hint: str = "") -> ConfigError:
        """Return an error with a pointer to a place."""
        start, end = self._span(place)
        pointer = f"    {self._line}\n    {' ' * start}{'^' * max(1, end - start)}"
        return ConfigError(f"{self._problem}{problem}\n{pointer}", expected, hint)

    def part(self, node: ast.expr) -> str:
        """Return the text of a node. A name in the tree can be another Unicode form of it."""
        return self._line[slice(*self._span(node))]

    def parse(self) -> ast.expr:
        """Return the syntax tree."""
        code = self._line[self._indent :]
        if not code:
            raise self.error((len(self._line),) * 2, "the text is empty", _EXPECTED)
        try:
            with warnings.catch_warnings(action="error"):
                root = ast.parse(code, mode="eval").body
        except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
            raise self._syntax_error(error) from None
        if not isinstance(root, ast.Name | ast.Call) or self.part(root) != code.rstrip():
            raise self.error(root, "the text is not a single aggregate", _EXPECTED)
        return root

    def _syntax_error(self, error: Exception) -> ConfigError:
        if not isinstance(error, SyntaxError):
            return self.error((0, len(self._line)), "the text cannot be parsed", _EXPECTED)
        start = self._indent + max((error.offset or 1) - 1, 0)
        end = max(self._indent + (error.end_offset or 0) - 1, start + 1)
        part = self._line[start:end]
        problem = f"unexpected {part!r}" if error.msg == "invalid syntax" else error.msg
        hint = repr(part) if iskeyword(part) else "count" if "*" in self._line else ""
        hint = "quotes around the name of a column" if "`" in self._line else hint
        return self.error((start, end), problem, _EXPECTED, hint)

    def _span(self, place: _Place) -> tuple[int, int]:
        """Return a start and an end in characters; those of the tree are in bytes."""
        if isinstance(place, tuple):
            return place
        code = self._line[self._indent :].encode()
        start = len(code[: place.col_offset].decode())
        end = len(code[: place.end_col_offset].decode())
        return self._indent + start, self._indent + end


class _AggregateCall:
    """A call of an aggregate function; its parts are nodes of the syntax tree."""

    def __init__(self, source: _Source) -> None:
        root = source.parse()
        self._source = source
        self._place = root.func if isinstance(root, ast.Call) else root
        self._name = source.part(self._place)
        functions = aggregate_functions()
        if self._name not in functions:
            names = [_SYNONYMS.get(self._name.lower(), self._name.lower())]
            hint = "".join(
                f"{name}(...)" for name in get_close_matches(names[0], functions, 1, 0.5)
            )
            problem = f"unknown aggregate {self._name!r}"
            raise source.error(self._place, problem, ", ".join(functions), hint)
        self._function = functions[self._name]
        self._parameters = inspect.signature(self._function).parameters
        self._arguments = self._bind(root) if isinstance(root, ast.Call) else {}
        missing = [
            name
            for name, one in self._parameters.items()
            if one.default is one.empty and name not in self._arguments
        ]
        if missing:
            labels = " and ".join(map(_parameter_label, missing))
            raise self._error(self._place, f"{self._name} requires {labels}")

    def build(self, fields: Sequence[str] | None) -> Aggregate:
        """Return the aggregate; all its columns must be among the fields."""
        values = {
            name: self._columns(node, fields) if name == "value" else self._number(name, node)
            for name, node in self._arguments.items()
        }
        try:
            return self._function(**values)
        except TidegateError as error:
            parameter = error.problem.removeprefix("invalid ").partition(":")[0]
            place = self._arguments.get(parameter, self._place)
            raise self._source.error(place, error.problem, error.detail, error.remedy) from None

    def _bind(self, call: ast.Call) -> dict[str, ast.expr]:
        """Return each argument by the name of its parameter."""
        positional = [
            name for name, one in self._parameters.items() if one.kind is not one.KEYWORD_ONLY
        ]
        bound = dict(zip(positional, call.args, strict=False))
        for node in call.args[len(positional) :]:
            raise self._error(node, f"unexpected argument {self._source.part(node)!r}")
        for keyword in call.keywords:
            name = keyword.arg or "**"
            if name in bound:
                raise self._error(keyword, f"duplicate argument {name}")
            if name not in self._parameters:
                closest = get_close_matches(name, list(self._parameters), 1, 0.5)
                hint = "".join(f"{one}=..." for one in closest)
                raise self._error(keyword, f"{self._name} has no parameter {name!r}", hint=hint)
            bound[name] = keyword.value
        return bound

    def _columns(self, node: ast.expr, fields: Sequence[str] | None) -> str | list[str]:
        if not isinstance(node, ast.List):
            return self._column(node, fields)
        if "Key" not in str(self._parameters["value"].annotation):
            raise self._error(node, f"{self._name} does not accept a list", "one column: ")
        if not node.elts:
            raise self._error(node, "the list of columns is empty")
        return [self._column(one, fields) for one in node.elts]

    def _column(self, node: ast.expr, fields: Sequence[str] | None) -> str:
        name = self._source.part(node)
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            name = node.value
        elif not isinstance(node, ast.Name):
            hint = repr(name) if isinstance(node, ast.Attribute | ast.BinOp) else ""
            raise self._error(node, f"{name!r} is not a column", "the name of a column: ", hint)
        if fields is not None and name not in fields:
            hint = "".join(get_close_matches(name, fields, 1, 0.5))
            problem = f"the input has no field {name!r}"
            raise self._source.error(node, problem, ", ".join(fields), hint)
        return name

    def _number(self, name: str, node: ast.expr) -> Any:
        """Return a number or a list of numbers, as the annotation of the parameter says."""
        annotation = str(self._parameters[name].annotation)
        accepts_list = "Sequence[float]" in annotation
        try:
            value = ast.literal_eval(node)
        except ValueError:
            value = None
        numbers = value if accepts_list and isinstance(value, list) else [value]
        # By the name of the type, because `isinstance` accepts a boolean as an integer.
        if not all(type(one) is int or type(one).__name__ in annotation for one in numbers):
            expected = "an integer" if annotation == "int" else "a number"
            expected += ", or a list of numbers" if accepts_list else ""
            raise self._error(node, f"invalid {name}: {self._source.part(node)}", f"{expected}: ")
        return value

    def _error(
        self, place: _Place, problem: str, expected: str = "", hint: str = ""
    ) -> ConfigError:
        parts = [
            _parameter_label(name) + ("" if one.default in (one.empty, None) else f"={one.default}")
            for name, one in self._parameters.items()
        ]
        optional = all(one.default is not one.empty for one in self._parameters.values())
        bare = f"{self._name}, or " if parts == ["column"] and optional else ""
        signature = f"{bare}{self._name}({', '.join(parts)})"
        return self._source.error(place, problem, f"{expected}{signature}", hint)


def _parameter_label(name: str) -> str:
    return "column" if name == "value" else name


def _validate_text(text: str) -> str:
    parse_aggregate(text)
    return text


def _require_nonempty(texts: dict[str, str]) -> dict[str, str]:
    if not texts:
        raise ConfigError(
            f"invalid {VALUE}: {texts!r}", "at least one aggregate", 'views = "count"'
        )
    require_column_list(list(texts))
    return texts


AggregateText = Annotated[str, AfterValidator(_validate_text)]
Aggregates = Annotated[dict[str, AggregateText], AfterValidator(_require_nonempty)]
"""[aggregates]: the result's columns, each with its aggregate as text."""
