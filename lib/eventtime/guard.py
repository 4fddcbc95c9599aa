"""Guards for the watermark."""

from __future__ import annotations

from datetime import timedelta

from pyspark.sql import Column


def ahead_of(time: Column, received: Column, tolerance: str | timedelta) -> Column:
    """Tell whether an event time lies further ahead of the record's own timestamp than the tolerance."""
    raise NotImplementedError
