"""Two folders of this machine that change names, in one step where the system can."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

_HERE = -100
_EXCHANGE = 2
_SWAP = 2


def exchange(one: Path, other: Path) -> bool:
    """Let two folders change names in one step; False where the system or the disk cannot."""
    call = _call()
    return call is not None and call(os.fsencode(one), os.fsencode(other)) == 0


@cache
def _call() -> Any:
    """Return the system's call: renameat2 of Linux, renamex_np of macOS; None without one."""
    library = ctypes.CDLL(None, use_errno=True)
    try:
        if sys.platform == "darwin":
            swap = library.renamex_np
            return lambda one, other: swap(one, other, _SWAP)
        rename = library.renameat2
    except AttributeError:
        return None
    return lambda one, other: rename(_HERE, one, _HERE, other, _EXCHANGE)
