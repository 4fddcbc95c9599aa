"""Two topics joined by key and time, by configuration alone."""

from __future__ import annotations

from pydantic import Field, model_validator

from ..errors import ConfigError, TidegateError
from ..joins import IntervalJoin
from ..joins.stream_stream import How, JoinEmission
from ..runtime.config import Config, FilteredSection, Names, Section, Table
from ..runtime.job import Job
from ..sources.event_time import EVENT_TIME
from .tables import LaidOutSection

ABOUT = "Join two topics by key and time, from Kafka to Delta."


class JoinSection(Section):
    """[join]: the columns that are equal, how far apart in time rows may be, and which come out."""

    on: Names
    before: str = Field(default="0 seconds", description="how long before the left row")
    after: str = Field(description="how long after the left row")
    how: How = "inner"
    emission: JoinEmission = Field(default="early", description="when rows come out")
    suffixes: Names = Field(
        default=["_left", "_right"], description="of a column that both sides have"
    )

    @model_validator(mode="after")
    def _ranged(self) -> JoinSection:
        if len(self.suffixes) != 2:
            raise ConfigError(f"suffixes is {self.suffixes}.", "two: the left one, the right one.")
        try:
            self.value()
        except TidegateError as error:
            raise ConfigError(f"[join]: {error.given}", error.allowed, error.hint) from None
        return self

    def value(self) -> IntervalJoin:
        """Return the join."""
        left, right = self.suffixes
        within = (self.before, self.after)
        return IntervalJoin(
            self.on,
            within=within,
            how=self.how,
            suffixes=(left, right),
            emission=self.emission,
        )


class JoinTables(LaidOutSection):
    """[output]: the joined rows, and the late rows of each topic."""

    late_left: Table = "late_left"
    late_right: Table = "late_right"


class Join(Config, name="join"):
    """The job's configuration: conf/jobs/join.toml tells each key."""

    left: FilteredSection
    right: FilteredSection
    join: JoinSection
    output: JoinTables


def job(config: Join) -> Job:
    """Return the job of a configuration."""
    output = config.output
    return config.as_job(
        inputs={"left": config.as_input(config.left), "right": config.as_input(config.right)},
        transform=config.join.value(),
        sink=output.append(EVENT_TIME),
        late={"left": output.late_left, "right": output.late_right},
    )
