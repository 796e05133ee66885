"""The relevance vector machine (GPML 6.6): a linear model of kernels at the data whose weights each have a
prior precision of their own; at the maximum of the evidence most of these are infinite, and the model is
sparse.

Trained by the fast rule of Faul and Tipping (2003): one basis function at a time is added, changed or taken
out, always the one that raises the log evidence most.
"""

from __future__ import annotations

import abc
import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve, cholesky, qr, solve_triangular
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_expit
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from mercer.kernels import SE, AbstractKernel
from mercer.params import strip
from mercer.relatives.checks import Array, test_inputs, training_data, training_labels
from mercer.relatives.rkhs import read_kernel

SCALES = (0.25, 0.5, 1.0, 2.0, 4.0)  # of the default kernel, over sqrt(d) / 2 standard deviations
CAP = 1e12  # precisions above are infinite
LEAST = 1e-6  # nats that a step must gain
NOISES = (0.1, 1e-3)  # of the variance of y, where the noise starts; from one alone it may stay noise
NOISE_EVERY = 5  # steps between two looks at the noise
ROUNDING = 1e-8  # of a basis function: less than this left of it is none
WARNING = (
    "Its variances are those of the few basis functions that are left: far from the relevance vectors they "
    "fall to the noise's, where they should grow (GPML 6.6). predict(..., augment=True) adds a basis "
    "function at the place asked; a GP has no such fault."
)


@dataclasses.dataclass(frozen=True, eq=False)
class Weights:
    """Posterior N(mean, covariance) of the weights of the basis functions `active` (m,), with prior
    precisions (m,); log_evidence: of the data, by Laplace for labels.
    """

    active: NDArray[np.intp]
    precisions: Array
    mean: Array
    covariance: Array
    log_evidence: float


class AbstractTargets(abc.ABC):
    """What a step of training asks of the data: Phi (n, M) are all basis functions at them."""

    Phi: Array

    @abc.abstractmethod
    def weights(self, active: NDArray[np.intp], precisions: Array, start: Array | None) -> Weights:
        """The posterior of the weights of these basis functions; start: a mean from before."""

    @abc.abstractmethod
    def quality(self, found: Weights) -> tuple[Array, Array]:
        """S and Q (M,): how much each basis function overlaps with those there, and how well it explains what
        they leave, C of the current model: phi' C^-1 phi and phi' C^-1 y.
        """


@dataclasses.dataclass(frozen=True, eq=False)
class Numbers(AbstractTargets):
    """Targets y (n,) with Gaussian noise."""

    Phi: Array
    y: Array
    noise_variance: float
    G: Array  # Phi' Phi

    def weights(self, active: NDArray[np.intp], precisions: Array, start: Array | None = None) -> Weights:
        n, m, noise = len(self.y), len(active), np.sqrt(self.noise_variance)
        # least squares of y / noise on Phi / noise, and of 0 on sqrt(alpha): Phi' Phi would cost digits
        A = np.vstack([self.Phi[:, active] / noise, np.diag(np.sqrt(precisions))])
        b = np.append(self.y / noise, np.zeros(m))
        U, R = qr(A, mode="economic")
        mean = solve_triangular(R, U.T @ b)
        half = solve_triangular(R, np.eye(m))
        log_det = 2 * n * np.log(noise) + 2 * np.sum(np.log(np.abs(np.diag(R)))) - np.sum(np.log(precisions))
        evidence = -0.5 * float(n * np.log(2 * np.pi) + log_det + np.sum((b - A @ mean) ** 2))
        covariance = half @ half.T
        return Weights(active, precisions, mean, covariance, evidence)

    def quality(self, found: Weights) -> tuple[Array, Array]:
        s2, cross = self.noise_variance, self.G[:, found.active]
        whole = np.diag(self.G) / s2
        explained = np.einsum("ij,jk,ik->i", cross, found.covariance, cross) / s2**2
        residual = self.y - self.Phi[:, found.active] @ found.mean
        return _left(whole, explained), self.Phi.T @ residual / s2


