"""Kafka's offsets as checkpoints, sources and stamps have them."""

from __future__ import annotations

from typing import TypeAlias

Offsets: TypeAlias = dict[str, dict[int, int]]
"""The Kafka offset of each partition, by topic and number."""
