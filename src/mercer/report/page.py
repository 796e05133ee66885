"""Reports as HTML: one file with its style and its script inside. Everything that a person wrote (names of
columns, labels, notes) is escaped by the templates, and the policy of the page lets nothing run but its own
script, and nothing be fetched.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

from mercer.report.document import Report, WhatIf

__all__ = ["body", "data", "page", "script", "style"]


def page(report: Report) -> str:
    """The whole page."""
    shown = bool(data(report))
    code = script() if shown else _asset("page.js")
    return (
        _environment()
        .get_template("page.html")
        .render(
            report=report, style=Markup(style()), script=Markup(code), data=data(report), policy=_policy(code)
        )
    )


def body(report: Report) -> str:
    """What stands in <main>."""
    return _environment().get_template("body.html").render(report=report)


def data(report: Report) -> dict[str, Any]:
    """What the script computes with, by the id of the panel."""
    return {
        section.id: part.data
        for section in report.sections
        for part in section.parts
        if isinstance(part, WhatIf)
    }


def style() -> str:
    """The style sheet."""
    return _asset("report.css")


def script() -> str:
    """The script: the colours of the page, and what evaluates models in it."""
    return "\n".join(map(_asset, ("gp.js", "whatif.js", "page.js")))


def _policy(code: str) -> str:
    """What a browser may do with the page: run this script, and nothing else."""
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; worker-src blob:; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


@functools.cache
def _asset(name: str) -> str:
    return files("mercer.report").joinpath("assets", name).read_text(encoding="utf-8")


@functools.cache
def _environment() -> Environment:
    made = Environment(
        loader=FunctionLoader(_asset),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["breakable"] = _breakable
    return made


def _breakable(cell: Any) -> Markup:
    """A name such as kernel.noise_variance, which a narrow screen may break after a dot or an underscore."""
    text = str(escape(cell))
    return Markup(text if isinstance(cell, Markup) else _JOINT.sub(r"\1<wbr>", text))


_JOINT = re.compile(r"([._])(?=[A-Za-z])")
