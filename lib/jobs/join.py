"""The job `join`: an interval join of two topics."""

from __future__ import annotations

from pydantic import Field, model_validator

from ..config import Config, FilteredInputSection, Names, Section, Table, config_errors
from ..config.input_sections import require_declared
from ..errors import ConfigError
from ..job.job import Job
from ..joins import IntervalJoin
from ..joins.interval_join import IntervalJoinType, JoinEmit
from ..sources.event_time_column import EVENT_TIME
from .output_sections import TargetOutputSection

DESCRIPTION = "Join two topics by key and time, from Kafka to Delta."


class JoinSection(Section):
    """[join]: the equality columns, the time interval, and when results are emitted."""

    on: Names
    before: str = Field(default="0 seconds", description="how long before the left row")
    after: str = Field(description="how long after the left row")
    how: IntervalJoinType = "inner"
    emit: JoinEmit = Field(default="early", description="when results are emitted")
    suffixes: Names = Field(
        default=["_left", "_right"], description="suffixes of columns that both inputs have"
    )

    @model_validator(mode="after")
    def _validate_join(self) -> JoinSection:
        if len(self.suffixes) != 2:
            raise ConfigError(
                f"invalid suffixes: {self.suffixes}", "two: of the left and of the right columns"
            )
        with config_errors("join"):
            self.to_join()
        return self

    def to_join(self) -> IntervalJoin:
        """Return the join."""
        left, right = self.suffixes
        return IntervalJoin(
            self.on,
            within=(self.before, self.after),
            how=self.how,
            suffixes=(left, right),
            emit=self.emit,
        )


class JoinTables(TargetOutputSection):
    """[output]: the joined rows, and the late rows of each topic."""

    late_left: Table = "late_left"
    late_right: Table = "late_right"


class Join(Config, name="join"):
    """The configuration of the job `join`; conf/jobs/join.toml documents each key.

    >>> from tidegate.config import load_config
    >>> from tidegate.spark.jars import project_root
    >>> file = project_root() / "conf" / "jobs" / "join.toml"
    >>> job(load_config(Join, file, [], {}).config).name
    'join'
    """

    left: FilteredInputSection
    right: FilteredInputSection
    join: JoinSection
    output: JoinTables

    @model_validator(mode="after")
    def _require_declared_columns(self) -> Join:
        for key, section in (("left", self.left), ("right", self.right)):
            require_declared(section, [section.time], f"{key}.time")
            require_declared(section, self.join.on, f"join.on in [{key}]")
        return self


def job(config: Join) -> Job:
    """Return the job of a configuration."""
    output = config.output
    return config.as_job(
        inputs={"left": config.as_input(config.left), "right": config.as_input(config.right)},
        transform=config.join.to_join(),
        sink=output.append_sink(EVENT_TIME),
        late_rows={"left": output.late_left, "right": output.late_right},
    )
