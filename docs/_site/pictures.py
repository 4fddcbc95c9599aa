"""The plots of the notebooks, as pictures of the pages."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = "pictures"
MARKER = re.compile(r"<!-- picture (?P<notebook>\w+) (?P<number>\d+): (?P<caption>[^>]+) -->")
"""The marker of a picture: its notebook, the number of its plot, and its caption."""


def files() -> dict[str, bytes]:
    """Return each plot of each notebook, by its path in the site."""
    made = {}
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        for number, content in enumerate(_drawings(path), start=1):
            made[place(path.stem, number)] = content
    return made


def insert_pictures(markdown: str, page: str) -> str:
    """Replace the markers of a page by its pictures.

    page: its path in the site, which the paths of the pictures are relative to.

    Raises KeyError for a plot that the notebook does not have.
    """
    existing = files() if MARKER.search(markdown) else {}
    up = "../" * page.count("/")

    def picture(found: re.Match[str]) -> str:
        path = place(found["notebook"], int(found["number"]))
        if path not in existing:
            raise KeyError(f"{page}: {found[0]}")
        return f"![{found['caption']}]({up}{path})"

    return MARKER.sub(picture, markdown)


def place(notebook: str, number: int) -> str:
    """Return the path of a plot in the site."""
    return f"{FOLDER}/{notebook}-{number}.png"


def _drawings(path: Path) -> list[bytes]:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    drawn = [
        output["data"]["image/png"] for output in outputs if "image/png" in output.get("data", {})
    ]
    return [base64.b64decode("".join(image)) for image in drawn]
