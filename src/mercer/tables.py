"""Text tables: what reports, verdicts and summaries print."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["text_table"]


def text_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a table: the header, a rule under it, and a line for each row, in columns two spaces apart.

    >>> print("\\n".join(text_table(["model", "log evidence"], [["SE", "-12.3"], ["Matern", "-11.9"]])))
    model   log evidence
    --------------------
    SE      -12.3
    Matern  -11.9
    """
    cells = [header, *rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]
    return [lines[0], "-" * len(lines[0]), *lines[1:]]
