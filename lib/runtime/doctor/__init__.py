"""The doctor: every check of a start and what it found, without starting or changing anything."""

from .examination import examine
from .findings import Concern, Finding, require_sound, shown

__all__ = ["Concern", "Finding", "examine", "require_sound", "shown"]
