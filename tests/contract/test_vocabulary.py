"""Names and sentences use the terms of the field."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidegate

ROOT = Path(tidegate.__file__).resolve().parents[1]
FOLDERS = ("lib", "jobs", "tests", "benchmarks", "bootstrap", "docs/_site")
NAME_PARTS = {
    "told": "describe_..., report_..., format_...",
    "tells": "describes_..., reports_...",
    "kept": "stored, retained, persisted",
    "noted": "recorded",
    "held": "stored, pending",
    "begun": "started",
    "gone": "deleted, missing",
    "beside": "the relation itself: side_..., with_...",
    "anew": "again, recomputed",
    "alike": "equal, same_...",
    "ours": "own_...",
    "theirs": "other_...",
    "bears": "has_...",
    "asked": "requested",
    "said": "reported, configured",
    "stands": "is_...",
    "meets": "matches, overlaps",
}
PHRASES = {
    r"\btold\b|\btells\b": "reports, describes",
    r"\bnoted\b": "recorded",
    r"\bbegun\b": "started",
    r"\bgoes on\b|\bgoing on\b|\bgone on\b|\bwent on\b": "continues, resumes",
    r"\bis gone\b|\bare gone\b": "is missing, was deleted",
    r"\banew\b": "again, from the start",
    r"\bof before\b": "earlier",
    r"\bbears\b": "has",
    r"\bcomes? out\b|\bcame out\b|\bis out\b(?! of order)": "is emitted, results",
    r"\bworks? off\b|\bworked off\b": "backfills",
    r"\bby hand\b": "in plain PySpark",
    r"\bhangs? on\b": "depends on",
    r"\bmade known\b": "registered",
    r"\bput together\b": "compacted",
    r"\bwhat there is\b": "the existing ...",
    r"\bso many\b|\bso long\b": "the number, how long",
    r"\bin place of\b": "instead of",
    r"(?<!one )(?<!some )(?<!each )\bof (which|whose)\b": "a sentence of its own",
    r"(?<!there )\b(is|are) no (?!longer\b|more than\b)[a-z]": "is not a",
    r"\bby the log alone\b": "deterministic lateness",
    r"\bstragglers?\b": "late row",
    r"\brivals?\b": "other system",
}
LISTS = ("test_vocabulary.py", "test_prose.py")
"""The files that list the words."""
NAMES_ALLOWED: frozenset[str] = frozenset()
"""Names that contain a listed word in another sense."""


def files() -> list[Path]:
    return [
        path
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        if path.name not in LISTS
    ]


def names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the names that a module defines, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id


def texts(source: str) -> Iterator[tuple[int, str]]:
    """Yield the strings, the text parts of f-strings and the comments of a module."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.STRING, tokenize.COMMENT) or (
            tokenize.tok_name[token.type] == "FSTRING_MIDDLE"
        ):
            yield token.start[0], token.string


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_names_use_the_words_of_the_field(path: Path) -> None:
    wrong = [
        f"{path}:{line}: {name}: use {NAME_PARTS[part]}"
        for line, name in names(ast.parse(path.read_text(encoding="utf-8")))
        for part in re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower())
        if part in NAME_PARTS and name not in NAMES_ALLOWED
    ]
    assert not wrong


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_sentences_use_the_words_of_the_field(path: Path) -> None:
    wrong = [
        f"{path}:{line}: {found[0]!r}: use {replacement}"
        for line, text in texts(path.read_text(encoding="utf-8"))
        for pattern, replacement in PHRASES.items()
        for found in re.finditer(pattern, re.sub(r"\s+", " ", text), re.IGNORECASE)
    ]
    assert not wrong
