"""The diagrams of the pages can be read: large text, light and dark, and a description."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

import tidegate

ROOT = Path(tidegate.__file__).parents[1]
DIAGRAMS = sorted((ROOT / "docs" / "images").glob("*.svg"))
SVG = "{http://www.w3.org/2000/svg}"
MIN_FONT_SIZE = 12
PAGE_WIDTH = 670


@pytest.mark.parametrize("path", DIAGRAMS, ids=lambda path: path.stem)
def test_a_diagram_can_be_read(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    root = ElementTree.fromstring(text)
    assert root.findtext(f"{SVG}title") or root.attrib.get("aria-label")
    assert "prefers-color-scheme: dark" in text
    scale = min(1, PAGE_WIDTH / float(root.attrib["viewBox"].split()[2]))
    sizes = [float(size) for size in re.findall(r"font(?:-size)?: *(?:\d+ )?([\d.]+)px", text)]
    assert sizes
    assert min(sizes) * scale >= MIN_FONT_SIZE


@pytest.mark.parametrize("path", DIAGRAMS, ids=lambda path: path.stem)
def test_a_diagram_is_on_a_page_with_a_description(path: Path) -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    texts = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    assert re.search(rf"!\[[^\]]{{20,}}\]\([^)]*images/{re.escape(path.name)}\)", texts)
