"""A report as a value: sections of paragraphs, tables, charts and code, in the order in which they are read.
Nothing here knows HTML, nor what a model is.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from markupsafe import Markup

__all__ = [
    "AbstractPart",
    "Code",
    "Facts",
    "Figure",
    "Figures",
    "Heading",
    "Notes",
    "Report",
    "Section",
    "Table",
]
__all__ += ["Text", "WhatIf"]


@dataclasses.dataclass(frozen=True)
class AbstractPart:
    """Something in a section."""

    kind: ClassVar[str] = ""


@dataclasses.dataclass(frozen=True)
class Text(AbstractPart):
    """A paragraph."""

    kind: ClassVar[str] = "text"
    text: str


@dataclasses.dataclass(frozen=True)
class Heading(AbstractPart):
    """A heading within a section."""

    kind: ClassVar[str] = "heading"
    text: str


@dataclasses.dataclass(frozen=True)
class Notes(AbstractPart):
    """Lines of a list; `warning`: what a person must not miss."""

    kind: ClassVar[str] = "notes"
    lines: tuple[str, ...]
    warning: bool = False


@dataclasses.dataclass(frozen=True)
class Facts(AbstractPart):
    """A few figures that stand out: what, its value, and a word on it."""

    kind: ClassVar[str] = "facts"
    facts: tuple[tuple[str, str, str], ...]


@dataclasses.dataclass(frozen=True)
class Table(AbstractPart):
    """A table of text (or of small charts); the first column names the rows. right: positions of columns of
    numbers.
    """

    kind: ClassVar[str] = "table"
    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[Any]]
    right: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class Figure(AbstractPart):
    """A chart (`wide`: and one for wide screens), what it shows, and the numbers behind it; legend: what each
    colour, by its number, stands for.
    """

    kind: ClassVar[str] = "figure"
    chart: Markup
    caption: str
    table: Table | None = None
    wide: Markup | None = None
    legend: tuple[tuple[int, str], ...] = ()


@dataclasses.dataclass(frozen=True)
class Figures(AbstractPart):
    """Charts side by side, where there is room."""

    kind: ClassVar[str] = "figures"
    figures: tuple[Figure, ...]


@dataclasses.dataclass(frozen=True)
class Code(AbstractPart):
    """Something to type."""

    kind: ClassVar[str] = "code"
    text: str
    caption: str = ""


@dataclasses.dataclass(frozen=True, eq=False)
class WhatIf(AbstractPart):
    """A model that the page evaluates itself, see `mercer.report.live`."""

    kind: ClassVar[str] = "whatif"
    data: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Section:
    """A part of a report with a title. id: how it is linked to, plain letters."""

    id: str
    title: str
    parts: tuple[AbstractPart, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Report:
    """A fitted model, told in one page. Made by `model.report()`.

    >>> report = model.report()
    >>> report.save("r.html"); report.html(); report.sections[0].title
    """

    title: str
    subtitle: str
    sections: tuple[Section, ...]

    def html(self) -> str:
        """The whole page: one file that needs nothing else, and no network."""
        from mercer.report.page import page

        return page(self)

    def body(self) -> str:
        """What stands between <main> and </main>, for a page that has `style` and `script` of its own."""
        from mercer.report.page import body

        return body(self)

    def data(self) -> dict[str, Any]:
        """What the page's script computes with (JSON), by the id of the panel; empty where it does not."""
        from mercer.report.page import data

        return data(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page, whole or not at all."""
        from mercer.files import written_whole

        text = self.html()
        with written_whole(Path(path)) as new:
            new.write_text(text, encoding="utf-8", newline="\n")

    def _repr_html_(self) -> str:
        """In notebooks: the page in a frame of its own."""
        from markupsafe import escape

        frame = 'style="width:100%;height:80vh;border:1px solid #8888" sandbox="allow-scripts"'
        return f'<iframe title="{escape(self.title)}" {frame} srcdoc="{escape(self.html())}"></iframe>'
