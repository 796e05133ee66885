"""Regularised fits for any loss (GPML 6.2): by the representer theorem the best function of a kernel's space
is a sum of kernels at the data, f = sum_i weights_i k(., x_i).

Newton's method, on a loss that is smoothed a little and less and less (its Moreau envelope, with
multipliers), works for losses with kinks as for smooth ones. The slopes u_i of the loss that it ends with are
a point of the dual problem, so that the distance from the optimum is known for every convex loss.
"""

from __future__ import annotations

import dataclasses
import warnings
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_factor, cho_solve, cholesky
from scipy.optimize import minimize
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning

from mercer.kernels import SE, AbstractKernel
from mercer.relatives.checks import Array, Indices, test_inputs, training_data
from mercer.relatives.losses import AbstractLoss, Squared, proximal, read_loss
from mercer.relatives.machines import AbstractMachineClassifier, Scheme, Trainer, each, held_out
from mercer.relatives.rkhs import KernelFunction, read_kernel

INNER = 20  # Newton steps at one width of the smoothing
SIZES = np.append(0.7 ** np.arange(24), 0.0)  # of a Newton step, the best of which is taken
SHRINK = 0.1  # of the width, from one to the next
LEAST = 1e-4  # of its first value
STARTS = 8  # random ones, where there may be several minima
APART = 1e-3  # of the objective's size: minima that are nearer in value and in f are one


@dataclasses.dataclass(frozen=True, eq=False)
class Minimum:
    """f = K weights + bias, (n,) and a number, with the value of penalty |f|^2 / 2 + sum of losses, and a
    bound on how far that is above the minimum (NaN where the loss is not convex).
    """

    weights: Array
    bias: float
    objective: float
    gap: float
    converged: bool


def minimise(
    K: Array,
    y: Array,
    loss: AbstractLoss,
    penalty: float,
    bias: bool = False,
    tol: float = 1e-6,
    max_iterations: int = 200,
) -> Minimum:
    """The weights (n,) and the bias of the function with the least penalty |f|^2 / 2 + sum loss(y_i, f_i), of
    a convex loss.

    K: covariances (n, n), which may be singular. tol: relative to the objective, of the gap. max_iterations:
    Newton steps, O(n^3) each
    """
    n, width = len(y), (float(np.mean(np.diag(K))) or 1.0) / penalty
    smoothed = _Smoothed(K, y, loss, penalty, np.zeros(n), width)
    weights, offset, steps = np.zeros(n), 0.0, 0
    best = Minimum(weights, offset, np.inf, np.inf, False)
    while steps < max_iterations and not best.converged:
        for _ in range(min(INNER, max_iterations - steps)):
            steps += 1
            weights, offset, gained = smoothed.step(weights, offset, bias)
            if gained <= 1e-3 * tol * abs(best.objective if np.isfinite(best.objective) else gained):
                break
        now, slopes = smoothed.judged(K @ weights + offset, offset, bias, tol)
        best = now if now.gap < best.gap else best
        smoothed = dataclasses.replace(smoothed, multipliers=slopes)
        for _ in range(min(INNER, max_iterations - steps)):
            if now.converged:
                break
            steps += 1
            now = smoothed.solved(now, bias, tol)
            if not now.gap < best.gap:
                break
            best = now
            smoothed = dataclasses.replace(smoothed, multipliers=-penalty * now.weights)
            weights, offset = now.weights, now.bias
        smoothed = smoothed.finer(K @ weights + offset, LEAST * width)
    return best


