"""What the doctor's checks have found, and how it is shown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from ...errors import TidegateError
from ..process.failures import plain
from ..query.preflight import Check


class Concern(str):
    """What a check found that refuses no start, and may stop the job later."""


@dataclass(frozen=True)
class Finding:
    """What one check has found; `error` where a start would be refused for it."""

    check: str
    found: str
    error: TidegateError | None = None

    @property
    def mark(self) -> str:
        """Return "ok", "look" for a concern, or "refused"."""
        if self.error is not None:
            return "refused"
        return "look" if isinstance(self.found, Concern) else "ok"


def findings_of(checks: Iterable[Check]) -> list[Finding]:
    """Do every check, whatever those before it have found."""
    findings: list[Finding] = []
    for check in checks:
        findings.append(_finding(check, findings))
    return findings


def shown(findings: Sequence[Finding]) -> Table:
    """Return the findings as a table for a terminal, each refusal with what to do."""
    colours = {"ok": "green", "look": "yellow", "refused": "red"}
    table = Table("check", "", "found")
    for each in findings:
        # Paths and messages may have square brackets, which rich would take for markup.
        table.add_row(Text(each.check), Text(each.mark, colours[each.mark]), Text(each.found))
    return table


def require_sound(findings: Sequence[Finding]) -> None:
    """Raise the first error that was found."""
    for each in findings:
        if each.error is not None:
            raise each.error


def _finding(check: Check, before: Sequence[Finding]) -> Finding:
    name, look = check
    try:
        return Finding(name, look())
    except Exception as failure:
        error = failure if isinstance(failure, TidegateError) else plain(failure)
        same = [each.check for each in before if str(each.error) == str(error)]
        if same:
            return Finding(name, f"not checked, for the reason above ({same[0]})", error)
        return Finding(name, str(error), error)
