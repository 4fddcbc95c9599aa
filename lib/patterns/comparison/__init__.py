"""Windows compared with their past."""

from .deviation import Deviation
from .deviations import Deviations, deviations
from .past import Past

__all__ = ["Deviation", "Deviations", "Past", "deviations"]