@dataclasses.dataclass(frozen=True, eq=False)
class _Smoothed:
    """The problem with min_p loss(p) + (f + width * multiplier - p)^2 / (2 width) in place of the loss, which
    is smooth; at the right multipliers, the slopes of the loss, its minimum is that of the loss itself.
    """

    K: Array
    y: Array
    loss: AbstractLoss
    penalty: float
    multipliers: Array
    width: float

    def near(self, f: Array) -> tuple[Array, Array]:
        """f + width * multiplier, and the values p of the minimum."""
        z = f + self.width * self.multipliers
        return z, proximal(self.loss, self.y, z, self.width)

    def finer(self, f: Array, least: float) -> _Smoothed:
        """The same with a smaller width, as small as leaves the slopes at f nearly where they are."""
        z, p = self.near(f)
        u = (z - p) / self.width
        moved = 3.0 * np.max(np.abs(f - p)) / max(float(np.max(np.abs(u))), 1e-300)
        return dataclasses.replace(self, width=max(min(moved, self.width), SHRINK * self.width, least))

    def bend(self, z: Array) -> Array:
        """Derivatives (n,) of p by z: 0 at a kink of the loss, 1 where it is straight."""
        h = 1e-6 * (np.abs(z) + self.width)
        ends = [proximal(self.loss, self.y, z + side * h, self.width) for side in (1.0, -1.0)]
        return np.clip((ends[0] - ends[1]) / (2 * h), 0.0, 1.0)

    def step(self, weights: Array, offset: float, bias: bool) -> tuple[Array, float, float]:
        """A Newton step, of the size that gains most: weights, offset and the gain."""
        f = self.K @ weights + offset
        z, p = self.near(f)
        u = (z - p) / self.width
        W = np.maximum(1.0 - self.bend(z), 1e-9) / self.width
        root, right = np.sqrt(W), W * f - u
        B = np.eye(len(f)) + root[:, None] * self.K * (root / self.penalty)
        factor = cho_factor(B, lower=True, overwrite_a=True)

        def solved(r: Array) -> Array:  # (penalty + W K)^-1 r
            return (r - root * cho_solve(factor, root * (self.K @ r)) / self.penalty) / self.penalty

        new, moved = solved(right), offset
        if bias:
            per_offset = solved(W)
            moved = float(new.sum() / per_offset.sum())
            new = new - moved * per_offset
        along = new - weights, moved - offset
        values = self._values(weights, offset, *along)
        best = int(np.argmin(values))
        size = SIZES[best]
        return weights + size * along[0], offset + size * along[1], values[-1] - values[best]

    def _values(self, weights: Array, offset: float, along: Array, up: float) -> Array:
        """The objective (S,) after steps of all `SIZES` of one direction."""
        kernels = self.K @ np.column_stack([weights, along])
        smooth, bent = kernels[:, 0] + offset, kernels[:, 1] + up
        z, p = self.near(smooth + SIZES[:, None] * bent)
        losses = np.sum(self.loss.value(self.y, p) + (z - p) ** 2 / (2 * self.width), 1)
        products = np.array([weights, along]) @ kernels
        norms = products[0, 0] + 2 * SIZES * products[0, 1] + SIZES**2 * products[1, 1]
        return 0.5 * self.penalty * norms + losses

    def solved(self, now: Minimum, bias: bool, tol: float) -> Minimum:
        """A Newton step on f = p itself, multipliers and all: where it is right about who is at a kink, and
        who is beside it, it ends there.
        """
        n = len(self.y)
        z, p = self.near(self.K @ now.weights + now.bias)
        D = self.bend(z)
        system = np.zeros((n + 1, n + 1))
        system[:n, :n] = (1.0 - D)[:, None] * self.K + np.diag(self.width * self.penalty * D)
        system[:n, n], system[n, :n], system[n, n] = 1.0 - D, 1.0, 0.0 if bias else 1.0
        if not bias:
            system[n, :n], system[:n, n] = 0.0, 0.0
        found = np.linalg.lstsq(system, np.append(p - D * z, 0.0), rcond=None)[0]
        weights, offset = found[:n], float(found[n])
        moved = dataclasses.replace(self, multipliers=-self.penalty * weights)
        return moved.judged(self.K @ weights + offset, offset, bias, tol)[0]

    def judged(self, f: Array, offset: float, bias: bool, tol: float) -> tuple[Minimum, Array]:
        """The slopes u (n,) of the loss that belong to f, and the function whose weights belong to them, with
        its distance from the optimum: as u_i is a slope at p_i, the sum of
        loss(f_i) - loss(p_i) - u_i (f_i - p_i).
        """
        z, p = self.near(f)
        u = (z - p) / self.width
        weights = -u / self.penalty
        smooth = self.K @ weights
        f = smooth + offset
        losses = self.loss.value(self.y, f)
        gap = float(np.sum(losses - self.loss.value(self.y, p) - u * (f - p)))
        gap += float(np.sum(np.abs(f - p) * np.spacing(np.abs(z)))) / self.width  # by which u may be rounded
        if bias:  # slopes that do not sum to zero are no point of the dual, unless offsets are bounded
            farthest = abs(offset) + float(np.max(np.abs(f)) + np.max(np.abs(self.y)))
            gap += offset * float(u.sum()) + farthest * abs(float(u.sum()))
        objective = 0.5 * self.penalty * float(weights @ smooth) + float(losses.sum())
        return Minimum(weights, offset, objective, gap, gap <= tol * abs(objective)), u


