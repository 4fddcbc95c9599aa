"""Erasure (GDPR): delete a data subject's rows and files below some folders, verified by a scan."""

from .erase import erase
from .erasure_report import ErasureReport

__all__ = ["ErasureReport", "erase"]
