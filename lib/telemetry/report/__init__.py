"""The HTML report of a run: numbers, charts and tables in one file."""

from .page import RunReport

__all__ = ["RunReport"]