def modes(
    K: Array, y: Array, loss: AbstractLoss, penalty: float, bias: bool = False, seed: int = 0
) -> list[Minimum]:
    """Minima of penalty |f|^2 / 2 + sum loss(y_i, f_i), the lowest first, of a loss that need not be convex:
    those that descents from zero, from smooth functions through y, and from random functions end in. There
    may be more.
    """
    n = len(y)
    scale = float(np.mean(np.diag(K))) or 1.0
    L = cholesky(K + 1e-10 * scale * np.eye(n), lower=True)

    def objective(at: Array) -> tuple[float, Array]:
        a, b = (at[:-1], at[-1]) if bias else (at, 0.0)
        f = L @ a + b
        slope = loss.slope(y, f)
        inner = penalty * a + L.T @ slope
        value = 0.5 * penalty * float(a @ a) + float(np.sum(loss.value(y, f)))
        return value, np.append(inner, slope.sum()) if bias else inner

    def same(f: Array, g: Array) -> bool:
        return bool(np.max(np.abs(f - g)) < APART * np.max(np.abs(f)))

    rng = np.random.default_rng(seed)
    starts = [np.zeros(n)] + [minimise(K, y, Squared(), s * scale).weights @ L for s in (0.01, 0.1, 1.0)]
    starts += list(rng.normal(size=(STARTS, n)) / np.sqrt(penalty))
    found: list[tuple[Minimum, Array]] = []
    for start in starts:
        start = start + 1e-3 * rng.normal(size=n)  # off any saddle
        begin = np.append(start, np.median(y)) if bias else start
        end = minimize(
            objective, begin, jac=True, method="L-BFGS-B", options=dict(maxiter=5000, maxfun=10000)
        )
        a, b = (end.x[:-1], float(end.x[-1])) if bias else (end.x, 0.0)
        f = L @ a + b
        size = abs(float(end.fun)) + 1.0
        if any(abs(m.objective - end.fun) < APART * size and same(f, g) for m, g in found):
            continue
        weights = -loss.slope(y, f) / penalty
        found.append((Minimum(weights, b, float(end.fun), np.nan, bool(end.success)), f))
    return [m for m, _ in sorted(found, key=lambda pair: pair[0].objective)]


# ------------------------------------------------------------------------------------------ estimators


class Regularised(RegressorMixin, BaseEstimator):
    """The function f, and with `bias` an offset, that minimises penalty |f|^2 / 2 + sum loss(y_i, f(x_i)),
    |f| its norm in the kernel's Hilbert space (6.8), for any loss.

    It is the mode of a GP's posterior where the loss is -log p(y | f) and penalty is 1. Squared loss: mean
    and mode are one, and `GPRegressor` has the uncertainty with it. Other convex losses have one minimum.
    Those that are not convex may have several: the lowest that was found is taken, with a warning; better
    average over all of f, as `GPRegressor` does. No loss gives an uncertainty, or evidence to
    choose its numbers by.

    kernel: kernel, str or None. None is `kernels.SE(1.0)`
    loss: str or loss. "squared", "absolute", "pinball", "huber", "epsilon-insensitive", or one with its
        setting from `mercer.relatives.losses`, or of your own (`losses.AbstractLoss`)
    penalty: float. Its weight; the noise variance of `KernelRidge`, 1 / C of support vectors
    bias: bool. Whether there is an offset, which is not penalised
    tol: float. Of the duality gap, relative to the objective. max_iterations: int, Newton steps at most

    function_: `KernelFunction`, f without its offset `bias_`. objective_: its value of the above.
        duality_gap_: how far that may be above the minimum; NaN of losses that are not convex
    converged_: whether the gap is within `tol`. modes_: all minima that were found (`Minimum`), the lowest
        first

    >>> model = Regularised(kernels.SE(0.5), losses.Pinball(0.9), penalty=0.1).fit(X, y)
    >>> model.predict(Xs), model.duality_gap_
    """

    def __init__(
        self,
        kernel: AbstractKernel | str | None = None,
        loss: str | AbstractLoss = "squared",
        penalty: float = 1.0,
        bias: bool = True,
        tol: float = 1e-6,
        max_iterations: int = 200,
        random_state: int = 0,
    ):
        self.kernel = kernel
        self.loss = loss
        self.penalty = penalty
        self.bias = bias
        self.tol = tol
        self.max_iterations = max_iterations
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Regularised:
        """Find the minimiser for targets y (n,) at X (n, d)."""
        inputs, targets = training_data(self, X, y)
        loss = _checked(self.loss, self.penalty)
        if loss.labels and not np.isin(targets, (-1.0, 1.0)).all():
            raise ValueError(f"{loss} is of labels -1 and 1: use RegularisedClassifier.")
        kernel = SE(1.0) if self.kernel is None else read_kernel(self.kernel, "Regularised")
        K = kernel(inputs)
        if loss.convex:
            self.modes_ = [minimise(K, targets, loss, self.penalty, self.bias, self.tol, self.max_iterations)]
        else:
            self.modes_ = modes(K, targets, loss, self.penalty, self.bias, self.random_state)
        best = self.modes_[0]
        self.loss_ = loss
        self.function_, self.bias_ = KernelFunction(kernel, inputs, best.weights), best.bias
        self.objective_, self.duality_gap_ = best.objective, best.gap
        self.converged_ = best.converged
        self._warn()
        return self

    def predict(self, X: ArrayLike) -> Array:
        """f at X (m, d): (m,)."""
        inputs = test_inputs(self, X)
        return self.function_(inputs) + self.bias_

    def summary(self) -> str:
        """What was found, how near it is to the optimum, and how a GP sees it."""
        if isinstance(self.loss_, Squared):
            view = "The posterior mean of a GP, which is its mode; GPRegressor has the uncertainty with it."
        elif self.loss_.convex:
            view = "The mode of a posterior with one mode; its mean is another function, GPRegressor's."
        else:
            values = ", ".join(f"{m.objective:.5g}" for m in self.modes_)
            view = (
                f"The lowest of {len(self.modes_)} minima ({values}): rather average over f, by GPRegressor."
            )
        gap = "" if np.isnan(self.duality_gap_) else f", duality gap {self.duality_gap_:.2g}"
        return f"{self.loss_}, penalty {self.penalty:g}: objective {self.objective_:.6g}{gap}\n{view}"

    def _warn(self) -> None:
        if len(self.modes_) > 1:
            warnings.warn(
                f"{self.loss_} is not convex, and {len(self.modes_)} minima were found (`modes_`): the "
                "lowest is taken. GPRegressor averages over f instead of choosing one.",
                stacklevel=3,
            )
        if not self.converged_:
            warnings.warn(
                f"the fit stopped with a duality gap of {self.duality_gap_:.2g} of {self.objective_:.4g}: "
                "raise max_iterations or tol.",
                ConvergenceWarning,
                stacklevel=3,
            )


