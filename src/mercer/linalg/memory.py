"""How much memory there is, and whether something fits: asked before a large buffer is made, not after."""

from __future__ import annotations

import os
import re

LIMIT = 4 * 2.0**30  # bytes that a solver may take where nobody says how many
UNITS = {
    "b": 1.0,
    "kb": 1e3,
    "mb": 1e6,
    "gb": 1e9,
    "tb": 1e12,
    "kib": 2.0**10,
    "mib": 2.0**20,
    "gib": 2.0**30,
    "tib": 2.0**40,
}


def available() -> float:
    """Bytes that can be used without swapping; infinite where the system does not say."""
    try:
        with open("/proc/meminfo") as file:
            found = re.search(r"MemAvailable:\s+(\d+) kB", file.read())
        if found:
            return 1024.0 * float(found.group(1))
    except OSError:
        pass
    try:
        return float(os.sysconf("SC_PAGE_SIZE")) * float(os.sysconf("SC_PHYS_PAGES"))
    except (ValueError, OSError, AttributeError):
        return float("inf")


def parse(amount: str | float) -> float:
    """Bytes from a number or a text such as "8GiB" or "500 MB"."""
    if not isinstance(amount, str):
        value = float(amount)
    else:
        found = re.fullmatch(r"\s*([0-9.]+)\s*([kmgt]?i?b)\s*", amount, re.IGNORECASE)
        if not found:
            raise ValueError(f"memory must be a number of bytes or a text such as '8GiB', got {amount!r}.")
        value = float(found.group(1)) * UNITS[found.group(2).lower()]
    if not value > 0:
        raise ValueError(f"memory must be positive, got {amount!r}.")
    return value


def text(amount: float) -> str:
    """Bytes as a person reads them: 1.5 GiB."""
    for unit, size in (("TiB", 2.0**40), ("GiB", 2.0**30), ("MiB", 2.0**20)):
        if amount >= size:
            return f"{amount / size:.3g} {unit}"
    return f"{amount / 1024:.3g} KiB"
