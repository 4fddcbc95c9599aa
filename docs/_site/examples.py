"""Examples of docstrings as code: a paragraph that starts with >>> would be a quotation."""

from __future__ import annotations

import inspect
import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"(?:^>>> .*\n?)(?:^.+\n?)*", re.MULTILINE)
SWITCHES = re.compile(r"\s*# doctest: .*$", re.MULTILINE)


def fenced(text: str) -> str:
    """Return the text with its examples between fences."""
    return EXAMPLE.sub(
        lambda found: f"```pycon\n{SWITCHES.sub('', found[0]).rstrip()}\n```\n", text
    )


class Examples(griffe.Extension):
    """Fence the examples of all docstrings before the sections are parsed."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of a module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(inspect.cleandoc(obj.docstring.value))
