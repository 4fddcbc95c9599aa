"""Pages use the terms of the field, in sentences that one can read once."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidegate
from tests.contract.test_vocabulary import PHRASES
from tidegate.versions import SUPPORTED_SPARK

ROOT = Path(tidegate.__file__).parents[1]
MAX_WORDS = 40
PAGE_PHRASES = {
    r"\bbeside\b": "next to, compared with",
    r"\bin silence\b": "silently",
    r"\b(set|kept|keeps|sets|setting) aside\b": "routed to a side table",
    r"\bmended\b": "fixed",
    r"\bmade[- ]up\b": "sample, generated",
    r"\bfor good\b": "permanently",
    r"\bunless (you say|it is said|said|given)\b": "by default",
    r"\bstands? (beside|behind|in the)\b": "is stored, is",
    r"\bworks? out\b": "computes",
    r"\bheld against\b": "compared with",
    r"\bin step\b(?! \d)": "in sync",
    r"\btold (apart|by)\b": "distinguished by",
    r"\b(many times over|again and again)\b": "repeatedly",
    r"\brefused by name\b": "not supported, rejected with an error",
    r"\bcontestants?\b": "systems",
    r"\bcommonest\b": "most common",
    r"\bdifferent users\b": "distinct users",
    r"\bquiet topics?\b": "idle topic",
    r"\bby the clock\b": "in processing time",
    r"\bon the heap\b": "in memory",
    r"\bhead-room\b": "headroom",
    r"\bchanging tables kept\b": "maintained",
    r"\bof no matter\b": "not relevant",
    r"\buntil the time is over\b": "until the interval ends",
    r"\b(Refused|Told|Wanted|Given) (is|are)\b": "a sentence with the subject first",
}
"""Phrases of pages, in addition to those of names and messages, with what to write instead."""
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")),
]
_NO_PROSE = re.compile(
    r"```.*?^ *```$"  # code
    r"|^---$.*?^---$"  # the head of a page
    r"|<!--.*?-->"
    r"|^    \S.*?$"  # output, indented
    r"|`[^`\n]+`",
    re.M | re.S,
)
_BREAK = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*#>|]|\d+\. ))")
_SENTENCE = re.compile(r"(?<=[.!?:;])\s+")


def paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs, list items, headings and table cells of a page."""
    for block in _BREAK.split(_NO_PROSE.sub("CODE", text)):
        cells = block.strip().strip("|").split("|") if block.lstrip().startswith("|") else [block]
        for cell in cells:
            yield re.sub(r"\]\([^)]*\)", "]", " ".join(cell.split()))


@pytest.mark.parametrize("page", PAGES)
def test_pages_use_the_words_of_the_field(page: str) -> None:
    wrong = [
        f"{page}: {found[0]!r} in {paragraph[:100]!r}: use {replacement}"
        for paragraph in paragraphs((ROOT / page).read_text(encoding="utf-8"))
        for pattern, replacement in {**PHRASES, **PAGE_PHRASES}.items()
        for found in re.finditer(pattern, paragraph, re.IGNORECASE)
    ]
    assert not wrong


@pytest.mark.parametrize("page", PAGES)
def test_sentences_of_pages_are_short(page: str) -> None:
    too_long = [
        sentence
        for paragraph in paragraphs((ROOT / page).read_text(encoding="utf-8"))
        for sentence in _SENTENCE.split(paragraph)
        if len(sentence.split()) > MAX_WORDS
    ]
    assert not too_long


def test_the_rules_find_what_they_are_for() -> None:
    text = "It *hangs on* the\nbatches.\n\n```python\ncomes out\n```\n\n| a | works off |\n"
    joined = " ".join(paragraphs(text))
    assert [pattern for pattern in PHRASES if re.search(pattern, joined)] == [
        r"\bworks? off\b|\bworked off\b",
        r"\bhangs? on\b",
    ]


def test_the_requirements_in_the_readme_are_those_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    delta = re.search(r"^delta-spark==([\d.]+)\.\*", "\n".join(project["dependencies"]), re.M)
    assert delta is not None
    *older, newest = SUPPORTED_SPARK
    pythons = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert (
        f"Spark {', '.join(older)} or {newest} with Delta {delta[1]}, "
        f"Python {pythons[0]} to {pythons[-1]}, Java"
    ) in readme
