"""Which observations are outliers, which noise model fits best, and both said in plain words."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from mercer.conditioned import AbstractSubject
from mercer.gp import GP, Model, choose_solver, settle
from mercer.inference import by_name
from mercer.inference.protocol import site_rule
from mercer.inputs import Inputs
from mercer.likelihoods import AbstractNoise, Gaussian
from mercer.likelihoods.base import continuous_quantile
from mercer.likelihoods.scales import NOISE_SHARE, robust_scale
from mercer.params import parameters, replace_leaves
from mercer.posteriors import AbstractPosterior
from mercer.posteriors.loo import folds
from mercer.tables import text_table

TIE = 2.0  # nats of log density within which the simpler noise model is kept
FOLDS, SEVERAL = 3, 500  # of up to so many rows all folds are held out in turn, of more rows one
EXPLAINED = 0.7  # of the robust scale of y: residuals below this show that a function was found
UNITS = 3.0  # an outlier lies further than this from its prediction, in noise units
PROBABILITY_LIMIT, WEIGHT_LIMIT = 0.5, 0.75  # and its score is above this


@dataclasses.dataclass(frozen=True, eq=False)
class Outliers(AbstractSubject):
    """How far a model takes each training row for an outlier; `len()` and `rows` are about those that are.

    score (n,) lies between 0 and 1. kind "probability" (mixture and uniform noise): the posterior probability
    that the row is an outlier. kind "weight" (Student-t, Laplace and other noise): one minus its weight,
    relative to a row that is predicted exactly. kind "equal" (Gaussian noise): all rows have the same weight,
    and none is an outlier. A row is an outlier if its score is above 0.5, or its weight below a quarter, and
    it lies more than 3 noise units from `predicted` (n,), what the model says of the function there. A noise
    unit is half the interval that holds 68 % of the noise: for Gaussian noise, its standard deviation.
    `residual` (n,) is in noise units.

    >>> print(model.outliers_)
    >>> X_clean = np.delete(X, model.outliers_.rows, 0)
    """

    score: np.ndarray
    kind: str
    y: np.ndarray
    predicted: np.ndarray
    residual: np.ndarray
    noise: str
    index: tuple[str, ...] | None = None

    @property
    def limit(self) -> float:
        """The score above which a row may be an outlier."""
        return PROBABILITY_LIMIT if self.kind == "probability" else WEIGHT_LIMIT

    @property
    def weight(self) -> np.ndarray:
        """1 - score (n,)."""
        return 1.0 - self.score

    @property
    def flagged(self) -> np.ndarray:
        """True for each row that is an outlier (n,)."""
        return (self.score > self.limit) & (np.abs(self.residual) > UNITS)

    @property
    def rows(self) -> np.ndarray:
        """Positions of the outliers in the training data, the furthest first."""
        found = np.flatnonzero(self.flagged)
        return found[np.argsort(-np.abs(self.residual[found]), kind="stable")]

    def outlier_report(self) -> Outliers:
        return self

    def __len__(self) -> int:
        return int(self.flagged.sum())

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        return np.array(self.score, dtype=dtype, copy=copy)

    def name(self, row: int) -> str:
        """What a row is called: its label in the frame, or its position."""
        return str(row) if self.index is None else self.index[row]

    def paragraph(self) -> str:
        """The finding in words."""
        if self.kind == "equal":
            return "Gaussian noise gives every row the same weight: the model takes none for an outlier."
        n, k = len(self.y), len(self)
        if k == 0:
            return f"None of the {n} rows is an outlier."
        verb = "row is an outlier" if k == 1 else "rows are outliers"
        return (
            f"{k} of {n} {verb}: further than {UNITS:g} noise units from the prediction, and hardly "
            "used by the model."
        )

    def table(self, most: int = 20) -> tuple[list[str], list[list[str]]]:
        """Header and rows of the `most` furthest outliers, as text."""
        header = [
            "row",
            "y",
            "predicted",
            "residual / noise",
            "probability" if self.kind == "probability" else "weight",
        ]
        shown = self.score if self.kind == "probability" else self.weight
        return header, [
            [
                self.name(i),
                f"{self.y[i]:.6g}",
                f"{self.predicted[i]:.6g}",
                f"{self.residual[i]:+.1f}",
                f"{shown[i]:.3f}",
            ]
            for i in self.rows[:most]
        ]

    def to_frame(self) -> Any:
        """All rows as a pandas frame with their names as index: y, predicted, residual (in noise units),
        score and outlier (True or False); a dict of arrays where pandas is not installed.

        >>> found = model.outliers_.to_frame(); found[found.outlier]
        """
        columns: dict[str, Any] = {
            "y": self.y,
            "predicted": self.predicted,
            "residual": self.residual,
            "score": self.score,
            "outlier": self.flagged,
        }
        names = range(len(self.y)) if self.index is None else self.index
        try:
            import pandas as pd
        except ImportError:
            return {"row": np.array(names), **columns}
        return pd.DataFrame(columns, index=pd.Index(names, name="row"))

    def report_section(self) -> dict[str, Any]:
        """For a report: title, paragraphs, and a table."""
        header, rows = self.table()
        return dict(
            title="Outliers", paragraphs=[self.paragraph(), f"Noise: {self.noise}."], header=header, rows=rows
        )

    def __str__(self) -> str:
        header, rows = self.table()
        lines = [self.paragraph()]
        if rows:
            lines += ["", *text_table(header, rows)]
        if len(self) > len(rows):
            lines.append(f"... and {len(self) - len(rows)} more")
        return "\n".join(lines)


def outliers(
    posterior: AbstractPosterior, index: tuple[str, ...] | None = None, rows: np.ndarray | None = None
) -> Outliers:
    """Scores of the training rows of a posterior, from the prediction of each by the others.

    rows: (n,), which of these each row of the table is, where some are copies
    """
    likelihood, y, score = (
        posterior.model.likelihood,
        np.asarray(posterior.y, float),
        posterior.outlier_score(),
    )
    mean, _ = posterior.latent_moments(posterior.inputs.values, variance=False)
    if isinstance(likelihood, Gaussian):
        kind = "equal"
        unit = np.sqrt(np.maximum(np.asarray(likelihood.variances), np.finfo(float).tiny))
    else:
        kind, unit = "probability" if likelihood.has_outliers else "weight", noise_unit(likelihood)
    columns = score, y, mean, (y - mean) / unit
    score, y, mean, residual = columns if rows is None else (column[rows] for column in columns)
    return Outliers(score, kind, y, mean, residual, likelihood.words(), index)


def noise_unit(likelihood: AbstractNoise) -> float:
    """Half the width of the interval that holds 68.27 % of the noise:
    the standard deviation of Gaussian noise.
    """
    grain = np.array([float(likelihood.grain)])
    with np.errstate(over="ignore"):
        return float(
            continuous_quantile(likelihood.noise_cdf, 0.8413447460685429, 0.0 * grain, 3.0 * grain)[0]
        )


# ------------------------------------------------------------------------------------------------- which
# noise model


@dataclasses.dataclass(frozen=True)
class Candidate:
    """One noise model: `left_out` is the summed log density of the targets, each predicted by all others,
    with the function that Gaussian noise learns and this noise at its best; `held_out` that of rows which a
    fitted model has not seen (None where it was not fitted, -inf where it failed), by `method`.
    """

    name: str
    left_out: float
    held_out: float | None = None
    method: str = ""
    outliers: int = 0
    note: str = ""


@dataclasses.dataclass(frozen=True)
class RobustComparison:
    """The noise models that likelihood="auto" looked at; `best` is the one it kept.

    First they are compared coarsely, by the residuals of left-out rows under Gaussian noise (`left_out`). If
    another than Gaussian noise is `suggested`, it is fitted, and kept if it then predicts held-out rows
    better than Gaussian noise (`held_out`): three folds, each predicted from the two others at the learned
    hyperparameters; of more than 500 rows one fold. Log evidences are not compared: those of some methods
    are lower bounds.
    """

    candidates: tuple[Candidate, ...]

    @property
    def suggested(self) -> str:
        """The highest `left_out`; a simpler one (earlier in the list) where that costs less than 2 nats."""
        highest = max(c.left_out for c in self.candidates)
        return next(c.name for c in self.candidates if c.left_out >= highest - TIE)

    @property
    def best(self) -> str:
        """What was `suggested`, unless it was fitted and predicts held-out rows no better than Gaussian noise
        (by 2 nats).
        """
        plain, other = self.candidates[0], self[self.suggested]
        if plain.held_out is None or other.held_out is None or other.held_out > plain.held_out + TIE:
            return other.name
        return plain.name

    def __getitem__(self, name: str) -> Candidate:
        for one in self.candidates:
            if one.name == name:
                return one
        raise KeyError(
            f"no noise model named {name!r} was tried; there are {[c.name for c in self.candidates]}."
        )

    def paragraph(self) -> str:
        """Why the best was kept, in words."""
        plain, other = self.candidates[0], self[self.suggested]
        if other is plain:
            gain = max(c.left_out for c in self.candidates) - plain.left_out
            said = f"no other explains left-out rows better by more than {gain:.1f} nats"
            return f"Kept {plain.name} noise: {said}."
        gain = (other.held_out or 0.0) - (plain.held_out or 0.0)
        if self.best == plain.name:
            said = "could not be fitted" if gain == -np.inf else f"predicts held-out rows {_than(gain)}"
            return f"Kept {plain.name} noise: {other.name} noise, which its residuals suggest, {said}."
        return f"Kept {other.name} noise: it predicts held-out rows {_than(gain)} than {plain.name} noise."

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Header and rows, the one that was kept first, as text."""
        header = ["noise", "left out, nats", "held out, nats", "method", "outliers", ""]
        rows = []
        for c in sorted(self.candidates, key=lambda c: (c.name != self.best, -c.left_out)):
            fitted = c.held_out is not None and np.isfinite(c.held_out)
            numbers = [f"{c.held_out:.2f}", c.method, str(c.outliers)] if fitted else ["-"] * 3
            said = "; ".join(filter(None, ["kept" if c.name == self.best else "", c.note]))
            rows.append([c.name, f"{c.left_out:.2f}", *numbers, said])
        return header, rows

    def report_section(self) -> dict[str, Any]:
        """For a report: title, paragraphs, and a table."""
        header, rows = self.table()
        return dict(title="Which noise model", paragraphs=[self.paragraph()], header=header, rows=rows)

    def __str__(self) -> str:
        return "\n".join([*text_table(*self.table()), "", self.paragraph()])


