"""Find checkouts that start and are not paid, as soon as this is certain: Kafka to Delta.

spark-submit jobs/abandoned_checkouts.py [--config FILE] [--set section.key=value]...
[--show-config] [--verbose]

A checkout starts with an event that satisfies `start_condition`. It is abandoned if no event of the
same key that satisfies `paid_condition` follows within the time. Another start event starts another
checkout. The table has the key, `started`, `ended`, `decided` (`within` after `started`), and the
selected columns of the start event.
"""

from __future__ import annotations

from pydantic import Field, model_validator

from ..config import (
    Columns,
    Config,
    Duration,
    InputSection,
    Names,
    OutputSection,
    Section,
    Table,
    config_errors,
)
from ..job.job import Job
from ..patterns import MatchSequence, events_of, not_followed_by, sequence, step
from ..sinks import Append

DESCRIPTION = "Find abandoned checkouts, from Kafka to Delta."

LOG_POSITION = ("topic", "partition", "offset")


class CheckoutSection(Section):
    """[checkout]: conditions of the start and of the payment, key columns, and the time limit."""

    by: Names = Field(default=["user_id"])
    start_condition: str = "page = '/cart'"
    paid_condition: str = "page = '/checkout'"
    within: Duration = "10 minutes"
    columns: Columns = Field(default=["event_id"])

    @model_validator(mode="after")
    def _validate_checkout(self) -> CheckoutSection:
        with config_errors("checkout"):
            self.to_match_sequence([])
        return self

    def to_match_sequence(self, order: list[str]) -> MatchSequence:
        """Return the pattern matching that finds unpaid checkouts."""
        unpaid = sequence(
            step("start", self.start_condition),
            not_followed_by(self.paid_condition),
            within=self.within,
        )
        measures = {name: events_of("start").first(name) for name in self.columns}
        return MatchSequence(unpaid, by=self.by, measures=measures, order=order)


class Tables(OutputSection):
    """[output]: the abandoned checkouts, and late rows."""

    table: Table = "abandoned_checkouts"
    late_rows: Table = "late_rows"


class AbandonedCheckouts(Config, name="abandoned_checkouts"):
    """The job's configuration; conf/jobs/abandoned_checkouts.toml documents each key."""

    events: InputSection
    checkout: CheckoutSection = CheckoutSection()
    output: Tables


def job(config: AbandonedCheckouts) -> Job:
    """Return the job of a configuration."""
    events = config.as_input(config.events, kafka_columns=LOG_POSITION)
    fields = {name.lower() for name in events.format.schema.fieldNames()}
    order = [f"kafka_{name}" if name in fields else name for name in LOG_POSITION]
    return config.as_job(
        inputs={"events": events},
        transform=config.checkout.to_match_sequence(order),
        sink=Append(config.output.table),
        late_rows=config.output.late_rows,
    )
