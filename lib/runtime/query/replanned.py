"""What of a job's plan has changed since its last start, and whether its checkpoint allows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass

from ...errors import CheckpointError, ReplayMismatchError
from . import plan as plans


@dataclass(frozen=True)
class Replanned:
    """A plan as a checkpoint noted it, and as it is now; `before` is empty where none was noted.

    tables: how many the sink writes.
    """

    before: Mapping[str, str]
    now: Mapping[str, str]
    _: KW_ONLY
    tables: int

    @property
    def told(self) -> list[str]:
        """Each part that has changed, as text."""
        return [plans.told(part, *self._pair(part)) for part in self._changed]

    def require(self, number: int, begun: Callable[[], Sequence[str]]) -> str:
        """Refuse a change that the checkpoint does not allow; tell of those that it does.

        A plan that was not noted has not changed.
        number: the batch after the last whole one, as the tables count.
        begun: asked, where it counts, for the steps that have it.

        Raises:
            CheckpointError: for a part that the checkpoint's state is made of.
            ReplayMismatchError: where a batch was begun with another plan.
        """
        bound = [part for part in self._changed if plans.bound(part, *self._pair(part))]
        if bound:
            raise CheckpointError(
                f"{self._text(bound)}; the checkpoint's state is of what was before.",
                f"the {' and the '.join(bound)} that the checkpoint began with.",
                "the configuration as it was; for another one a new checkpoint and new tables. "
                "Nothing was written.",
            )
        # What a sole table is written with changes no row that is in the tables beside it.
        counts = [part for part in self._changed if part != "sink" or self.tables > 1]
        steps = begun() if counts else []
        if steps:
            raise ReplayMismatchError(
                f"batch {number} is in {', '.join(steps)} already, and was "
                f"to be finished with another plan: {self._text(counts)}.",
                "one plan for all tables of a batch: else a record may be in two of them.",
                "finish the batch with the configuration that began it, then change it; or, with a "
                "new checkpoint, --resume-from-table. Nothing was written.",
            )
        pairs = zip(self.told, self._changed, strict=True)
        safe = "; ".join(f"{text}: {plans.safe(part)}" for text, part in pairs)
        return f"changed, and safe: {safe}" if safe else "unchanged"

    @property
    def _changed(self) -> Sequence[str]:
        return plans.changes(self.before, self.now) if self.before else []

    def _pair(self, part: str) -> tuple[str | None, str | None]:
        return self.before.get(part), self.now.get(part)

    def _text(self, parts: Sequence[str]) -> str:
        return "; ".join(plans.told(part, *self._pair(part)) for part in parts)
