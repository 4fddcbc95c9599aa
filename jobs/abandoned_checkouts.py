"""Find checkouts that were begun and not paid: Kafka in, Delta out, each as soon as it is certain.

spark-submit jobs/abandoned_checkouts.py [--config PATH] [--set section.key=value]...
[--show-config] [--verbose]

A checkout begins with an event of which `begun` holds, and is abandoned when no event of the same
key of which `paid` holds comes within the time. An event that begins a checkout again begins one of
its own. The table has the key, `started`, `ended`, `decided`, which is `within` after `started`,
and the columns of the event that are kept.
"""

from __future__ import annotations

from pydantic import Field, model_validator

from tidegate.errors import ConfigError, TidegateError
from tidegate.patterns import Sequences, not_, of, sequence, step
from tidegate.runtime import Job, command
from tidegate.runtime.config import (
    Columns,
    Config,
    Duration,
    InputSection,
    Names,
    OutputSection,
    Section,
    Table,
)
from tidegate.sinks import Append

PLACE = ("topic", "partition", "offset")


class CheckoutSection(Section):
    """[checkout]: what begins a checkout and what ends it, of whom, and how long it may take."""

    by: Names = Field(default=["user_id"])
    begun: str = "page = '/cart'"
    paid: str = "page = '/checkout'"
    within: Duration = "10 minutes"
    keep: Columns = Field(default=["event_id"])

    @model_validator(mode="after")
    def _matches(self) -> CheckoutSection:
        try:
            self.value([])
        except TidegateError as error:
            raise ConfigError(f"[checkout]: {error.given}", error.allowed, error.hint) from None
        return self

    def value(self, order: list[str]) -> Sequences:
        """Return the search for checkouts that are not paid."""
        unpaid = sequence(step("begun", self.begun), not_(self.paid), within=self.within)
        measures = {name: of("begun").first(name) for name in self.keep}
        return Sequences(unpaid, by=self.by, measures=measures, order=order)


class Tables(OutputSection):
    """[output]: the checkouts that were abandoned, and late rows."""

    table: Table = "abandoned_checkouts"
    late: Table = "late_rows"


class AbandonedCheckouts(Config, name="abandoned_checkouts"):
    """The job's configuration: conf/jobs/abandoned_checkouts.toml tells each key."""

    events: InputSection
    checkout: CheckoutSection = CheckoutSection()
    output: Tables


def job(config: AbandonedCheckouts) -> Job:
    """Return the job of a configuration."""
    events = config.as_input(config.events, keep=PLACE)
    fields = {name.lower() for name in events.reading.format.schema.fieldNames()}
    order = [f"kafka_{name}" if name in fields else name for name in PLACE]
    return config.as_job(
        inputs={"events": events},
        transform=config.checkout.value(order),
        sink=Append(config.output.table),
        late=config.output.late,
    )


if __name__ == "__main__":
    command(
        AbandonedCheckouts,
        job,
        about="Find checkouts that were begun and not paid, from Kafka to Delta.",
        result="abandoned checkouts",
    )