def _than(gain: float) -> str:
    return f"{'better' if gain > 0 else 'worse'} by {abs(gain):.1f} nats"


def judged(candidate: Candidate, posterior: Any, method: str, solver: Any, note: str = "") -> Candidate:
    """The candidate, fitted by the rule of this name, with the density of held-out rows."""
    model, X, y = posterior.model, posterior.inputs.values, posterior.y
    rule = site_rule(by_name(method, model.likelihood)).rough()
    solver = choose_solver(model, solver)
    n, total = len(y), 0.0
    parts = folds(n, min(FOLDS, n))
    for fold in parts if n <= SEVERAL else parts[:1]:
        rest = np.setdiff1d(np.arange(n), fold)
        inputs, targets, _, settled = settle(model, Inputs(X[rest]), y[rest], rule, solver)
        memory = {}
        if rule.warm:  # sites of all rows are near those of the rest
            mean, variance = posterior.latent_moments(inputs.values)
            memory = rule.foresee(model, targets, mean[:, None], variance[:, None])
        found = rule.posterior(model, inputs, targets, settled, memory)
        total += float(np.sum(found.log_density(X[fold], y[fold])))
    held_out = total if np.isfinite(total) else -np.inf
    return dataclasses.replace(
        candidate, held_out=held_out, method=method, outliers=len(outliers(posterior)), note=note
    )


def warm_start(model: Model, plain: AbstractPosterior) -> Model | None:
    """The model with robust noise, started at the prior that Gaussian noise has learned and at the scale of
    its left-out residuals; None where outliers have spoilt that function, which then explains little of the
    bulk.
    """
    residual = plain.y - plain.loo().mean
    if robust_scale(residual) > EXPLAINED * robust_scale(plain.y):
        return None
    free = {p.name for p in parameters(model.likelihood) if p.free}
    found = model.likelihood.start(residual / np.sqrt(NOISE_SHARE))  # where half of the noise would be found
    values = {name: np.asarray(value) for name, value in found.items() if name in free}
    learned = {p.name: p.value for p in parameters(plain.model.gp.kernel)}
    gp = GP(replace_leaves(model.gp.kernel, learned), model.gp.mean, model.gp.basis)
    return Model(gp, replace_leaves(model.likelihood, values))