class RegularisedClassifier(AbstractMachineClassifier):
    """The same of labels: penalty |f|^2 / 2 + sum loss(y_i f(x_i)), y = +-1, of several classes by problems
    of two.

    With the logistic or the probit loss f is the mode of a GP classifier (6.38), which `GPClassifier` with
    inference="laplace" has, with its uncertainty; with the hinge loss it is a support vector machine (6.37),
    which `SVC` finds faster; with the squared loss it is least-squares classification.

    kernel, penalty, bias, tol, max_iterations: as in `Regularised`
    loss: str or loss. "logistic", "probit", "hinge", "squared", or one of `mercer.relatives.losses`
    multi_class, link, regularise, folds, random_state, and what is fitted: as in `SVC`

    >>> RegularisedClassifier(kernels.SE(0.5), loss="probit", link="probit").fit(X, labels).predict_proba(Xs)
    """

    def __init__(
        self,
        kernel: AbstractKernel | str | None = None,
        loss: str | AbstractLoss = "logistic",
        penalty: float = 1.0,
        bias: bool = True,
        multi_class: Scheme = "one-vs-rest",
        link: Literal["logit", "probit"] | None = None,
        regularise: bool = True,
        folds: int = 5,
        tol: float = 1e-6,
        max_iterations: int = 200,
        random_state: int = 0,
    ):
        self.kernel = kernel
        self.loss = loss
        self.penalty = penalty
        self.bias = bias
        self.multi_class = multi_class
        self.link = link
        self.regularise = regularise
        self.folds = folds
        self.tol = tol
        self.max_iterations = max_iterations
        self.random_state = random_state

    def _chosen(self, inputs: Array, index: Indices, parts: list[Indices]) -> tuple[AbstractKernel, Trainer]:
        loss = _checked(self.loss, self.penalty)
        if not loss.convex:
            raise ValueError(f"{loss} is not convex: RegularisedClassifier takes convex losses.")

        def train(K: Array, y: Array) -> tuple[Array, float, float, float]:
            m = minimise(K, y, loss, self.penalty, self.bias, self.tol, self.max_iterations)
            if not m.converged:
                warnings.warn(
                    f"a fit stopped with a duality gap of {m.gap:.2g} of {m.objective:.4g}: raise "
                    "max_iterations or tol.",
                    ConvergenceWarning,
                    stacklevel=5,
                )
            return m.weights, m.bias, m.objective, m.gap

        kernel = SE(1.0) if self.kernel is None else read_kernel(self.kernel, "RegularisedClassifier")
        return kernel, each(train)

    def _held_out(self, K: Array, signs: Array, parts: list[Indices], trainer: Trainer) -> Array:
        return held_out(K, signs, parts, trainer)


def _checked(loss: str | AbstractLoss, penalty: float) -> AbstractLoss:
    if not penalty > 0:
        raise ValueError(f"penalty must be positive, got {penalty!r}.")
    return read_loss(loss)
