"""Reports: what was learned, told in one HTML file that needs no network.

A report is a value (`Report`, of `Section`s), which estimators make (`model.report()`) and this room shows:
charts as SVG, the page, and a script that evaluates small models in it. It knows kernels and columns, and
nothing of estimators.
"""

from mercer.report.document import (
    AbstractPart,
    Code,
    Facts,
    Figure,
    Figures,
    Heading,
    Notes,
    Report,
    Section,
    Table,
    Text,
    WhatIf,
)
from mercer.report.reported import AbstractReported

__all__ = [
    "AbstractPart",
    "AbstractReported",
    "Code",
    "Facts",
    "Figure",
    "Figures",
    "Heading",
    "Notes",
    "Report",
    "Section",
    "Table",
    "Text",
    "WhatIf",
]


def __dir__() -> list[str]:
    return sorted(__all__)
