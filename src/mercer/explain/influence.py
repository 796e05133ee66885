"""Which training rows a prediction rests on: the weight function h(x) = R k(X, x) (GPML 2.6, 7.1)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mercer.explain.functionals import by_kernel
from mercer.posteriors.protocol import AbstractPosterior

MOST = 5  # rows that are named


class Influence(NamedTuple):
    """A training row and what it does to a prediction of f.

    row: its position among the training rows, counted from 0; label: how it is called
    weight: h_i(x), by which its own value (of f as its observation says) enters the posterior mean
    shift: by how much the prediction of f is higher than without the row (hyperparameters as they are)
    target: its y, a number or a label
    """

    row: int
    label: str
    weight: float
    shift: float
    target: Any


def influences(
    posterior: AbstractPosterior, rows: np.ndarray, most: int = MOST, labels: Any = None
) -> tuple[tuple[Influence, ...], ...]:
    """For each of rows (m, d) the `most` training rows of the largest weight, in absolute value, first; empty
    where predictions are no sums over the training rows (approximate solvers, several latent functions).

    labels: what the training rows are called; None: their positions

    >>> explain.influences(post, Xs)[0][0].weight
    """
    if not by_kernel(posterior) or not posterior.can("left_out"):
        return ((),) * len(rows)
    this: Any = posterior
    state, y = this.state, np.asarray(posterior.y, float).reshape(len(posterior.y), -1)[:, 0]
    H = state.smoother(rows)  # (m, n)
    tops = np.argsort(-np.abs(H), axis=1, kind="stable")[:, :most]
    kept = np.unique(tops)
    unit = np.zeros((H.shape[1], len(kept)))
    unit[kept, np.arange(len(kept))] = 1.0
    kappa = np.einsum("ij,ij->j", unit, state.apply(unit))  # diag R
    alpha = np.asarray(state.alpha, float).reshape(-1)[kept]
    proper = kappa * np.asarray(state.sites.precision, float)[kept, 0] > 0
    residual = np.divide(alpha, kappa, out=np.zeros_like(alpha), where=proper)  # of the row left out (5.12)
    residual_of = dict(zip(kept.tolist(), residual.tolist(), strict=True))

    def one(i: int, weight: float) -> Influence:
        label = str(i) if labels is None else str(labels[i])
        return Influence(i, label, weight, weight * residual_of[i], float(y[i]))

    return tuple(
        tuple(one(int(i), float(weights[i])) for i in top) for weights, top in zip(H, tops, strict=True)
    )
