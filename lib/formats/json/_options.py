"""How Spark's parser is told to read JSON."""

from __future__ import annotations

CORRUPT = "__tidegate_corrupt"
PLAIN = {
    "mode": "PERMISSIVE",
    "allowNonNumericNumbers": "false",
    "allowSingleQuotes": "false",
    "timeZone": "UTC",
}
"""For a text that is known to be an object.

With options given, the optimiser does not prune the schema to the fields in use: what is malformed
stays malformed.
"""
OPTIONS = {**PLAIN, "columnNameOfCorruptRecord": CORRUPT}
"""For a text of which a column is to say whether it is malformed."""
LONGEST = 50_000
"""Bytes of a value within which no name is longer than Spark's parser takes."""
