"""A page of a run, to be looked at: numbers, charts and tables in one file."""

from .writing import Report

__all__ = ["Report"]
