"""Kernels that are looked for: sentences about the structure of a function, their evidence, and the search
among them. `mercer.search` is the way in.

>>> sentence = structure.Sentence.read("periodic(0)*smooth(0) + linear(0)")
>>> structure.words(sentence, ["month"])
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mercer.registry import exporter

if TYPE_CHECKING:
    from mercer.structure.beam import AbstractLanguage, Candidate, Found, Search
    from mercer.structure.grammar import Sentence, Vocabulary, expand, words
    from mercer.structure.periods import likely_periods

__all__ = [
    "AbstractLanguage",
    "Candidate",
    "Found",
    "Search",
    "Sentence",
    "Vocabulary",
    "expand",
    "likely_periods",
    "words",
]

__getattr__ = exporter(
    __name__,
    {
        "beam": "AbstractLanguage Candidate Found Search",
        "grammar": "Sentence Vocabulary expand words",
        "periods": "likely_periods",
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)
