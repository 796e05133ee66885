"""What the sentences of `mercer.structure` mean for a table: kernels in its units, with the priors of the
default kernel.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from mercer.columns import Columns
from mercer.estimators import defaults
from mercer.gp import GP, Model
from mercer.hyperpriors import Each, LogNormal, Normal
from mercer.inputs import Inputs
from mercer.kernels import (
    SE,
    AbstractKernel,
    ChangePoint,
    Constant,
    Linear,
    Matern,
    Product,
    Scale,
    Shared,
    Sum,
    ZeroSumPeriodic,
)
from mercer.likelihoods import AbstractLikelihood, Gaussian
from mercer.means import AbstractMean
from mercer.params import Param, fixed, param, parameters, replace_leaves
from mercer.structure import grammar
from mercer.structure.beam import AbstractLanguage
from mercer.structure.grammar import Change, Part, Sentence, Term, Values, Vocabulary
from mercer.structure.periods import likely_periods, shortest_period

NU = {"smooth": 2.5, "very-smooth": math.inf, "rough": 1.5}
FEW = 3  # columns up to which seasons, changes and growths are looked for
EVEN = 0.15  # relative difference of gaps that count as the same; months are so
DISTINCT = 20  # values that a column needs for a season or a change
EDGE = 0.05  # of the rows lie beyond the first place of a change, and beyond the last
PLACES = 9  # where a change is looked for
SHARPNESS = 40.0  # of a change, over the length of the column: it takes a tenth of that
WIDTH_PRIOR = LogNormal(0.0, 0.7)  # of the length-scale within a period, on the circle
FEW_STARTS = 12  # combinations of starting values
RATIOS = (2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 1 / 2, 1 / 3)  # of periods that may be meant to the one found
START = 0.3  # of the variance of y: where a term starts
TAILED = 0.7  # of the standard deviation of Gaussian noise: where the scale of Student-t noise starts


class Language(AbstractLanguage):
    """Sentences about targets y (n,) at inputs X (n, d), whose columns `columns` explains.

    A column of the grammar is what has one length-scale: a number, a category, a season of a date. Straight
    lines go along numbers of three values or more; seasons, changes and growths along the only column, or
    along those of two or three whose values are evenly spaced, as times are; and of twenty values or more.
    """

    def __init__(
        self,
        inputs: Inputs,
        y: np.ndarray,
        mean: AbstractMean,
        columns: Columns | None = None,
        noises: Sequence[str] = grammar.NOISES[:1],
    ):
        self.inputs, self.y, self.mean = inputs, y, mean
        self.scale = defaults.target_scale(y)
        X = inputs.values
        d = X.shape[1]
        sharing = tuple(range(d)) if columns is None else columns.sharing
        self.positions = [tuple(i for i in range(d) if sharing[i] == j) for j in range(max(sharing) + 1)]
        self.names = tuple(
            columns.lengthscales if columns is not None else inputs.names or (f"x{i}" for i in range(d))
        )
        self.spread = defaults.group_scales(X, sharing)
        self.centre, self.length = X.mean(0), np.ptp(X, axis=0)
        self.shortest = {j: shortest_period(X[:, p[0]]) for j, p in enumerate(self.positions) if len(p) == 1}
        values = {j: len(np.unique(X[:, p[0]])) for j, p in enumerate(self.positions) if len(p) == 1}
        lines = tuple(j for j, count in values.items() if count > 2)
        alone, few = len(self.positions) == 1, len(self.positions) <= FEW
        long = [j for j, count in values.items() if few and count >= DISTINCT]
        times = tuple(j for j in long if alone or _even(X[:, self.positions[j][0]]))
        self.vocabulary = Vocabulary(len(self.positions), lines, times, times, times, tuple(noises))

    # -- sentence to model -----------------------------------------------------------------------------------

    def model(self, sentence: Sentence) -> Model:
        """The model that a sentence says, bound to the columns, at its values."""
        return Model(GP(self.kernel(sentence), self.mean), self.likelihood(sentence)).bind(self.inputs)

    def kernel(self, sentence: Sentence) -> AbstractKernel:
        """The kernel with the values of the sentence, or where they start, and weak priors."""
        if not sentence.terms:
            return Constant(fixed(self.scale**2 / len(self.y)))
        return self._sum(sentence.terms, START / len(sentence.terms))

    def likelihood(self, sentence: Sentence) -> AbstractLikelihood:
        """The noise."""
        known = sentence.values
        if sentence.noise == "gaussian":
            return Gaussian(defaults.default_noise(self.scale, known.get("noise_variance")))
        noise = defaults.default_likelihood(sentence.noise, self.y)
        values = {"scale": TAILED * math.sqrt(known["noise_variance"])} if "noise_variance" in known else {}
        values |= {p.name: known[p.name] for p in parameters(noise) if p.name in known}
        return replace_leaves(noise, {name: np.asarray(value, float) for name, value in values.items()})

    def _sum(self, terms: Sequence[Term], share: float) -> AbstractKernel:
        made = tuple(self._term(term, share) for term in terms)
        return made[0] if len(made) == 1 else Sum(made)

    def _side(self, terms: Sequence[Term]) -> AbstractKernel:
        """One side of a change: its terms about a level of its own."""
        made = tuple(self._term(term, START) for term in terms)
        level = Constant(fixed(self.scale**2))
        return Sum((*made, level)) if made else level

    def _term(self, term: Term, share: float) -> AbstractKernel:
        if isinstance(term, Change):
            sides = [self._side(side) for side in (term.before, term.after)]
            (column,) = self.positions[term.column]
            location, steepness = self._place(term.values, term.column)
            return ChangePoint(sides[0], sides[1], location, steepness, column)
        start = term.values.get("variance", share * self.scale**2)
        variance = param(start, prior=defaults.variance_prior(self.scale))
        parts = tuple(
            self._part(part, variance if i == 0 else fixed(1.0)) for i, part in enumerate(term.parts)
        )
        return parts[0] if len(parts) == 1 else Product(parts)

    def _part(self, part: Part, variance: Param) -> AbstractKernel:
        """A kernel of this variance."""
        positions = [i for c in part.columns for i in self.positions[c]]
        kernel = self._bare(part, variance, positions)
        whole = positions == list(range(self.inputs.values.shape[1]))
        if whole or part.kind == "step":
            return kernel
        names = self.inputs.names
        return kernel.on(*positions) if names is None else kernel.on(*(names[i] for i in positions))

    def _bare(self, part: Part, variance: Param, positions: list[int]) -> AbstractKernel:
        """The kernel on its own columns."""
        known = part.values
        c = part.columns[0]
        match part.kind:
            case "linear":
                (i,) = positions
                slope = Linear(fixed(1.0 / self.spread[c] ** 2), centre=fixed([self.centre[i]]))
                return Scale(variance, slope)
            case "growth":
                (i,) = positions
                start = known.get("centre", self.centre[i] - self.length[i])
                prior = Normal(float(self.centre[i]), 3.0 * float(self.length[i]))
                line = Linear(fixed(1.0 / self.length[i] ** 2), centre=param([start], prior=Each((prior,))))
                return Scale(variance, line) if variance.info.free else line
            case "periodic":
                (i,) = positions
                shortest, longest = self.shortest[c], 0.6 * float(self.length[i])
                period = known.get("period", math.sqrt(shortest * longest))
                middle = LogNormal(0.5 * math.log(shortest * longest), 2.0)
                return ZeroSumPeriodic(
                    param(period, prior=middle, bounds=self._between(c)),
                    param(known.get("lengthscale", 1.0), prior=WIDTH_PRIOR),
                    variance,
                )
            case "step":
                location, steepness = self._place(known, c)
                level = Constant(fixed(1.0))
                return Scale(variance, ChangePoint(level, level, location, steepness, positions[0]))
            case _:
                return self._function(part, variance, positions)

    def _function(self, part: Part, variance: Param, positions: list[int]) -> AbstractKernel:
        d, spread = len(part.columns), self.spread[list(part.columns)]
        one = LogNormal(math.sqrt(2.0) + 0.5 * math.log(d), math.sqrt(3.0))
        starts = [
            part.values.get(f"lengthscale {c}", d**0.25 * s)
            for c, s in zip(part.columns, spread, strict=True)
        ]
        lengthscale = param(starts, prior=Each((one,) * d).scaled(spread))
        nu = NU[part.kind]
        kernel = SE(lengthscale, variance) if nu == math.inf else Matern(lengthscale, variance, nu=nu)
        if len(positions) == d:
            return kernel
        groups = tuple(k for k, c in enumerate(part.columns) for _ in self.positions[c])
        return Shared(kernel, groups, tuple(self.names[c] for c in part.columns))

    def _place(self, known: Mapping[str, float], c: int) -> tuple[Param, Param]:
        """Location and steepness of a change along a column."""
        (i,) = self.positions[c]
        x = self.inputs.values[:, i]
        first, last = (float(end) for end in np.quantile(x, [EDGE, 1.0 - EDGE]))
        usual = SHARPNESS / float(self.length[i])
        location = param(known.get("location", float(np.median(x))), bounds=(first, last))
        return location, param(known.get("steepness", usual), prior=LogNormal(math.log(usual), 1.0))

    # -- model to sentence -----------------------------------------------------------------------------------

    def learned(self, sentence: Sentence, model: Model) -> Sentence:
        """The sentence with the values of a model made of it."""
        noise = {p.name: float(p.value) for p in parameters(model.likelihood) if np.ndim(p.value) == 0}
        terms = self._learned_sum(sentence.terms, model.gp.kernel) if sentence.terms else ()
        return dataclasses.replace(sentence, terms=terms, values=noise)

    def _learned_sum(self, terms: Sequence[Term], kernel: Any) -> tuple[Term, ...]:
        kernels = kernel.terms if len(terms) > 1 else (kernel,)
        return tuple(self._learned_term(t, k) for t, k in zip(terms, kernels, strict=True))

    def _learned_term(self, term: Term, kernel: Any) -> Term:
        if not isinstance(term, Change):
            return self._learned_product(term, kernel)
        before, after = (
            tuple(map(self._learned_product, terms, side.terms)) if terms else ()  # the last one is the level
            for terms, side in ((term.before, kernel.before), (term.after, kernel.after))
        )
        values = {"location": float(kernel.location), "steepness": float(kernel.steepness)}
        return Change(before, after, term.column, values)

    def _learned_product(self, term: grammar.Product, kernel: Any) -> grammar.Product:
        factors = kernel.factors if len(term.parts) > 1 else (kernel,)
        found = [_free(factor) for factor in factors]
        parts = tuple(
            dataclasses.replace(part, values=dict(self._values(part, free)))
            for part, free in zip(term.parts, found, strict=True)
        )
        return dataclasses.replace(term, parts=parts, values={"variance": float(found[0]["variance"])})

    def _values(self, part: Part, free: Mapping[str, np.ndarray]) -> Iterator[tuple[str, float]]:
        for name, value in free.items():
            if name == "lengthscale" and part.kind in grammar.LOCAL:
                yield from (
                    (f"{name} {c}", float(v)) for c, v in zip(part.columns, np.ravel(value), strict=True)
                )
            elif name != "variance":
                yield name, float(np.ravel(value)[0])

    # -- where to start --------------------------------------------------------------------------------------

    def variants(self, sentence: Sentence, periods: Mapping[int, Sequence[float]]) -> list[Sentence]:
        """The sentence with starting values where it has none: seasons with each of the likely periods,
        functions with a long and a short length-scale, changes at several places, growths from zero before
        the data or after them.
        """
        starts = {id(p): self._starts(p, periods) for p in sentence.parts if not p.values}
        changes = [t for t in sentence.terms if isinstance(t, Change) and not t.values]
        starts |= {id(change): self._places(change.column) for change in changes}
        return [_with(sentence, chosen) for chosen in _combined(starts)]

    def relatives(self, sentence: Sentence) -> list[Sentence]:
        """The sentence with one of its seasons at a multiple of the period learned, or at a fraction of it,
        as detailed within the period as it was, or within the same time.
        """
        seasons = [p for p in sentence.parts if "period" in p.values and "lengthscale" in p.values]
        found = []
        for season, ratio in itertools.product(seasons, RATIOS):
            period = ratio * season.values["period"]
            lowest, highest = self._between(season.columns[0])
            if lowest < period < highest:
                widths = [season.values["lengthscale"] / finer for finer in (1.0, ratio)]
                new = [{"period": period, "lengthscale": width} for width in widths]
                found += [_with(sentence, {id(season): values}) for values in new]
        return found

    def _between(self, c: int) -> tuple[float, float]:
        """Periods that a season along a column may have."""
        (i,) = self.positions[c]
        shortest, longest = self.shortest[c], 0.6 * float(self.length[i])
        return 0.9 * shortest, max(longest, 2.0 * shortest)

    def _starts(self, part: Part, periods: Mapping[int, Sequence[float]]) -> list[dict[str, float]]:
        c = part.columns[0]
        match part.kind:
            case "periodic":
                return [{"period": period} for period in periods.get(c, ())] or [{}]
            case "step":
                return self._places(c)
            case "growth":
                (i,) = self.positions[c]
                return [{"centre": float(self.centre[i] + side * self.length[i])} for side in (-0.8, 0.8)]
            case "linear":
                return [{}]
            case _:
                if len(part.columns) > 1:
                    return [{}]
                return [{f"lengthscale {c}": share * float(self.spread[c])} for share in (1.0, 0.15)]

    def _places(self, c: int) -> list[dict[str, float]]:
        (i,) = self.positions[c]
        shares = np.linspace(0.1, 0.9, PLACES)
        return [{"location": float(x)} for x in np.quantile(self.inputs.values[:, i], shares)]

    def units(self, names: Sequence[str]) -> np.ndarray:
        """A tenth of the length of the column for places, 1 for the logarithms of the others."""
        lengths = [float(self.length[self.positions[c][0]]) for c in self.vocabulary.growths[:1]]
        places = ("location", "centre", "centre[0]")
        return np.array([0.1 * lengths[0] if name.rsplit(".", 1)[-1] in places else 1.0 for name in names])

    def periods(self, rows: np.ndarray, residual: np.ndarray) -> Mapping[int, Sequence[float]]:
        """Likely periods of each column that may have one, without the straight line of the residuals (m,) at
        these rows; and twice the first, of which it may be the half.
        """
        found = {}
        for c in self.vocabulary.seasons:
            (i,) = self.positions[c]
            x = self.inputs.values[rows, i]
            flat = residual - np.polyval(np.polyfit(x - x.mean(), residual, 1), x - x.mean())
            likely = likely_periods(x, flat, self.shortest[c])
            found[c] = [*likely[:2], *(2.0 * p for p in likely[:1])]
        return found


def _with(sentence: Sentence, chosen: Mapping[int, Values]) -> Sentence:
    """The sentence with these values of its parts and changes, by their identity."""
    return sentence.with_values(lambda p: chosen.get(id(p), p.values), lambda c: chosen.get(id(c), c.values))


def _combined(starts: Mapping[int, Sequence[Values]]) -> Iterator[Mapping[int, Values]]:
    """Every combination where they are few; else all at their first, then one at a time at another."""
    if math.prod(map(len, starts.values())) <= FEW_STARTS:
        yield from (dict(zip(starts, one, strict=True)) for one in itertools.product(*starts.values()))
        return
    first = {key: values[0] for key, values in starts.items()}
    yield first
    yield from (first | {key: other} for key, values in starts.items() for other in values[1:])


def _even(x: np.ndarray) -> bool:
    """Whether most gaps between different values (n,) are the same."""
    gaps = np.diff(np.unique(x))
    return bool(np.mean(np.isclose(gaps, np.median(gaps), rtol=EVEN)) > 0.5)


def _free(kernel: AbstractKernel) -> dict[str, np.ndarray]:
    """Free hyperparameters of a part by the last of their names."""
    return {p.name.rsplit(".", 1)[-1]: p.value for p in reversed(parameters(kernel)) if p.free}


__all__ = ["Language"]
