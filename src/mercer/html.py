"""Values as notebooks show them: a few lines of HTML in the colours of the page around them, light or dark.

Everything is escaped: names of columns and categories come from anywhere.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

__all__ = ["card", "lines", "table"]

MOST = 12  # rows of a table; more are counted
FRAME = "border-left:3px solid #7a86b8;padding:.2em 0 .2em .8em;margin:.3em 0;max-width:60em"
CELL = "text-align:left;padding:.1em 1.2em .1em 0;border:0;background:transparent;color:inherit"


def card(title: str, *parts: str) -> str:
    """A title and parts, which are HTML already.

    >>> card("GPRegressor", lines("12 rows"), table(["name", "value"], [["noise", "0.1"]]))
    """
    return f'<div style="{FRAME}"><strong>{html.escape(title)}</strong>{"".join(parts)}</div>'


def lines(text: str) -> str:
    """Text as it stands, in a fixed width."""
    style = "margin:.3em 0;background:transparent;color:inherit;white-space:pre-wrap;font-size:.9em"
    return f'<pre style="{style}">{html.escape(text)}</pre>'


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of text; of many rows the first, and how many there are."""
    given = [[html.escape(cell) for cell in row] for row in rows]
    head = "".join(f'<th scope="col" style="{CELL}">{html.escape(name)}</th>' for name in header)
    body = "".join(
        "<tr>" + "".join(f'<td style="{CELL}">{cell}</td>' for cell in row) + "</tr>" for row in given[:MOST]
    )
    more = f"<div>… and {len(given) - MOST} more</div>" if len(given) > MOST else ""
    style = "border-collapse:collapse;margin:.3em 0;font-size:.9em"
    return f'<table style="{style}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}'
