"""Which columns matter: shares of the variance of the prediction, their uncertainty, and shuffled columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mercer.conditioned import AbstractConditioned
from mercer.explain.function import AbstractFitted, PosteriorFunction
from mercer.explain.result import Importance
from mercer.explain.sobol import REPLICATES, Marginals, independent_halves, shares_of, sobol_indices
from mercer.inputs import Inputs
from mercer.progress import tell

Groups = Mapping[str, Sequence[int]]
"""Names of the columns as people know them, and for each the positions of the inputs that it became."""

DRAWS = 32  # functions drawn from the posterior
WORK = 2e9  # covariances times columns that integration may take
SIZES = 16, 256  # fewest and most points of one of its replicates
DRAWING = 4e10  # operations that joint draws may take
ROWS, SHUFFLES = 256, 5  # rows that are predicted with each column shuffled, and how often
SHUFFLING = 2e11  # operations that this may take


def importance(
    model: Any, groups: Groups | None = None, permutation: bool = True, draws: int = DRAWS, seed: int = 0
) -> Importance:
    """How much each column matters to what a posterior, a fit or a fitted estimator predicts.

    Shares of the variance of the prediction (Sobol indices) over independent columns, each distributed as in
    the training data: in closed form where the kernel is a sum of products over columns, else by quasi-Monte
    Carlo (scrambled Sobol sequences through the empirical quantiles). Work is bounded: the more data and
    columns, the fewer points, and the standard errors say what that costs.

    groups: the positions of the inputs that belong together, by name; default: each column for itself
    permutation: also predict rows whose columns are shuffled, one column at a time, from the other rows
    draws: functions drawn from the posterior, whose spread is part of the standard errors; 0: none
    seed: of points, draws and shuffles

    >>> print(explain.importance(post))
    >>> explain.importance(post, groups={"place": (0,)}, permutation=False).total
    """
    function = as_function(model)
    values = function.inputs.values
    n, d = values.shape
    groups = checked_groups(groups, function.inputs)
    positions = list(groups.values())
    found = function.closed(positions)
    if found is None:
        size = _power(WORK / (REPLICATES * (2 * len(positions) + 2) * n * max(d, 4)), *SIZES)
        found = sobol_indices(function.value, values, positions, size, seed)
        method = f"quasi-Monte Carlo, {found.points} points"
    else:
        method = "closed form"
    first_error, total_error = found.first_error, found.total_error
    notes = [f"standard errors are those of the integration{' (none: closed form)' * (not found.points)}"]
    if draws > 1 and len(positions) > 1 and found.variance > 0:
        if function.why_no_draws is None:
            spread = _drawn(function, positions, draws, seed)
            first_error, total_error = np.hypot(first_error, spread[0]), np.hypot(total_error, spread[1])
            notes = [
                f"standard errors: of the integration, and the spread over {draws} draws of the function"
            ]
        else:
            notes.append(f"no draws of the function: {function.why_no_draws}")
    worse = worse_error = None
    if permutation:
        worse, worse_error, rows = _shuffled(function, positions, seed)
        by = "from the other rows" if function.leaves_out else "by the model as it is, which has seen them"
        notes.append(f"shuffled: rise of the {function.loss_name}, {rows} rows predicted {by}")
    if not found.variance > 0:
        notes.append("the prediction does not vary with any column")
    order = np.argsort(-found.total, kind="stable")
    labels = list(groups)
    return Importance(
        names=tuple(labels[i] for i in order),
        first_order=found.first[order],
        first_order_error=first_error[order],
        total=found.total[order],
        total_error=total_error[order],
        interactions=found.second[np.ix_(order, order)],
        interactions_error=found.second_error[np.ix_(order, order)],
        permutation=None if worse is None else worse[order],
        permutation_error=None if worse_error is None else worse_error[order],
        what=function.what,
        method=method,
        notes=tuple(notes),
    )


def as_function(model: Any) -> AbstractFitted:
    """The function inside a posterior, a fit or an estimator that holds one."""
    if isinstance(model, AbstractFitted):
        return model
    if not isinstance(model, AbstractConditioned):
        raise TypeError(
            f"cannot explain a {type(model).__name__}: give a posterior (what condition returns), a Fit or a "
            "fitted estimator."
        )
    return PosteriorFunction(model.one_posterior())


def checked_groups(groups: Groups | None, inputs: Inputs) -> dict[str, tuple[int, ...]]:
    """Groups that name every input once; None: each column for itself."""
    d = inputs.values.shape[1]
    if groups is None:
        return {name: (j,) for j, name in enumerate(inputs.names or [f"x{j}" for j in range(d)])}
    found = {name: tuple(int(j) for j in columns) for name, columns in groups.items()}
    if sorted(j for columns in found.values() for j in columns) != list(range(d)) or not all(found.values()):
        raise ValueError(
            f"groups must name every one of the {d} input columns once, by positions 0 to {d - 1}; got "
            f"{dict(groups)}."
        )
    return found


def _power(most: float, low: int, high: int) -> int:
    """The largest power of two that is at most `most`, between two others."""
    return int(np.clip(2 ** np.floor(np.log2(max(most, 1.0))), low, high))


def _drawn(
    function: AbstractFitted, groups: Sequence[tuple[int, ...]], draws: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Standard deviations (G,) of first and total index over functions drawn from the posterior: of each
    group against all the rest, at few points of which joint draws can be had.
    """
    values = function.inputs.values
    n, G = values.shape[0], len(groups)
    size = _power(DRAWING / (8.0 * G * n * n), 8, 64)
    first, total = np.zeros(G), np.zeros(G)
    for g, group in enumerate(groups):
        rest = tuple(j for other in groups if other is not group for j in other)
        rows = independent_halves(Marginals.of(values, [group, rest]), size, (seed, g))
        f = function.draw(rows, draws, (seed, g)).reshape(draws, 4, size, -1)
        A, B, AB, BA = (f[:, k] for k in range(4))
        each = [shares_of(np.stack(F)[None]) for F in zip(A, B, AB, BA, BA, AB, strict=True)]
        first[g], total[g] = np.std([e.first[0] for e in each]), np.std([e.total[0] for e in each])
        tell(g + 1, G, "columns drawn")
    return first, total


