"""A job's configuration: its sections, where values come from, and what is shown of them."""

from .base import Section
from .fold_sections import DecideSection, FoldSection
from .format_sections import RegistrySection
from .input_sections import FilteredSection, InputSection
from .job_config import Config
from .load import Loaded, load
from .sections import BrokerSection, JobSection, OutputSection
from .values import Columns, Duration, Names, OptionValue, Place, Span, Table, Wait
from .window_sections import WindowSection

__all__ = [
    "BrokerSection",
    "Columns",
    "Config",
    "DecideSection",
    "Duration",
    "FilteredSection",
    "FoldSection",
    "InputSection",
    "JobSection",
    "Loaded",
    "Names",
    "OptionValue",
    "OutputSection",
    "Place",
    "RegistrySection",
    "Section",
    "Span",
    "Table",
    "Wait",
    "WindowSection",
    "load",
]