@dataclasses.dataclass(frozen=True, eq=False)
class Labels(AbstractTargets):
    """Labels y (n,) of 0 and 1, by a logistic link and Laplace's approximation."""

    Phi: Array
    y: Array

    def weights(self, active: NDArray[np.intp], precisions: Array, start: Array | None = None) -> Weights:
        Phi = self.Phi[:, active]
        w = np.zeros(len(active)) if start is None else start

        def objective(w: Array) -> float:
            return float(np.sum(log_expit(np.where(self.y > 0, 1, -1) * (Phi @ w))) - 0.5 * precisions @ w**2)

        value = objective(w)
        for _ in range(100):
            p = expit(Phi @ w)
            gradient = Phi.T @ (self.y - p) - precisions * w
            H = (Phi * (p * (1 - p))[:, None]).T @ Phi + np.diag(precisions)
            step = cho_solve(cho_factor(H, lower=True), gradient)
            for _ in range(30):  # shorter until it climbs
                new = objective(w + step)
                if new >= value:
                    break
                step = 0.5 * step
            gained, w, value = new - value, w + step, max(new, value)
            if gained < 1e-10 * (1 + abs(value)):
                break
        p = expit(Phi @ w)
        H = (Phi * (p * (1 - p))[:, None]).T @ Phi + np.diag(precisions)
        L = cholesky(H, lower=True)
        covariance = cho_solve((L, True), np.eye(len(active)))
        evidence = value + 0.5 * np.sum(np.log(precisions)) - np.sum(np.log(np.diag(L)))
        return Weights(active, precisions, w, covariance, float(evidence))

    def quality(self, found: Weights) -> tuple[Array, Array]:
        p = expit(self.Phi[:, found.active] @ found.mean)
        weighted = self.Phi * (p * (1 - p))[:, None]
        cross = weighted.T @ self.Phi[:, found.active]
        whole = np.einsum("ij,ij->j", self.Phi, weighted)
        explained = np.einsum("ij,jk,ik->i", cross, found.covariance, cross)
        return _left(whole, explained), self.Phi.T @ (self.y - p)


def _left(whole: Array, explained: Array) -> Array:
    """The difference; 0 where it is rounding, of functions in the span of others."""
    left = whole - explained
    return np.where(left > ROUNDING * whole, left, 0.0)


def train(
    targets: AbstractTargets,
    max_iterations: int,
    settle: Callable[[Any, Weights], tuple[Any, Weights]] | None = None,
) -> tuple[Any, Weights, list[float]]:
    """The targets (their noise may have changed), the posterior of the weights, and the log evidence after
    each step, which never falls where it is exact.

    settle: looks at the noise between steps
    """
    M = targets.Phi.shape[1]
    found = _first(targets)
    S, Q = targets.quality(found)
    history = [found.log_evidence]
    spent: list[int] = []  # functions whose gain turned out to be rounding
    for step in range(max_iterations):
        j, precision, gain = _best_change(found, S, Q, M, spent)
        if gain < LEAST:
            if settle is None:
                break
            before = found.log_evidence
            targets, found = settle(targets, found)
            if found.log_evidence - before < LEAST:
                break
        else:
            changed = _changed(targets, found, j, precision)
            if settle is not None and changed.log_evidence < found.log_evidence:
                spent.append(j)
                history.append(found.log_evidence)
                continue
            found, spent = changed, []
            if settle is not None and step % NOISE_EVERY == NOISE_EVERY - 1:
                targets, found = settle(targets, found)
        history.append(found.log_evidence)
        S, Q = targets.quality(found)
    return targets, found, history


def _first(targets: AbstractTargets) -> Weights:
    """The basis function that explains most on its own; it stays even where it explains nothing."""
    S, Q = targets.quality(Weights(np.zeros(0, int), np.zeros(0), np.zeros(0), np.zeros((0, 0)), -np.inf))
    j = int(np.argmax(Q**2 / np.maximum(S, 1e-300)))
    excess = Q[j] ** 2 - S[j]
    precision = S[j] ** 2 / excess if excess > 0 else S[j]
    return targets.weights(np.array([j]), np.array([min(float(precision), CAP)]), np.zeros(1))


