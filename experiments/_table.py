"""A Markdown table from rows."""

from __future__ import annotations


def table(header: list[str], rows: list[list]) -> str:
    cells = [
        header,
        ["---"] * len(header),
        *[[c if isinstance(c, str) else f"{c:.4g}" for c in row] for row in rows],
    ]
    return "\n".join("| " + " | ".join(row) + " |" for row in cells)
