"""Small charts as SVG, drawn by hand: crisp at any size, a few kilobytes each, coloured by the style sheet of
the page, so that they follow its light and dark. All text in them is escaped.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup, escape

__all__ = ["Axis", "Plot", "bar_chart", "category_axis", "date_axis", "heat_map", "number_axis", "short"]

WIDTH, HEIGHT = 380, 250
LETTER = 6.4  # width of a letter of the axes, in pixels
LONGEST = 18  # letters of a label
_DAY = 86400.0
# units of ticks along time, how long they are, and the least span that they suit, in seconds
_UNITS = (
    ("Y", 365.2425 * _DAY, 900 * _DAY),
    ("M", 30.44 * _DAY, 100 * _DAY),
    ("D", _DAY, 3 * _DAY),
    ("h", 3600.0, _DAY / 6),
    ("m", 60.0, 0.0),
)


class Axis(NamedTuple):
    """One axis: what it is called, its ends, and where its ticks are with what is written there."""

    label: str
    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]


def short(text: Any, most: int = LONGEST) -> str:
    """A label that fits."""
    text = " ".join(str(text).split())
    return text if len(text) <= most else text[: most - 1] + "…"


def number_axis(label: str, *values: Any, zero: bool = False, room: float = 0.04, count: int = 5) -> Axis:
    """An axis that holds all these numbers; `zero`: and zero."""
    parts = [np.ravel(np.asarray(v, float)) for v in values]
    seen = np.concatenate([*parts, [0.0] if zero else []])
    seen = seen[np.isfinite(seen)]
    low, high = (float(seen.min()), float(seen.max())) if seen.size else (0.0, 1.0)
    if not high > low:
        low, high = low - (abs(low) * 0.1 or 1.0), high + (abs(high) * 0.1 or 1.0)
    margin = room * (high - low)
    low = low if zero and low == 0 else low - margin
    high = high if zero and high == 0 else high + margin
    step = _step((high - low) / count)
    first = math.ceil(low / step - 1e-9)
    ticks = [k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]
    return Axis(label, low, high, tuple(zip(ticks, _written(ticks, step), strict=True)))


def category_axis(label: str, names: Sequence[Any]) -> Axis:
    """An axis of names, at 0, 1, 2 ..."""
    every = max(1, math.ceil(len(names) / 12))
    ticks = tuple((float(i), short(name, 12)) for i, name in enumerate(names) if i % every == 0)
    return Axis(label, -0.6, len(names) - 0.4, ticks)


def date_axis(label: str, stamps: np.ndarray, count: int = 5) -> Axis:
    """An axis of times, in seconds since 1970 (`seconds`)."""
    at = seconds(stamps)
    low, high = float(at.min()), float(at.max())
    if not high > low:
        low, high = low - 43200.0, high + 43200.0
    margin = 0.02 * (high - low)
    low, high = low - margin, high + margin
    unit, length = next((u, s) for u, s, least in _UNITS if high - low >= least)
    step = max(1, math.ceil((high - low) / length / count))
    if unit == "Y":
        step = max(1, round(_step((high - low) / length / count)))
    first, last = (
        int(np.int64(np.datetime64(int(end), "s").astype(f"datetime64[{unit}]"))) for end in (low, high)
    )
    origin = -1970 if unit == "Y" else 0  # years are counted from 0, so that multiples of them are round
    places = np.arange(origin + -(-(first - origin) // step) * step, last + 1, step)
    stamps = places.astype(f"datetime64[{unit}]")
    texts = np.datetime_as_string(stamps).tolist()
    if unit in "hm":
        texts = [text[5:].replace("T", " ") + (":00" if unit == "h" else "") for text in texts]
    at = seconds(stamps)
    ticks = [(float(t), str(text)) for t, text in zip(at, texts, strict=True) if low <= t <= high]
    return Axis(label, low, high, tuple(ticks))


def seconds(stamps: np.ndarray) -> np.ndarray:
    """Times as seconds since 1970."""
    return np.asarray(stamps).astype("datetime64[ms]").astype(np.int64) / 1000.0


def _step(rough: float) -> float:
    size = 10.0 ** math.floor(math.log10(rough))
    return next(size * f for f in (1.0, 2.0, 2.5, 5.0, 10.0) if size * f >= rough * 0.999)


def _written(ticks: list[float], step: float) -> list[str]:
    """Numbers with as many digits as their distance asks for."""
    largest = max((abs(t) for t in ticks), default=0.0)
    if largest >= 1e7 or (largest and largest < 1e-4):
        digits = max(2, math.ceil(math.log10(largest / step)) + 2)
        return [f"{t:.{digits}g}".replace("-", "−") if t else "0" for t in ticks]
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    digits += 1 if abs(step * 10**digits - round(step * 10**digits)) > 1e-6 else 0
    return [f"{t + 0.0:,.{digits}f}".replace("-", "−") for t in ticks]


class Plot:
    """Axes and what is drawn between them. Colours are numbers of the page's palette, 1 to 8; marks are
    drawn in the order in which they are added.

    >>> plot = Plot(number_axis("age", x), number_axis("price", y))
    >>> plot.band(x, lower, upper); plot.line(x, mean); plot.svg("price along age", "It rises.")
    """

    def __init__(self, x: Axis, y: Axis, width: int = WIDTH, height: int = HEIGHT):
        self.x, self.y, self.width, self.height = x, y, width, height
        widest = max((len(text) for _, text in y.ticks), default=1)
        self.left = 26 + LETTER * widest
        self.right, self.top = width - max(12.0, _overhang(x)), 10.0
        self.slanted = _crowded(x, self.right - self.left)
        longest = max((len(text) for _, text in x.ticks), default=1)
        self.bottom = height - (42.0 if not self.slanted else 34.0 + 0.6 * LETTER * longest)
        self.marks: list[str] = []

    # -- where things are ------------------------------------------------------------------------------------

    def px(self, values: Any) -> np.ndarray:
        """Pixels from the left."""
        share = (np.asarray(values, float) - self.x.low) / (self.x.high - self.x.low)
        return self.left + share * (self.right - self.left)

    def py(self, values: Any) -> np.ndarray:
        """Pixels from the top."""
        share = (np.asarray(values, float) - self.y.low) / (self.y.high - self.y.low)
        return self.bottom - share * (self.bottom - self.top)

    # -- marks -----------------------------------------------------------------------------------------------

    def line(self, x: Any, y: Any, colour: int = 1, dashed: bool = False) -> Plot:
        """A line through points; it is broken where one is not finite."""
        path, pen = [], "M"
        for a, b in zip(self.px(x), self.py(y), strict=True):
            if not (math.isfinite(a) and math.isfinite(b)):
                pen = "M"
                continue
            path.append(f"{pen}{a:.1f} {b:.1f}")
            pen = "L"
        self.marks.append(f'<path class="line c{colour}{" dash" * dashed}" d="{"".join(path)}"/>')
        return self

    def band(self, x: Any, lower: Any, upper: Any, colour: int = 1) -> Plot:
        """The room between two lines."""
        a, low, high = self.px(x), self.py(lower), self.py(upper)
        there = np.isfinite(low) & np.isfinite(high)
        a, low, high = a[there], low[there], high[there]
        if a.size:
            forth = "L".join(f"{p:.1f} {q:.1f}" for p, q in zip(a, high, strict=True))
            back = "L".join(f"{p:.1f} {q:.1f}" for p, q in zip(a[::-1], low[::-1], strict=True))
            self.marks.append(f'<path class="band c{colour}" d="M{forth}L{back}Z"/>')
        return self

    def dots(self, x: Any, y: Any, colour: int = 2, radius: float = 2.6, kind: str = "dot") -> Plot:
        """Points, as one path of round ends."""
        there = np.isfinite(np.asarray(x, float)) & np.isfinite(np.asarray(y, float))
        a, b = self.px(x)[there], self.py(y)[there]
        path = "".join(f"M{p:.1f} {q:.1f}h0" for p, q in zip(a, b, strict=True))
        if path:
            self.marks.append(f'<path class="{kind} c{colour}" stroke-width="{2 * radius:g}" d="{path}"/>')
        return self

    def whiskers(self, x: Any, lower: Any, upper: Any, colour: int = 1) -> Plot:
        """An upright line at each x."""
        ends = zip(self.px(x), self.py(lower), self.py(upper), strict=True)
        path = "".join(f"M{a:.1f} {b:.1f}V{c:.1f}" for a, b, c in ends if math.isfinite(b + c))
        self.marks.append(f'<path class="whisker c{colour}" d="{path}"/>')
        return self

    def bars(self, left: Any, right: Any, heights: Any, colour: int = 1) -> Plot:
        """Upright bars from zero."""
        zero = float(self.py(max(0.0, self.y.low)))
        for a, b, top in zip(self.px(left), self.px(right), self.py(heights), strict=True):
            y, h = min(top, zero), abs(zero - top)
            self.marks.append(
                f'<rect class="bar c{colour}" x="{a:.1f}" y="{y:.1f}" width="{max(b - a - 1, 0.8):.1f}" '
                f'height="{h:.1f}"/>'
            )
        return self

    def spans(self, left: Any, right: Any, colour: int = 1) -> Plot:
        """Stretches of x, over the whole height."""
        for a, b in zip(self.px(left), self.px(right), strict=True):
            self.marks.append(
                f'<rect class="span c{colour}" x="{a:.1f}" y="{self.top:.1f}" width="{max(b - a, 0.5):.1f}" '
                f'height="{self.bottom - self.top:.1f}"/>'
            )
        return self

    def rule(self, x: float | None = None, y: float | None = None) -> Plot:
        """A thin line across, for reference."""
        if x is not None:
            self.marks.append(f'<path class="rule" d="M{self.px(x):.1f} {self.top:.1f}V{self.bottom:.1f}"/>')
        if y is not None:
            self.marks.append(f'<path class="rule" d="M{self.left:.1f} {self.py(y):.1f}H{self.right:.1f}"/>')
        return self

    def diagonal(self) -> Plot:
        """Where x = y."""
        low, high = max(self.x.low, self.y.low), min(self.x.high, self.y.high)
        ends = self.px([low, high]), self.py([low, high])
        self.marks.append(
            f'<path class="rule" d="M{ends[0][0]:.1f} {ends[1][0]:.1f}L{ends[0][1]:.1f} {ends[1][1]:.1f}"/>'
        )
        return self

    def ellipse(self, centre: np.ndarray, covariance: np.ndarray, colour: int = 1, size: float = 2.0) -> Plot:
        """The curve `size` standard deviations from a centre (2,)."""
        values, vectors = np.linalg.eigh(covariance)
        turn = np.linspace(0, 2 * np.pi, 61)
        circle = np.stack([np.cos(turn), np.sin(turn)])
        at = centre[:, None] + size * vectors @ (np.sqrt(np.maximum(values, 0.0))[:, None] * circle)
        return self.line(at[0], at[1], colour)

    def raw(self, mark: str) -> Plot:
        """SVG as it is: who calls it escapes it."""
        self.marks.append(mark)
        return self

    # -- the whole -------------------------------------------------------------------------------------------

    def svg(self, title: str, description: str = "") -> Markup:
        """The chart; `title` and `description` are for those who cannot see it."""
        parts = [self._axes(), '<g class="marks">', *self.marks, "</g>"]
        return framed("".join(parts), self.width, self.height, title, description)

    def _axes(self) -> str:
        out = ['<g class="axes">']
        for value, text in self.y.ticks:
            y = float(self.py(value))
            out.append(f'<path class="grid" d="M{self.left:.1f} {y:.1f}H{self.right:.1f}"/>')
            out.append(f'<text x="{self.left - 6:.1f}" y="{y + 4:.1f}" class="end">{escape(text)}</text>')
        for value, text in self.x.ticks:
            x, y = float(self.px(value)), self.bottom
            out.append(f'<path class="tick" d="M{x:.1f} {y:.1f}v4"/>')
            out.append(
                f'<text x="{x:.1f}" y="{y + 12:.1f}" class="end" transform="rotate(-35 {x:.1f} '
                f'{y + 12:.1f})">{escape(text)}</text>'
                if self.slanted
                else f'<text x="{x:.1f}" y="{y + 17:.1f}" class="mid">{escape(text)}</text>'
            )
        out.append(f'<path class="axis" d="M{self.left:.1f} {self.bottom:.1f}H{self.right:.1f}"/>')
        middle = 0.5 * (self.left + self.right)
        out.append(
            f'<text class="label mid" x="{middle:.1f}" y="{self.height - 5}">'
            f"{escape(short(self.x.label, int(self.width / 8)))}</text>"
        )
        up = 0.5 * (self.top + self.bottom)
        out.append(
            f'<text class="label mid" transform="translate(12 {up:.1f}) rotate(-90)">'
            f"{escape(short(self.y.label, 32))}</text></g>"
        )
        return "".join(out)


def framed(inside: str, width: float, height: float, title: str, description: str) -> Markup:
    """An SVG picture with a name."""
    number = hashlib.sha256(f"{title}\0{inside}".encode()).hexdigest()[:10]
    said = f'<desc id="d{number}">{escape(description)}</desc>' if description else ""
    by = f"t{number}" + (f" d{number}" if description else "")
    return Markup(
        f'<svg class="chart" style="max-width:{1.35 * width:.0f}px" viewBox="0 0 {width:g} {height:g}" '
        f'role="img" aria-labelledby="{by}">'
        f'<title id="t{number}">{escape(title)}</title>{said}{inside}</svg>'
    )


def _overhang(axis: Axis) -> float:
    """How far the last label reaches beyond the axis, about."""
    if not axis.ticks:
        return 0.0
    value, text = axis.ticks[-1]
    return 0.5 * LETTER * len(text) + 4.0 - 260.0 * (axis.high - value) / (axis.high - axis.low)


def _crowded(axis: Axis, room: float) -> bool:
    """Whether labels would touch."""
    if len(axis.ticks) < 2:
        return False
    gap = min(b - a for (a, _), (b, _) in itertools.pairwise(axis.ticks)) / (axis.high - axis.low) * room
    return LETTER * max(len(text) for _, text in axis.ticks) + 4 > gap


def bar_chart(
    names: Sequence[Any],
    values: Sequence[float] | np.ndarray,
    label: str,
    errors: Sequence[float] | np.ndarray | None = None,
    title: str = "",
    width: int = 560,
    second: Sequence[float] | np.ndarray | None = None,
) -> Markup:
    """Bars that lie, one below the other, with a line for the standard error; `second`: a darker part of
    each.
    """
    shown, count = [short(name, 20) for name in names], len(names)
    left = 14 + LETTER * max((len(name) for name in shown), default=1)
    label = short(label, int((width - left) / LETTER))
    row, top = 24, 6
    bottom, right = top + row * count, width - 16
    reach = np.asarray(values, float) + (0.0 if errors is None else np.asarray(errors, float))
    axis = number_axis(label, reach, np.asarray(values, float), zero=True, room=0.02)
    at = lambda v: left + (v - axis.low) / (axis.high - axis.low) * (right - left)  # noqa: E731
    out = ['<g class="axes">']
    for value, text in axis.ticks:
        out.append(f'<path class="grid" d="M{at(value):.1f} {top}V{bottom}"/>')
        out.append(f'<text class="mid" x="{at(value):.1f}" y="{bottom + 16}">{escape(text)}</text>')
    out.append(
        f'<text class="label mid" x="{(left + right) / 2:.1f}" y="{bottom + 34}">{escape(label)}</text>'
    )
    for i, (name, value) in enumerate(zip(shown, np.asarray(values, float), strict=True)):
        y = top + row * i
        out.append(f'<text class="end" x="{left - 7:.1f}" y="{y + 16}">{escape(name)}</text>')
        a, b = sorted((at(0.0), at(float(value))))
        out.append(
            f'<rect class="bar c1" x="{a:.1f}" y="{y + 4}" width="{max(b - a, 0.6):.1f}" height="16" rx="2"/>'
        )
        if second is not None:
            a, b = sorted((at(0.0), at(float(second[i]))))
            out.append(
                f'<rect class="bar c2" x="{a:.1f}" y="{y + 9}" width="{max(b - a, 0.6):.1f}" height="6"/>'
            )
        if errors is not None and np.isfinite(errors[i]) and errors[i] > 0:
            low, high = at(float(value) - float(errors[i])), at(float(value) + float(errors[i]))
            out.append(f'<path class="error" d="M{max(low, left):.1f} {y + 12}H{high:.1f}"/>')
    out.append(f'<path class="axis" d="M{at(0.0):.1f} {top}V{bottom}"/></g>')
    said = "; ".join(f"{name} {value:.3g}" for name, value in zip(names, values, strict=True))
    return framed("".join(out), width, bottom + 42, title, said)


# dark blue over teal and green to pale yellow: its lightness rises all along, so that it can be read without
# colours
_RAMP = np.array(
    [[38, 34, 98], [45, 84, 133], [39, 127, 142], [53, 168, 124], [146, 204, 88], [247, 229, 92]]
)


def shade(share: float) -> str:
    """The colour of a value between 0 and 1."""
    at = min(max(share, 0.0), 1.0) * (len(_RAMP) - 1)
    i = min(int(at), len(_RAMP) - 2)
    red, green, blue = np.rint(_RAMP[i] + (at - i) * (_RAMP[i + 1] - _RAMP[i])).astype(int)
    return f"#{red:02x}{green:02x}{blue:02x}"


def heat_map(
    x: Axis,
    y: Axis,
    edges: tuple[Any, Any],
    values: np.ndarray,
    what: str,
    title: str,
    texts: np.ndarray | None = None,
) -> Markup:
    """Values (V1, V2) as colours of cells between edges (V1 + 1,) and (V2 + 1,), with a scale beside them;
    `texts` are written into the cells.
    """
    plot = Plot(x, y, WIDTH, 270)
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    scale = number_axis(what, [low, high], room=0.0, count=4)
    widest = max((len(text) for _, text in scale.ticks), default=1)
    plot.right -= 30 + LETTER * widest
    a, b = plot.px(edges[0]), plot.py(edges[1])
    span = (high - low) or 1.0
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            wide, tall = a[i + 1] - a[i] + 0.4, b[j] - b[j + 1] + 0.4
            plot.raw(
                f'<rect class="cell" fill="{shade((values[i, j] - low) / span)}" x="{a[i]:.1f}" '
                f'y="{b[j + 1]:.1f}" width="{wide:.1f}" height="{tall:.1f}"/>'
            )
            if texts is not None:
                ink = "light" if (values[i, j] - low) / span < 0.6 else "dark"
                where = f'x="{0.5 * (a[i] + a[i + 1]):.1f}" y="{0.5 * (b[j] + b[j + 1]) + 4:.1f}"'
                plot.raw(f'<text class="mid {ink}" {where}>{escape(str(texts[i, j]))}</text>')
    left, steps = plot.right + 12, 24
    tall = (plot.bottom - plot.top) / steps
    for k in range(steps):
        plot.raw(
            f'<rect class="cell" fill="{shade((k + 0.5) / steps)}" x="{left:.1f}" '
            f'y="{plot.bottom - (k + 1) * tall:.1f}" width="10" height="{tall + 0.4:.1f}"/>'
        )
    for value, text in scale.ticks:
        height = plot.bottom - (value - scale.low) / (scale.high - scale.low) * (plot.bottom - plot.top)
        plot.raw(f'<text class="start" x="{left + 14:.1f}" y="{height + 4:.1f}">{escape(text)}</text>')
    return plot.svg(title, f"{what} lies between {low:.4g} and {high:.4g}.")
