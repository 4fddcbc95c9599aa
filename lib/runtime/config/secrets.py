"""Secrets: which keys hold one, how they are masked, and where their values come from."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from ...errors import ConfigError

MASK = "****"
SECRET = (
    r"(?i)password|passwd|passphrase|secret|token(?!\.endpoint)|credential|jaas"
    r"|(api|access|private)[._-]?key|(keystore|truststore)\.(key|certificate)"
    r"|(^|[._-])(pass|pwd|pw)($|[._-])"
)
"""Which names are those of secrets, here and in Spark's own log and pages: Java reads it too."""

_KEY = re.compile(SECRET)
_REFERENCE = re.compile(r"^(env|file):(.+)$", re.DOTALL)


def is_secret(key: str) -> bool:
    """Return whether a key's value is a secret, by its name.

    >>> is_secret("kafka.options.ssl.key.password"), is_secret("kafka.options.security.protocol")
    (True, False)
    """
    return _KEY.search(key) is not None


def masked(key: str, value: object) -> str:
    """Return a value as it may be shown: references as they are, since they hold no secret."""
    text = str(value)
    return MASK if is_secret(key) and not _REFERENCE.match(text) else text


def require_reference(key: str, value: object, place: str, *, always: bool = False) -> None:
    """Refuse a secret that stands in the file or on the command line in plain text.

    always: it is one, whatever its name.
    """
    if (always or is_secret(key)) and not _REFERENCE.match(str(value)):
        raise ConfigError(
            f"{key} is a secret, and its value stands in plain text {place}.",
            "'env:NAME' or 'file:PATH', or the environment variable of the key.",
            f"{key} = 'env:KAFKA_SECRET'",
        )


def resolved(options: Mapping[str, str], section: str = "kafka.options") -> dict[str, str]:
    """Put the values in place of `env:NAME` and `file:PATH`, as late as can be.

    A file's last line end is dropped.
    """
    return {key: _value(f"{section}.{key}", value) for key, value in options.items()}


def _value(key: str, value: str) -> str:
    match = _REFERENCE.match(value)
    if match is None:
        return value
    kind, name = match.groups()
    if kind == "env":
        if name not in os.environ:
            raise ConfigError(f"{key} is {value!r}, and there is no such environment variable.")
        return os.environ[name]
    try:
        return Path(name).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as cause:
        raise ConfigError(
            f"{key} is {value!r}, and that file cannot be read: {type(cause).__name__}."
        ) from None
