"""Secrets: which keys contain one, masking for display, and resolving references."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from .errors import ConfigError

MASK = "****"
SECRET_PATTERN = (
    r"(?i)password|passwd|passphrase|secret|token(?!\.endpoint)|credential|jaas"
    r"|(api|access|private)[._-]?key|(keystore|truststore)\.(key|certificate)"
    r"|(^|[._-])(pass|pwd|pw)($|[._-])"
)
"""The regular expression of secret names, also passed to Spark to redact its log and web UI."""

_SECRET_KEY = re.compile(SECRET_PATTERN)
_REFERENCE = re.compile(r"^(env|file):(.+)$", re.DOTALL)


def is_secret(key: str) -> bool:
    """Return whether the name of a key indicates a secret.

    >>> is_secret("kafka.options.ssl.key.password"), is_secret("kafka.options.security.protocol")
    (True, False)
    """
    return _SECRET_KEY.search(key) is not None


def mask_secret(key: str, value: object) -> str:
    """Return a value for display: secrets masked, references unchanged.

    >>> mask_secret("ssl.key.password", "x"), mask_secret("ssl.key.password", "env:KEY")
    ('****', 'env:KEY')
    """
    text = str(value)
    return MASK if is_secret(key) and not _REFERENCE.match(text) else text


def require_reference(key: str, value: object, location: str, *, always: bool = False) -> None:
    """Raise ConfigError for a secret in plain text in a file or on the command line.

    always: treat the value as a secret regardless of its name.
    """
    if (always or is_secret(key)) and not _REFERENCE.match(str(value)):
        raise ConfigError(
            f"invalid {key}: a secret in plain text {location}",
            "'env:NAME' or 'file:PATH', or the environment variable of the key",
            f"{key} = 'env:KAFKA_SECRET'",
        )


def resolve_secrets(options: Mapping[str, str], section: str = "kafka.options") -> dict[str, str]:
    """Replace the references `env:NAME` and `file:PATH` by their values.

    Called as late as possible, so that secrets are in memory only where they are used. A trailing
    line end of a file is removed.

    Raises ConfigError for a variable or file that does not exist.
    """
    return {key: _resolve_value(f"{section}.{key}", value) for key, value in options.items()}


def _resolve_value(key: str, value: str) -> str:
    match = _REFERENCE.match(value)
    if match is None:
        return value
    scheme, name = match.groups()
    if scheme == "env":
        if name not in os.environ:
            raise ConfigError(f"invalid {key}: {value!r}; this environment variable is not set")
        return os.environ[name]
    try:
        return Path(name).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as cause:
        raise ConfigError(
            f"invalid {key}: {value!r}; cannot read this file: {type(cause).__name__}"
        ) from None
