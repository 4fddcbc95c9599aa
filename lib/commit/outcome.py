"""What came of a commit."""

from __future__ import annotations

from typing import Literal, TypeAlias

Outcome: TypeAlias = Literal["written", "skipped"]
"""Whether the commit was made now, or left out since the table had it already."""
