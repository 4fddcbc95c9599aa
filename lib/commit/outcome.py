"""What came of a commit."""

from __future__ import annotations

from typing import Literal, TypeAlias

Outcome: TypeAlias = Literal["written", "skipped"]
