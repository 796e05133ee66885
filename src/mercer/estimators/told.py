"""A fitted model in plain sentences: its additive parts, and what each column does."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from mercer.columns.roles import Date
from mercer.conditioned import Bars
from mercer.estimators.findings import figure
from mercer.explain import Effect, Importance
from mercer.explain.attribution import part_values_of
from mercer.explain.functionals import additive, by_kernel, columns_read
from mercer.kernels import AbstractKernel, Categorical, ChangePoint, Linear
from mercer.posteriors import AbstractPosterior

if TYPE_CHECKING:
    from mercer.estimators.explained import AbstractExplained

MOST = 6  # columns that have a sentence of their own
ROWS = 200  # of the training data, over which parts are looked at
ROUNDING = 1e-12  # relative to the values of a curve: one that changes less is flat
TINY = 0.005  # shares of the variance below this are next to nothing
WIGGLE = 0.1  # of the range of a curve: turns smaller than this are not told
TURNS = 2  # that are told one after the other
LEVEL = 0.95


class Finding(NamedTuple):
    """One thing that is said of a model.

    kind: "part" (an additive part), "column", or "pair" (of columns, beyond each alone)
    name: what it is called; a part by its formula, a pair "a, b"
    share: of the variance of the predictions (of columns: interactions included)
    low, high: the least and the most that it predicts, in units of the prediction; of a part, what it adds;
        NaN of pairs
    std: how far the truth may be from that, typically: a posterior standard deviation; NaN where not known
    sentence: the same in words
    """

    kind: Literal["part", "column", "pair"]
    name: str
    share: float
    low: float
    high: float
    std: float
    sentence: str


@dataclasses.dataclass(frozen=True, eq=False)
class Explanation:
    """A fitted model in plain sentences. Made by `model.explain()`; print it.

    opening: how well it predicts, and how noisy the data are
    findings: what is said of its parts, columns and pairs of columns (`Finding`), the largest share first
    importance, effects: what that was read from (`model.importance`, `model.effects`), of tables
    notes: what a person should know

    >>> found = model.explain()
    >>> print(found); found["a"].share; found.to_frame()
    """

    opening: tuple[str, ...]
    findings: tuple[Finding, ...]
    importance: Importance | None = None
    effects: tuple[Effect, ...] = ()
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.findings)

    def __getitem__(self, name: str) -> Finding:
        """What is said of the part, column or pair of this name."""
        found = {finding.name: finding for finding in reversed(self.findings)}
        if name not in found:
            raise KeyError(f"nothing is said of {name!r}; there are {list(reversed(found))}.")
        return found[name]

    def sentences(self) -> list[str]:
        """All that is said, in order."""
        return [*self.opening, *(finding.sentence for finding in self.findings), *self.notes]

    def bars(self, row: int = 0, most: int = 12) -> Bars:
        """What a picture shows: the shares of columns (of parts, where there are no columns)."""
        kind = "column" if self.importance is not None else "part"
        kept = [finding for finding in self.findings if finding.kind == kind][:most]
        names = tuple(finding.name for finding in kept)
        error = np.full(len(kept), math.nan)
        if self.importance is not None:
            at = [self.importance.names.index(name) for name in names]
            error = np.asarray(self.importance.total_error, float)[at]
        shares = np.array([finding.share for finding in kept])
        what = "share of the variance of the predictions"
        return Bars(names, shares, error, what, f"what its {kind}s explain", None)

    def to_frame(self) -> Any:
        """A row for each finding: a pandas frame, or a dict of arrays where pandas is not installed."""
        fields = Finding._fields
        table = {
            field: np.array([finding[j] for finding in self.findings], float if j in range(2, 6) else object)
            for j, field in enumerate(fields)
        }
        try:
            import pandas as pd
        except ImportError:
            return table
        return pd.DataFrame(table)

    def __str__(self) -> str:
        lines = list(self.opening)
        for kind, title in (("part", "Its parts:"), ("column", "Its columns:"), ("pair", "")):
            said = [f"* {one.sentence}" for one in self.findings if one.kind == kind]
            lines += [*(["", title] if said and title else []), *said]
        return "\n".join([*lines, *(["", *self.notes] if self.notes else [])])


def told(model: AbstractExplained) -> Explanation:
    """What a fitted estimator of tables has learned."""
    importance = model.importance(permutation=False)
    effects = model.effects(list(importance.names[:MOST]), level=LEVEL)
    names = list(model._groups() or importance.names)
    what = _what(effects, model.target_name_)
    columns = () if model.columns_ is None else model.columns_.columns
    dates = {column.name: column for column in columns if isinstance(column, Date)}
    first = what if what == model.target_name_ else sentence(what).removesuffix(".")
    opening = [f"{first} is predicted from {_listed(names)}."]
    opening += map(sentence, model._opening())
    findings = [
        *_part_findings(model),
        *(_column(effect, importance, what, _places(effect, dates)) for effect in effects),
        *_pairs(importance),
    ]
    rest = importance.names[MOST:]
    notes = [f"note: {note}" for note in importance.notes]
    if rest:
        share = importance[rest[0]]
        notes.insert(0, f"{len(rest)} other columns explain at most {percent(share)} each: {_listed(rest)}.")
    return Explanation(tuple(opening), tuple(findings), importance, tuple(effects), tuple(notes))


# ------------------------------------------------------------------------------------------------ columns


def _column(effect: Effect, importance: Importance, what: str, at: list[str]) -> Finding:
    (name,), i = effect.columns, importance.names.index(effect.columns[0])
    share, alone = float(importance.total[i]), float(importance.first_order[i])
    error = float(importance.total_error[i])
    curve = effect.mean[:, -1]
    std = _std(effect)
    if share < TINY and len(importance) > 1:
        said = f"{name} does next to nothing ({percent(share)} of the variance of the predictions)."
        return Finding("column", name, share, float(curve.min()), float(curve.max()), std, said)
    sure = f" ± {percent(error)}" if error > TINY else ""
    part = f", {percent(alone)} alone" if share - alone > TINY else ""
    opened = f"{name} explains {percent(share)}{sure} of the variance of the predictions{part}: "
    opened = f"{name}: " if len(importance) == 1 else opened
    how = _likeliest(effect, at) if len(effect.labels) > 2 else _along(effect, curve, what, at)
    spread = f", known to ± {figure(std, 2)}" if np.isfinite(std) else ""
    return Finding(
        "column", name, share, float(curve.min()), float(curve.max()), std, f"{opened}{how}{spread}."
    )


def _places(effect: Effect, dates: Mapping[str, Date]) -> list[str]:
    """The values of a column, as text."""
    axis = effect.axes[0]
    if axis.name in dates and axis.at.dtype != object:
        return dates[axis.name].texts(axis.at)
    return [figure(v) if isinstance(v, float) else str(v) for v in axis.at.tolist()]


def _along(effect: Effect, curve: np.ndarray, what: str, at: list[str]) -> str:
    """Where a curve of `what` is predicted rises and falls."""
    axis = effect.axes[0]
    if np.ptp(curve) <= ROUNDING * np.abs(curve).max():
        return f"on average {what} is {figure(curve[0])} all along it"
    if axis.discrete:
        order = np.argsort(curve)
        listed = [f"{figure(curve[i])} at {at[i]}" for i in order]
        shown = listed if len(listed) <= 4 else [*listed[:1], *listed[-1:]]
        return f"on average {what} is " + " and ".join(
            [", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown
        )
    turns = turning_points(curve, WIGGLE * float(np.ptp(curve)))
    if len(turns) - 2 > TURNS:
        low, high = int(curve.argmin()), int(curve.argmax())
        return (
            f"on average {what} goes up and down {len(turns) - 2} times, between {figure(curve[low])} at "
            f"{at[low]} and {figure(curve[high])} at {at[high]}"
        )
    steps = [f"{figure(curve[i])} at {at[i]}" for i in turns]
    verbs = ["rises" if curve[b] > curve[a] else "falls" for a, b in pairwise(turns)]
    said = f"on average {what} {verbs[0]} from {steps[0]} to {steps[1]}"
    for verb, step in zip(verbs[1:], steps[2:], strict=True):
        said += f", then {verb} to {step}"
    return said


def turning_points(curve: np.ndarray, least: float) -> list[int]:
    """Positions between which a curve goes one way, but for wiggles smaller than `least`: the first, the
    turns, the last.

    >>> turning_points(np.array([0.0, 2.0, 1.9, 3.0, 1.0]), 0.5)   # [0, 3, 4]
    """
    turns, best, way = [0], 0, 0
    for i in range(1, len(curve)):
        if way == 0:
            if abs(curve[i] - curve[0]) > least:
                way, best = (1 if curve[i] > curve[0] else -1), i
        elif way * (curve[i] - curve[best]) >= 0:
            best = i
        elif way * (curve[best] - curve[i]) > least:
            turns.append(best)
            best, way = i, -way
    last = len(curve) - 1
    if way and best != turns[-1] and best != last and abs(curve[last] - curve[best]) > least:
        turns.append(best)
    return [*turns, last]


def _likeliest(effect: Effect, at: list[str]) -> str:
    """Which of several classes is the likeliest along a column."""
    axis, best = effect.axes[0], effect.mean.argmax(-1)
    if axis.discrete:
        return "on average the likeliest is " + ", ".join(
            f"{effect.labels[c]} at {where}" for c, where in zip(best, at, strict=True)
        )
    changes = [0, *(np.flatnonzero(np.diff(best)) + 1).tolist()]
    if len(changes) == 1:
        return f"on average {effect.labels[best[0]]} is the likeliest all along it"
    return "on average the likeliest is " + ", then ".join(
        f"{effect.labels[best[i]]} from {at[i]} on" for i in changes
    )


def _std(effect: Effect) -> float:
    """A typical standard deviation of an averaged prediction."""
    if effect.lower is None or effect.upper is None:
        return math.nan
    half = 0.5 * (effect.upper[:, -1] - effect.lower[:, -1])
    return float(np.sqrt(np.mean(half**2)) / NormalDist().inv_cdf(0.5 + 0.5 * effect.level))


def _pairs(importance: Importance) -> list[Finding]:
    found = []
    for pair in importance.pairs[:3]:
        if pair.share > max(TINY, 2.0 * pair.error):
            said = (
                f"{pair.first} and {pair.second} act together: {percent(pair.share)} of the variance is "
                "theirs beyond what each explains alone."
            )
            nan = math.nan
            found.append(Finding("pair", f"{pair.first}, {pair.second}", pair.share, nan, nan, nan, said))
    return found


# -------------------------------------------------------------------------------------------------- parts


def _part_findings(model: AbstractExplained) -> list[Finding]:
    """What is said of the additive parts of one kernel; nothing where there is but one."""
    if len(model._fits) > 1:
        return []
    posterior: AbstractPosterior = model._fits[0].posterior
    if not by_kernel(posterior):
        return []
    inputs = posterior.inputs.values
    n, d = inputs.shape
    rows = inputs[np.sort(np.random.default_rng(0).permutation(n)[:ROWS])]
    names, values, std = part_values_of(posterior, rows, rows)
    if not names:
        return []
    this: Any = posterior
    called = {c: name for name, columns in (model._groups() or {}).items() for c in columns}
    coloured: Any = vars(model).get("coloured_noise_")  # of regressors with noise_along: the last term
    unit = "" if posterior.model.likelihood.mean_is_latent else " on the latent scale"
    found = []
    for j, term in enumerate(additive(this.state.prior.kernel)):
        read = [called.get(c, f"x{c}") for c in columns_read(term, tuple(range(d)))]
        words = part_words(term, read)
        if coloured is not None and j == len(names) - 1:
            words = f"noise along {coloured.column}, lasting about {coloured.lengthscale:.3g}"
        found.append(part_finding(names[j], words, values, std, j, unit))
    return sorted(found, key=lambda finding: -finding.share)


def part_finding(
    name: str, words: str, values: np.ndarray, std: np.ndarray, j: int, unit: str = ""
) -> Finding:
    """What is said of part j of values (m, P) and standard deviations (m, P) of all parts at m rows."""
    own, share = values[:, j] - values[:, j].mean(), variance_share(values, j)
    low, high, sure = float(own.min()), float(own.max()), float(np.sqrt(np.mean(std[:, j] ** 2)))
    said = (
        f"{words}: between {low:+.3g} and {high:+.3g}{unit}, known to ± {sure:.2g}; {percent(share)} of the "
        "variance of the predictions"
    )
    return Finding("part", name, share, low, high, sure, sentence(said))


def variance_share(values: np.ndarray, j: int) -> float:
    """The covariance of part j with the sum of all parts, values (m, P), over the variance of the sum: the
    shares of all parts sum to one.
    """
    total = values.sum(1) - values.sum(1).mean()
    return float(values[:, j] @ total / (total @ total)) if total.any() else 0.0


def part_words(term: AbstractKernel, read: Sequence[str]) -> str:
    """What kind of function of which columns an additive part is; `read`: of each of its inputs the name of
    the column that it stands for.
    """
    columns, kernel = list(dict.fromkeys(read)), _inside(term)
    of = f"of {_listed(columns)}" + (" together" if len(columns) > 1 else "")
    levels = len(columns) == 1 and len(read) > 1 and isinstance(kernel, Linear)
    if isinstance(kernel, Categorical) or levels:
        return f"an offset for each level {of}"
    if isinstance(kernel, ChangePoint):
        return (
            f"a change of {_listed(columns)} at about {_each(kernel.location)}, another function on each side"
        )
    if isinstance(kernel, Linear):
        return f"a straight line {of}" if len(columns) == 1 else f"a linear function {of}"
    traits = term.traits(len(read))
    if traits.period is not None:
        return f"a pattern {of} that repeats every {_each(traits.period)}{_changing(traits)}"
    smooth = traits.smoothness
    kind = "function" if smooth is None else "rough function" if smooth < 1 else "smooth function"
    return f"a {kind} {of}{_changing(traits)}"


def _inside(kernel: Any) -> AbstractKernel:
    """The kernel inside a choice of columns or a scale."""
    from mercer.kernels import On, Scale

    found: AbstractKernel = _inside(kernel.kernel) if isinstance(kernel, On | Scale) else kernel
    return found


def _changing(traits: Any) -> str:
    one = traits.lengthscale is not None and np.size(traits.lengthscale) == 1
    return f", changing over about {_each(traits.lengthscale)}" if one else ""


def _each(value: Any) -> str:
    return ", ".join(f"{v:.3g}" for v in np.ravel(value))


# -------------------------------------------------------------------------------------------------- words


def _what(effects: Sequence[Effect], target: str | None) -> str:
    labels = effects[0].labels if effects else ()
    if not labels:
        return target or "y"
    return f"the probability of {labels[1]}" if len(labels) == 2 else target or "the class"


def sentence(line: str) -> str:
    """A line as a sentence."""
    first = line if f"{line} ".startswith("y ") else line[:1].upper() + line[1:]
    return first.removesuffix(".") + "."


def _listed(names: Sequence[str]) -> str:
    """a, b and c."""
    shown = [*names[:8], f"{len(names) - 8} more"] if len(names) > 9 else list(names)
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def percent(share: float) -> str:
    """0.71 -> '71 %'."""
    return f"{100 * share:.0f} %" if share >= 0.0095 else f"{100 * share:.1f} %"
