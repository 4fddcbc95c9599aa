"""Real deletion: one person's rows out of the tables below some folders, proved by a scan."""

from .forget import forget
from .report import Forgotten

__all__ = ["Forgotten", "forget"]
