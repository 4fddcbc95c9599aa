"""Configurations of jobs: sections, loading, validation errors and display."""

from .config_types import (
    CalendarDuration,
    Columns,
    Duration,
    Location,
    Names,
    NonNegativeDuration,
    OptionValue,
    Section,
    Table,
    config_errors,
)
from .fold_sections import DecideSection, FoldSection
from .input_sections import FilteredInputSection, InputSection, RegistrySection
from .job_config import Config
from .loading import LoadedConfig, load_config
from .sections import BrokerSection, JobSection, OutputSection
from .window_sections import WindowSection

__all__ = [
    "BrokerSection",
    "CalendarDuration",
    "Columns",
    "Config",
    "DecideSection",
    "Duration",
    "FilteredInputSection",
    "FoldSection",
    "InputSection",
    "JobSection",
    "LoadedConfig",
    "Location",
    "Names",
    "NonNegativeDuration",
    "OptionValue",
    "OutputSection",
    "RegistrySection",
    "Section",
    "Table",
    "WindowSection",
    "config_errors",
    "load_config",
]
