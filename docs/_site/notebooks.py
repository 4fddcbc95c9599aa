"""The notebooks as pages, with the outputs that are stored in them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from docs._site import pictures

FOLDER = Path(__file__).parents[2] / "notebooks"
RANK = "---\nsearch:\n  boost: 0.5\n---\n"
"""The search lists guides before notebooks."""
_HEADING = re.compile(r"^#+ (.+)$", re.M)


def pages() -> dict[str, str]:
    """Return the page of each notebook, by its path in the site."""
    return {f"notebooks/{path.stem}.md": _page(path) for path in sorted(FOLDER.glob("*.ipynb"))}


def _page(path: Path) -> str:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    introduction, *blocks = _blocks(path.stem, cells)
    source = f"The file is `notebooks/{path.name}`; `make notebooks` executes it."
    return RANK + "\n\n".join((introduction, source, *blocks)) + "\n"


def _blocks(name: str, cells: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the cells of a notebook with their outputs, as Markdown.

    A plot has the heading before it as its text.
    """
    numbers, heading = count(1), ""
    for cell in cells:
        source = _text(cell["source"])
        if cell["cell_type"] == "markdown":
            heading = next(reversed(_HEADING.findall(source)), heading)
            # A link to docs/ in the repository is a link to a page of the site.
            yield source.replace("](../docs/", "](../")
            continue
        yield f"```python\n{source}\n```"
        printed = ""
        for output in cell["outputs"]:
            data = output.get("data", {})
            if "image/png" in data:
                yield f"![{heading}](../{pictures.place(name, next(numbers))})"
            else:
                printed += _text(output.get("text") or data.get("text/plain", ""))
        if printed:
            yield f"```text\n{printed.rstrip()}\n```"


def _text(lines: str | Sequence[str]) -> str:
    """Return a text of a notebook, which can be a list of its lines."""
    return "".join(lines)
