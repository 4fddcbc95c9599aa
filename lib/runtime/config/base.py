"""What all sections of a configuration share."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """What all sections share: no unknown keys, and no value that turns into another type."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False, str_min_length=1)