def _best_change(found: Weights, S: Array, Q: Array, M: int, spent: list[int]) -> tuple[int, float, float]:
    """The basis function whose best precision raises the evidence most, that precision, and the gain."""
    alpha = np.full(M, np.inf)
    alpha[found.active] = found.precisions
    # what they would be without the function itself: alpha S / (alpha - S) with S = alpha - alpha^2 Sigma_jj,
    # Q = alpha mu_j, and nothing that cancels
    s, q = S.copy(), Q.copy()
    own = np.diag(found.covariance)
    s[found.active], q[found.active] = 1 / own - found.precisions, found.mean / own
    relevant = (q**2 > s) & (s > 0)
    best = np.where(relevant, s**2 / np.where(relevant, q**2 - s, 1.0), np.inf)
    best = np.where(best > CAP, np.inf, best)
    gain = np.where(s > 0, _contribution(best, s, q) - _contribution(alpha, s, q), -np.inf)
    if len(found.active) == 1:
        gain[found.active[0]] = np.where(np.isfinite(best[found.active[0]]), gain[found.active[0]], -np.inf)
    gain[spent] = -np.inf
    j = int(np.argmax(gain))
    return j, float(best[j]), float(gain[j])


def _contribution(alpha: Array, s: Array, q: Array) -> Array:
    """The part of the log evidence that one precision has: (log a - log(a + s) + q^2 / (a + s)) / 2."""
    a = np.where(np.isfinite(alpha), alpha, 1.0)
    positive = np.maximum(a + s, 1e-300)
    return np.where(np.isfinite(alpha), 0.5 * (np.log(a) - np.log(positive) + q**2 / positive), 0.0)


def _changed(targets: AbstractTargets, found: Weights, j: int, precision: float) -> Weights:
    at = np.flatnonzero(found.active == j)
    kept = found.active != j
    active, precisions, mean = found.active, found.precisions.copy(), found.mean
    if not np.isfinite(precision):
        active, precisions, mean = active[kept], precisions[kept], mean[kept]
    elif at.size:
        precisions[at] = precision
    else:
        active = np.append(active, j)
        precisions, mean = np.append(precisions, precision), np.append(mean, 0.0)
    return targets.weights(active, precisions, mean)


def _settled(targets: Numbers, found: Weights) -> tuple[Numbers, Weights]:
    """The noise variance with the highest evidence for these precisions."""

    def at(log_variance: float) -> tuple[Numbers, Weights]:
        other = dataclasses.replace(targets, noise_variance=float(np.exp(log_variance)))
        return other, other.weights(found.active, found.precisions)

    centre = np.log(targets.noise_variance)
    end = minimize_scalar(
        lambda v: -at(v)[1].log_evidence, bounds=(centre - 3.0, centre + 3.0), method="bounded"
    )
    new = at(float(end.x))
    return new if new[1].log_evidence > found.log_evidence else (targets, found)


# ------------------------------------------------------------------------------------------------- estimators


class AbstractRelevanceVectors(BaseEstimator):
    """What both machines share: the basis functions, and what is left of them."""

    kernel: Any
    bias: bool
    max_iterations: int

    def _basis(self, kernel: AbstractKernel, X: Array, points: Array) -> Array:
        """Basis functions (m, M) at X: a constant, where there is one, and kernels at the points."""
        Phi = kernel(X, points)
        return np.column_stack([np.ones(len(X)), Phi]) if self.bias else Phi

    def _kernels(self, X: Array) -> list[AbstractKernel]:
        if self.kernel is not None:
            return [read_kernel(self.kernel, type(self).__name__)]
        spread = np.std(X, 0)
        spread[spread == 0] = 1.0
        return [SE(scale * 0.5 * np.sqrt(X.shape[1]) * spread) for scale in SCALES]

    def _keep(self, kernel: AbstractKernel, X: Array, found: list[Weights]) -> None:
        used = np.unique(np.concatenate([w.active for w in found])) - int(self.bias)
        self.relevance_ = used[used >= 0].astype(int)
        self.kernel_, self.points_ = kernel, X
        self.relevance_vectors_ = X[self.relevance_]

    def _active(self, X: Array, w: Weights) -> Array:
        """The active basis functions at X: (m, a)."""
        places = w.active - int(self.bias)
        Phi = np.ones((len(X), len(places)))
        if (places >= 0).any():
            Phi[:, places >= 0] = self.kernel_(X, self.points_[places[places >= 0]])
        return Phi


