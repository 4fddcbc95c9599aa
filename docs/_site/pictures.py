"""What the notebooks have drawn, as pictures of the pages."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = "pictures"
ASKED = re.compile(r"<!-- picture (?P<notebook>\w+) (?P<number>\d+): (?P<says>[^>]+) -->")
"""Where a page asks for a picture: of a notebook, the number of its drawing, and what it shows."""


def files() -> dict[str, bytes]:
    """Return each drawing of each notebook, by its place in the site."""
    made = {}
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        for number, content in enumerate(_drawings(path), start=1):
            made[_place(path.stem, number)] = content
    return made


def shown(markdown: str, page: str) -> str:
    """Return a page with the pictures that it asks for.

    page: its place in the site, from which the pictures' is told.

    Raises KeyError for a drawing that the notebook does not have.
    """
    there = files() if ASKED.search(markdown) else {}
    up = "../" * page.count("/")

    def picture(found: re.Match[str]) -> str:
        place = _place(found["notebook"], int(found["number"]))
        if place not in there:
            raise KeyError(f"{page}: {found[0]}")
        return f"![{found['says']}]({up}{place})"

    return ASKED.sub(picture, markdown)


def _place(notebook: str, number: int) -> str:
    return f"{FOLDER}/{notebook}-{number}.png"


def _drawings(path: Path) -> list[bytes]:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    drawn = [
        output["data"]["image/png"] for output in outputs if "image/png" in output.get("data", {})
    ]
    return [base64.b64decode("".join(image)) for image in drawn]
