"""Least-squares classification (GPML 6.5): regression on labels, as numbers."""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from mercer.kernels import AbstractKernel
from mercer.relatives.checks import Array, Indices
from mercer.relatives.machines import AbstractMachineClassifier, Machines, Scheme, Trainer
from mercer.relatives.settings import kernel_family, lengthscale_start, settled


class LeastSquaresClassifier(AbstractMachineClassifier):
    """Kernel ridge regression, with an offset, on labels as numbers: the function with the least
    noise_variance |f|^2 / 2 + sum (t_i - f(x_i))^2 / 2, t = +-1; of several classes by problems of two, which
    share one factor where all rows take part.

    With many data f is P(class 1) - P(class -1). One against the rest it is also the joint fit of all
    classes' labels, whose functions sum to a constant. Settings that are not given have the least squared
    error of rows left out one at a time, which takes no fitting; from these also the probabilities
    (`PlattScaling`).
    `GPClassifier` with inference="label-regression" learns them by evidence, and every other number of a
    kernel.

    kernel: kernel, str or None. None is an SE, its length-scale in standard deviations of the columns chosen
    noise_variance: float or None. The weight of the penalty. None chooses it
    targets: "signs", or "balanced": n / n_1 and -n / n_2, by the numbers of rows of both kinds, which with a
        linear kernel gives Fisher's discriminant
    multi_class: "one-vs-rest", "one-vs-one" or "error-correcting"
    link, regularise, random_state, and what is fitted besides: as in `SVC`

    kernel_, noise_variance_: what is used. lengthscale_: in standard deviations, where chosen
    loss_: the squared error of rows left out, NaN where nothing was chosen. interior_: bool, False where the
        grid met its limits

    >>> LeastSquaresClassifier(link="probit").fit(X, labels).predict_proba(Xs)
    """

    folds = 2  # of no use: rows are left out one at a time

    def __init__(
        self,
        kernel: AbstractKernel | str | None = None,
        noise_variance: float | None = None,
        targets: Literal["signs", "balanced"] = "signs",
        multi_class: Scheme = "one-vs-rest",
        link: Literal["logit", "probit"] | None = None,
        regularise: bool = True,
        refinements: int = 1,
        random_state: int = 0,
    ):
        self.kernel = kernel
        self.noise_variance = noise_variance
        self.targets = targets
        self.multi_class = multi_class
        self.link = link
        self.regularise = regularise
        self.refinements = refinements
        self.random_state = random_state

    def _chosen(self, inputs: Array, index: Indices, parts: list[Indices]) -> tuple[AbstractKernel, Trainer]:
        if self.targets not in ("signs", "balanced"):
            raise ValueError(f"targets must be 'signs' or 'balanced', got {self.targets!r}.")
        if self.noise_variance is not None and not self.noise_variance > 0:
            raise ValueError(f"noise_variance must be positive, got {self.noise_variance!r}.")
        kernel_of, balanced = (
            kernel_family(self.kernel, inputs, type(self).__name__),
            self.targets == "balanced",
        )
        signs = self.codes_[index]

        def loss(settings: dict[str, float]) -> float:
            K = kernel_of(settings)(inputs)
            off = _targets(signs, balanced) - _left_out(K, signs, settings["noise_variance"], balanced)
            return float(np.sum(off[signs != 0] ** 2) / np.sum(signs != 0))

        starts = {"noise_variance": (self.noise_variance, 0.1)} | lengthscale_start(self.kernel, inputs)
        found = settled(loss, starts, self.refinements, 1e-3)
        self.loss_, self.interior_ = found.score, found.interior
        self.lengthscale_, self.noise_variance_ = (
            found.values.get("lengthscale"),
            found.values["noise_variance"],
        )

        def trainer(K: Array, signs: Array) -> Machines:
            return _trained(K, signs, self.noise_variance_, balanced)

        return kernel_of(found.values), trainer

    def _held_out(self, K: Array, signs: Array, parts: list[Indices], trainer: Trainer) -> Array:
        return _left_out(K, signs, self.noise_variance_, self.targets == "balanced")


def _targets(signs: Array, balanced: bool) -> Array:
    """Numbers (n, J) for labels of 1, -1 and 0."""
    if not balanced:
        return signs
    n = np.sum(signs != 0, 0)
    ones, others = np.maximum(np.sum(signs > 0, 0), 1), np.maximum(np.sum(signs < 0, 0), 1)
    return np.where(signs > 0, n / ones, np.where(signs < 0, -n / others, 0.0))


def _solved(K: Array, t: Array, noise_variance: float) -> tuple[Array, Array, Array]:
    """Weights (n, J) and offsets (J,) for targets t (n, J), and the diagonal (n,) of the matrix R in weights
    = R t.
    """
    n = len(K)
    factor = cho_factor(K + noise_variance * np.eye(n), lower=True)
    inverse = cho_solve(factor, np.eye(n))
    ones = inverse.sum(1)
    R = inverse - np.outer(ones, ones) / ones.sum()
    return R @ t, ones @ t / ones.sum(), np.diag(R)


def _groups(signs: Array) -> list[tuple[Indices, Indices]]:
    """Rows and columns of problems that the same rows take part in."""
    masks, place = np.unique(signs != 0, axis=1, return_inverse=True)
    return [(np.flatnonzero(mask), np.flatnonzero(np.ravel(place) == i)) for i, mask in enumerate(masks.T)]


def _trained(K: Array, signs: Array, noise_variance: float, balanced: bool) -> Machines:
    t, (n, J) = _targets(signs, balanced), signs.shape
    weights, bias, objective, gap = np.zeros((n, J)), np.zeros(J), np.zeros(J), np.zeros(J)
    for rows, columns in _groups(signs):
        block, y = K[np.ix_(rows, rows)], t[np.ix_(rows, columns)]
        w, b, _ = _solved(block, y, noise_variance)
        weights[np.ix_(rows, columns)], bias[columns] = w, b
        smooth = block @ w
        off = y - smooth - b
        objective[columns] = 0.5 * noise_variance * np.sum(w * smooth, 0) + 0.5 * np.sum(off**2, 0)
        gap[columns] = 0.5 * np.sum((off - noise_variance * w) ** 2, 0)
    return Machines(weights, bias, objective, gap)


def _left_out(K: Array, signs: Array, noise_variance: float, balanced: bool) -> Array:
    """Scores (n, J) of rows by fits without them (5.12), with the offset; rows of no part have zero."""
    t, scores = _targets(signs, balanced), np.zeros(signs.shape)
    for rows, columns in _groups(signs):
        y = t[np.ix_(rows, columns)]
        w, _, diagonal = _solved(K[np.ix_(rows, rows)], y, noise_variance)
        scores[np.ix_(rows, columns)] = y - w / diagonal[:, None]
    return scores
