"""Functions that only rise or fall along a column, or bend one way: virtual observations of the signs of
derivatives (Riihimaki and Vehtari 2010).

EP finds a Gaussian site for each sign. The process given these sites is a Gaussian process itself: the prior
of a last, exact conditioning on the data, so that what comes after knows nothing of signs.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mercer.columns import Category, Columns, LeftOut
from mercer.gp import GP, Model
from mercer.inputs import InputError, Inputs
from mercer.kernels import AbstractKernel, Observed, PosteriorKernel
from mercer.learning import Fit
from mercer.means import Expansion, ObservedMean
from mercer.observe import Observations, derivatives, signs, values
from mercer.posteriors import AbstractPosterior
from mercer.registry import unknown

FIRST = 8  # virtual signs of each column to begin with
MORE = 8  # of them that a round adds
ROUNDS = 25
LEARNED = 5  # rounds that learn, from which on hyperparameters stay
PLACES = 512  # where each derivative is looked at
SLACK = (
    1e-6  # in units of the spread of y over the range of the column: a derivative above is one of its sign
)
ALIKE = 0.98  # correlation of two derivatives from which on one of them says enough


@dataclasses.dataclass(frozen=True)
class Wish:
    """A derivative of this order in an encoded column has this sign; `name`: what people call the column."""

    column: int
    order: int
    sign: int
    name: str

    def words(self) -> str:
        """As a person would say it."""
        shape = {(1, 1): "rises", (1, -1): "falls", (2, 1): "is convex", (2, -1): "is concave"}
        return f"{shape[self.order, self.sign]} in {self.name}"


def wishes(monotone: Any, convex: Any, columns: Columns | None) -> list[Wish]:
    """What was asked for: {column: +1 or -1}, by name or position."""
    found: list[Wish] = []
    if monotone is None and convex is None:
        return found
    if columns is None:
        raise InputError("monotone and convex are of the columns of a table, and X is none.")
    for setting, order, given in (("monotone", 1, monotone), ("convex", 2, convex)):
        if given is None:
            continue
        if not isinstance(given, Mapping):
            raise InputError(f"{setting} says the sign for each column, as in {setting}={{'dose': +1}}.")
        for key, sign in given.items():
            if sign not in (1, -1):
                raise InputError(f"{setting}[{key!r}] must be +1 or -1, got {sign!r}.")
            found.append(Wish(_position(key, columns, setting), order, int(sign), str(key)))
    return found


def _position(key: Any, columns: Columns, setting: str) -> int:
    names = list(columns.names)
    at = names.index(key) if key in names else key
    if isinstance(at, bool) or not isinstance(at, int | np.integer) or not -len(names) <= at < len(names):
        raise InputError(f"{setting}: {unknown('column', key, map(str, names))}")
    column = columns.columns[at]
    if isinstance(column, Category | LeftOut):
        raise InputError(
            f"{setting}: column {column.name!r} is not a number, so that nothing rises along it."
        )
    return columns.groups[column.name][0]


def constrained(
    free: Fit,
    inputs: Inputs,
    y: np.ndarray,
    asked: list[Wish],
    plain: bool,
    learn: Callable[[Model, Observations], Fit],
    condition: Callable[[Model, Observations], AbstractPosterior],
) -> tuple[Fit, Model]:
    """The fit with signs, and the model of plain data whose prior has them: learned by `learn` from the free
    fit with a few signs, and again while signs are added, then conditioned by `condition` on as many as it
    takes.

    plain: whether all columns are numbers, so that any place between the data is one
    """
    if free.model.gp.basis is not None:
        raise InputError("monotone and convex go without basis functions: add a Linear() kernel instead.")
    data = values(Inputs(inputs.values, inputs.names), y)
    rng = np.random.default_rng(0)
    given = [_signs(inputs, _places(inputs.values, wish, plain, FIRST, rng), wish) for wish in asked]
    looked = [_places(inputs.values, wish, plain, PLACES, rng) for wish in asked]
    spread = float(np.std(y)) or 1.0
    found, model, wrong = free, free.model, True
    for turn in range(ROUNDS):
        everything = functools.reduce(operator.add, [data, *given])
        if turn < LEARNED:
            found = learn(model, everything)
            model = _of_function(found.model)
            posterior: AbstractPosterior = found.posterior
        else:
            posterior = condition(model, everything)
        more = []
        for wish, places in zip(asked, looked, strict=True):
            there = derivatives(Inputs(places, inputs.names), column=wish.column, order=wish.order)
            slope = wish.sign * posterior.mean(there, latent=True)
            reach = float(np.ptp(inputs.values[:, wish.column])) or 1.0
            worst = np.argsort(slope)[: 8 * MORE]
            worst = worst[slope[worst] < SLACK * spread / reach**wish.order]
            if worst.size:
                more.append(_signs(inputs, places[_apart(posterior, inputs, places, worst, wish)], wish))
        wrong = bool(more)
        if not more:
            break
        given += more
    if wrong:
        posterior = posterior.noting(
            "not every derivative has the sign that was asked for at all places looked at: see posterior_"
        )
    shape = ", ".join(wish.words() for wish in asked)
    noted = posterior.noting(f"f {shape}, by {len(posterior.y) - len(y)} virtual signs of derivatives")
    return dataclasses.replace(found, posterior=noted), _given_signs(model, noted, len(y))


def of_function(kernel: AbstractKernel) -> AbstractKernel:
    """The kernel of f, where this one is its prior given signs."""
    given = isinstance(kernel, PosteriorKernel) and isinstance(kernel.kernel, Observed)
    inner: Any = kernel
    return inner.kernel.kernel if given else kernel


def _of_function(model: Model) -> Model:
    """The model of f and its values, from that of observations."""
    mixed: Any = model.likelihood
    return Model(GP(model.gp.kernel.kernel, model.gp.mean.mean), mixed.values)


def _signs(inputs: Inputs, places: np.ndarray, wish: Wish) -> Observations:
    return signs(Inputs(places, inputs.names), wish.sign, column=wish.column, order=wish.order)


def _places(X: np.ndarray, wish: Wish, plain: bool, count: int, rng: np.random.Generator) -> np.ndarray:
    """Places within the range of the data: evenly along the column; elsewhere at data, and where all columns
    are numbers half of them anywhere in their box.
    """
    low, high = X.min(0), X.max(0)
    places = X[rng.integers(len(X), size=count)].copy()
    if plain and X.shape[1] > 1:
        places[::2] = (low + rng.random(places.shape) * (high - low))[::2]
    along = np.linspace(low[wish.column], high[wish.column], count)
    places[:, wish.column] = along if X.shape[1] == 1 else rng.permutation(along)
    return places


def _apart(
    posterior: AbstractPosterior, inputs: Inputs, places: np.ndarray, worst: np.ndarray, wish: Wish
) -> np.ndarray:
    """Some of the worst places, none of which says what another does."""
    there = derivatives(Inputs(places[worst], inputs.names), column=wish.column, order=wish.order)
    C = posterior.covariance(there, latent=True)
    std = np.sqrt(np.maximum(np.diag(C), 1e-300))
    alike = C / np.outer(std, std) > ALIKE
    chosen: list[int] = []
    for i in range(len(worst)):
        if len(chosen) < MORE and not alike[i, chosen].any():
            chosen.append(i)
    return worst[chosen]


def _given_signs(model: Model, posterior: AbstractPosterior, n: int) -> Model:
    """The model of plain data, its prior the process given the sites of the signs, which are the rows after
    the first n.
    """
    this: Any = posterior
    prior, sites = this.state.prior, this.state.sites
    rows, precision = this.inputs.values[n:], np.asarray(sites.precision)[n:, 0]
    slope, centre = np.asarray(sites.slope)[n:, 0], np.asarray(sites.centre)[n:, 0]
    said = precision > 0
    rows, precision = rows[said], precision[said]
    target = centre[said] + slope[said] / precision
    inner: Any = prior.kernel
    kernel = Observed(inner.kernel, inner.columns, inner.names, boxed=())
    K = kernel(rows) + np.diag(1.0 / precision)
    weights = np.linalg.solve(K, target - np.asarray(ObservedMean(model.gp.mean, inner.columns).value(rows)))
    mean = Expansion(model.gp.mean, kernel, rows, weights)
    return Model(GP(PosteriorKernel(kernel, rows, 1.0 / precision), mean), model.likelihood)