class RVM(RegressorMixin, AbstractRelevanceVectors):
    """Regression by a relevance vector machine: y = sum_j w_j k(x, x_j) + noise, w_j ~ N(0, 1 / alpha_j),
    with alpha and the noise variance at the maximum of the evidence (6.45).

    kernel: kernel, str or None. The basis functions, which need not be a covariance. None is an SE, in units
        of the columns' standard deviations, with the best of five length-scales by the evidence
    bias: bool. Whether a constant is one of the basis functions
    noise_variance: float or None. None learns it
    max_iterations: int. Steps at most; a step changes one basis function

    relevance_: places of the relevance vectors among the training rows. relevance_vectors_: their inputs
    weights_: `Weights`, their posterior. noise_variance_, log_evidence_, history_: the log evidence after
        each step. converged_: whether no step was left that raises it

    >>> model = RVM().fit(X, y)
    >>> mean, std = model.predict(Xs, return_std=True)
    >>> print(model.summary())
    """

    def __init__(
        self,
        kernel: AbstractKernel | str | None = None,
        bias: bool = True,
        noise_variance: float | None = None,
        max_iterations: int = 2000,
    ):
        self.kernel = kernel
        self.bias = bias
        self.noise_variance = noise_variance
        self.max_iterations = max_iterations

    def fit(self, X: ArrayLike, y: ArrayLike) -> RVM:
        """Learn from y (n,) at X (n, d)."""
        inputs, t = training_data(self, X, y)
        if self.noise_variance is not None and not self.noise_variance > 0:
            raise ValueError(f"noise_variance must be positive, got {self.noise_variance!r}.")
        scale = float(np.var(t)) or 1.0
        given = self.noise_variance
        starts = [share * scale for share in NOISES] if given is None else [float(given)]
        settle = _floored(1e-8 * scale) if given is None else None
        best: Any = None
        for kernel, start in itertools.product(self._kernels(inputs), starts):
            Phi = self._basis(kernel, inputs, inputs)
            found = train(Numbers(Phi, t, start, Phi.T @ Phi), self.max_iterations, settle)
            if best is None or found[1].log_evidence > best[1][1].log_evidence:
                best = kernel, found
        kernel, (targets, self.weights_, self.history_) = best
        self._keep(kernel, inputs, [self.weights_])
        self.targets_ = t
        self.noise_variance_, self.log_evidence_ = targets.noise_variance, self.weights_.log_evidence
        self.converged_ = len(self.history_) < self.max_iterations
        return self

    def predict(
        self, X: ArrayLike, return_std: bool = False, augment: bool = False
    ) -> Array | tuple[Array, Array]:
        """Mean (m,), and with it the std (m,) of a new y.

        augment: add a basis function at each place asked, with the mean of the prior variances of those there
            (Rasmussen and Quinonero-Candela 2005): std then grows away from the relevance vectors
        """
        inputs, w = test_inputs(self, X), self.weights_
        Phi = self._active(inputs, w)
        mean, variance = Phi @ w.mean, np.einsum("ij,jk,ik->i", Phi, w.covariance, Phi)
        if augment:
            own = self.kernel_(self.points_, inputs)  # (n, m)
            old, s2 = self._active(self.points_, w), self.noise_variance_
            cross = old.T @ own / s2
            S = np.sum(own**2, 0) / s2 - np.einsum("ij,ik,kj->j", cross, w.covariance, cross)
            Q = own.T @ (self.targets_ - old @ w.mean) / s2
            bound = strip(self.kernel_.bind(inputs.shape[1]))
            there = np.asarray(bound.diag(bound.encode(inputs)))
            e = there - np.einsum("ij,jk,ki->i", Phi, w.covariance, cross)
            total = S + 1.0 / float(np.mean(1.0 / w.precisions))
            mean, variance = mean + e * Q / total, variance + e**2 / total
        return (mean, np.sqrt(variance + self.noise_variance_)) if return_std else mean

    def summary(self) -> str:
        """What was found, and how far to trust it."""
        return (
            f"{len(self.relevance_)} relevance vectors of {len(self.points_)} rows, kernel "
            f"{self.kernel_.formula()}\nnoise standard deviation {np.sqrt(self.noise_variance_):.4g}, log "
            f"evidence {self.log_evidence_:.4f} after {len(self.history_)} steps"
            f"{'' if self.converged_ else ', not converged'}\n{WARNING}"
        )