def _shuffled(
    function: AbstractFitted, groups: Sequence[tuple[int, ...]], seed: int
) -> tuple[np.ndarray, np.ndarray, int]:
    """How much the loss of rows rises (G,) where a group of columns is that of other rows, its standard
    error, and how many rows were tried.
    """
    rng = np.random.default_rng((seed, 1))
    values = function.inputs.values
    n, G = values.shape[0], len(groups)
    most = SHUFFLING / n**2 if function.leaves_out else 2.0**13
    shuffles = int(np.clip(most / (G * min(n, ROWS)), 1, SHUFFLES))
    count = int(np.clip(most / (1 + G * shuffles), min(n, 16), min(n, ROWS)))
    rows = np.sort(rng.choice(n, count, replace=False))
    tried = np.repeat(values[rows][:, None], 1 + G * shuffles, axis=1)  # (rows, as it is and shuffled, d)
    for g, group in enumerate(groups):
        for s in range(shuffles):
            # of another row: anywhere but at home
            other = (rows + rng.integers(1, n, count)) % n if n > 1 else rows
            tried[:, 1 + g * shuffles + s, list(group)] = values[other][:, list(group)]
    where = np.repeat(rows, 1 + G * shuffles)
    loss = function.loss(tried.reshape(len(where), -1), where).reshape(count, -1)
    rise = loss[:, 1:].reshape(count, G, shuffles).mean(2) - loss[:, :1]
    return rise.mean(0), rise.std(0, ddof=min(1, count - 1)) / np.sqrt(count), count
