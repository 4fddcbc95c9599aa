"""A small JSON file that bears a hash of itself: a changed byte is noticed when it is read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def text_of(kind: str, fields: Mapping[str, Any]) -> str:
    """Return the file's content: its kind, the fields, and the hash of both."""
    # The hash is of the text's own order, in which the key "10" comes before "9".
    told = json.loads(json.dumps({"kind": kind, **fields}))
    return json.dumps({**told, "sha256": digest(told)}, indent=1) + "\n"


def fields_of(kind: str, content: bytes) -> dict[str, Any] | None:
    """Return the fields of a file; None for one that is not whole, or of another kind."""
    try:
        found: dict[str, Any] = json.loads(content)
        said = found.pop("sha256")
        # A file of before was hashed with its numbers in their own order.
        whole = said in (digest(found), digest(_numbered(found)))
        return found if found.pop("kind") == kind and whole else None
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def digest(told: Mapping[str, Any]) -> str:
    """Return the hash of what a file tells, whatever the order of its fields."""
    text = json.dumps(told, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _numbered(told: Any) -> Any:
    """Return what JSON holds, with keys that are numbers as such."""
    if not isinstance(told, Mapping):
        return told
    return {int(key) if key.isdecimal() else key: _numbered(value) for key, value in told.items()}