def _floored(least: float) -> Callable[[Numbers, Weights], tuple[Numbers, Weights]]:
    """`_settled`, with a noise variance that stays above rounding."""

    def settle(targets: Numbers, found: Weights) -> tuple[Numbers, Weights]:
        new = _settled(targets, found)
        return new if new[0].noise_variance > least else (targets, found)

    return settle


class RVMClassifier(ClassifierMixin, AbstractRelevanceVectors):
    """Classification by relevance vector machines with a logistic link and Laplace's approximation; of
    several classes one for each against the rest.

    kernel, bias, max_iterations: as in `RVM`; classes_; relevance_, relevance_vectors_: of all machines;
    weights_: a list of `Weights`, of two classes one

    >>> RVMClassifier(kernels.SE(0.5)).fit(X, labels).predict_proba(Xs)
    """

    def __init__(
        self, kernel: AbstractKernel | str | None = None, bias: bool = True, max_iterations: int = 2000
    ):
        self.kernel = kernel
        self.bias = bias
        self.max_iterations = max_iterations

    def fit(self, X: ArrayLike, y: ArrayLike) -> RVMClassifier:
        """Learn from labels y (n,) at X (n, d)."""
        inputs, self.classes_, index = training_labels(self, X, y)
        contests = [1] if len(self.classes_) == 2 else range(len(self.classes_))
        best: Any = None
        for kernel in self._kernels(inputs):
            Phi = self._basis(kernel, inputs, inputs)
            found = [train(Labels(Phi, (index == c).astype(float)), self.max_iterations) for c in contests]
            evidence = sum(w.log_evidence for _, w, _ in found)
            if best is None or evidence > best[1]:
                best = kernel, evidence, found
        kernel, self.log_evidence_, found = best
        self.weights_ = [w for _, w, _ in found]
        self.converged_ = all(len(history) < self.max_iterations for _, _, history in found)
        self._keep(kernel, inputs, self.weights_)
        return self

    def predict_proba(self, X: ArrayLike) -> Array:
        """Probabilities (m, C) of the classes, averaged over the weights (MacKay's approximation); of several
        classes those of the contests, made to sum to one.
        """
        inputs = test_inputs(self, X)
        out = []
        for w in self.weights_:
            Phi = self._active(inputs, w)
            variance = np.einsum("ij,jk,ik->i", Phi, w.covariance, Phi)
            out.append(expit(Phi @ w.mean / np.sqrt(1 + np.pi * variance / 8)))
        if len(out) == 1:
            return np.column_stack([1 - out[0], out[0]])
        each = np.column_stack(out)
        return each / np.maximum(each.sum(1, keepdims=True), 1e-300)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The most probable class of each row."""
        likelier = self.predict_proba(X).argmax(1)
        return self.classes_[likelier]

    def summary(self) -> str:
        """What was found, and how far to trust it."""
        return (
            f"{len(self.relevance_)} relevance vectors of {len(self.points_)} rows, kernel "
            f"{self.kernel_.formula()}\n{WARNING.split(' predict')[0]}"
        )
