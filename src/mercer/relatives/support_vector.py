"""Support vector machines (GPML 6.4) on our kernels, by scikit-learn's libsvm on the matrix of covariances;
how far they are from their optimum is shown by the duality gap.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import LinAlgError, LinAlgWarning, solve
from sklearn import svm
from sklearn.base import BaseEstimator, RegressorMixin

from mercer.kernels import AbstractKernel
from mercer.relatives.checks import Array, Indices, test_inputs, training_data
from mercer.relatives.machines import AbstractMachineClassifier, Machines, Scheme, Trainer, each, held_out
from mercer.relatives.protocol import stratified_folds
from mercer.relatives.rkhs import KernelFunction
from mercer.relatives.settings import kernel_family, lengthscale_start, settled

HARD = 1e5  # C of a hard margin, in units of 1 / mean k(x, x)
ROUGH = 1e-3  # tolerance of libsvm while settings are looked for, its own default
ROUNDS = 20  # of solving for the weights between their bounds, at most
OFF = 1e-9  # by which f misses its target where a weight at its bound pulls the wrong way
NOTHING = 1e-14  # of the objective


class SVC(AbstractMachineClassifier):
    """Classification by the function f and offset that minimise |f|^2 / 2 + C sum max(1 - y_i f(x_i), 0), y
    = +-1 (6.36), of several classes by problems of two.

    Settings that are not given have the fewest errors in cross-validation, on a grid that moves until its
    optimum is inside (`search_grid`). Probabilities, where a `link` is given, come from scores of rows left
    out (`PlattScaling`); a `GPClassifier` has them from the model itself, and evidence in place of
    cross-validation.

    kernel: kernel, str or None. None is an SE, its length-scale in standard deviations of the columns chosen
        by cross-validation. Kernels with numbers to choose: scikit-learn's `GridSearchCV` over "kernel"
    C: float or None. What an error costs. None chooses it; inf is the hard margin, of classes that can be
        separated (6.33)
    multi_class: "one-vs-one", "one-vs-rest" or "error-correcting"
    link: None, "logit" (Platt) or "probit" (GPML 3.7.3). How scores become probabilities, which takes `folds`
        more fits; None gives none
    regularise: bool. Of `PlattScaling`
    folds: int. Parts of the cross-validation, of settings and of probabilities
    refinements: int. How often the grid, at first of factors of 10, is replaced by one of the square root
    tol: float. To which libsvm satisfies the conditions of the optimum
    random_state: int. Seed of the folds, and of random codes

    classes_, kernel_, C_: what is used. lengthscale_: in standard deviations of the columns, where chosen.
    errors_: share of errors in the cross-validation; NaN where nothing was chosen. interior_: bool, False
        where the grid met its limits
    functions_: a list of `KernelFunction`, one for each problem of two; machines_: their weights and offsets
        (`Machines`). codes_: (C, J), which classes are 1 and -1 in them
    support_: rows with a weight in any of them. margins_: (J,), 1 / |f|, the distance from the boundary to
        where |f| = 1. duality_gap_: the largest of the problems, `objective` less its lower bound

    >>> machine = SVC(kernels.SE(0.5), C=10.0, link="logit").fit(X, labels)
    >>> machine.predict_proba(Xs), machine.support_, machine.duality_gap_
    """

    def __init__(
        self,
        kernel: AbstractKernel | str | None = None,
        C: float | None = None,
        multi_class: Scheme = "one-vs-one",
        link: str | None = None,
        regularise: bool = True,
        folds: int = 5,
        refinements: int = 1,
        tol: float = 1e-6,
        random_state: int = 0,
    ):
        self.kernel = kernel
        self.C = C
        self.multi_class = multi_class
        self.link = link
        self.regularise = regularise
        self.folds = folds
        self.refinements = refinements
        self.tol = tol
        self.random_state = random_state

    @property
    def margins_(self) -> Array:
        """1 / |f| of each problem of two classes, (J,)."""
        return np.array([1.0 / f.norm for f in self.functions_])

    def summary(self) -> str:
        """What was found, and how near it is to the optimum."""
        chosen = "" if np.isnan(self.errors_) else f", {100 * self.errors_:.1f} % wrong in cross-validation"
        return (
            f"{len(self.support_)} support vectors of {len(self.points_)} rows, kernel "
            f"{self.kernel_.formula()}, C = {self.C_:.4g}{chosen}\nduality gap {self.duality_gap_:.2g} of an "
            f"objective of {self.objective_:.6g}"
        )

    def _chosen(self, inputs: Array, index: Indices, parts: list[Indices]) -> tuple[AbstractKernel, Trainer]:
        if self.C is not None and not self.C > 0:
            raise ValueError(f"C must be positive, or None to choose it, got {self.C!r}.")
        kernel_of = kernel_family(self.kernel, inputs, "SVC")

        def errors(settings: dict[str, float]) -> float:
            return self._errors(kernel_of(settings)(inputs), index, parts, _classifying(settings["C"], ROUGH))

        starts = {"C": (self.C, 1.0)} | lengthscale_start(self.kernel, inputs)
        found = settled(errors, starts, self.refinements, 0.0)
        self.errors_, self.interior_, self.C_ = found.score, found.interior, found.values["C"]
        self.lengthscale_ = found.values.get("lengthscale")
        return kernel_of(found.values), _classifying(self.C_, self.tol)

    def _held_out(self, K: Array, signs: Array, parts: list[Indices], trainer: Trainer) -> Array:
        return held_out(K, signs, parts, trainer)


class SupportVectorRegression(RegressorMixin, BaseEstimator):
    """Regression by the function f and offset that minimise |f|^2 / 2 + C sum max(|y_i - f(x_i)| - epsilon,
    0) (6.41): targets off by less than epsilon cost nothing, and wild ones no more than their distance.

    Settings that are not given have the lowest cross-validated loss, on a grid that moves until its optimum
    is inside and is then refined (`search_grid`), as in Kuss 5.6. There is no uncertainty; a GP with
    `likelihoods.EpsilonInsensitive` noise has the same loss, and some.

    kernel: kernel, str or None. None is an SE, its length-scale in standard deviations of the columns chosen
    C, epsilon: float or None. The cost of residuals, and those that are free, in units of y. None chooses
    folds: int. Stratified folds of the cross-validation
    loss: "mae" or "mse". What the cross-validation minimises
    refinements: int. How often the spacing of the grid, at first a factor of 10, is replaced by its square
        root
    tol: float. To which libsvm satisfies the conditions of the optimum, in standard deviations of y
    random_state: int. Seed of the folds

    kernel_, C_, epsilon_: what is used; C and epsilon in units of y. lengthscale_: in standard deviations of
        the columns, where it was chosen
    loss_: float, cross-validated, in units of y (squared for "mse"); NaN where nothing was chosen
    interior_: bool, False where the grid met its limits
    function_: `KernelFunction`, f without its offset `bias_`. support_: rows with a weight, which are those
        off by epsilon or more
    objective_, duality_gap_: its value, in squared units of y, and how far it may be above the minimum

    >>> SupportVectorRegression().fit(X, y).predict(Xs)
    >>> SupportVectorRegression(kernels.Matern(1.0), C=10.0, epsilon=0.1).fit(X, y).duality_gap_
    """

    def __init__(
        self,
        kernel: AbstractKernel | str | None = None,
        C: float | None = None,
        epsilon: float | None = None,
        folds: int = 5,
        loss: str = "mae",
        refinements: int = 1,
        tol: float = 1e-6,
        random_state: int = 0,
    ):
        self.kernel = kernel
        self.C = C
        self.epsilon = epsilon
        self.folds = folds
        self.loss = loss
        self.refinements = refinements
        self.tol = tol
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> SupportVectorRegression:
        """Choose the settings and fit inputs X (n, d), targets y (n,)."""
        self._check_settings()
        inputs, targets = training_data(self, X, y)
        n = len(targets)
        if n < 2:
            raise ValueError(f"cross-validation needs at least 2 rows; X has n_samples = {n}.")
        centre, unit = float(targets.mean()), float(np.std(targets)) or 1.0
        centred = (targets - centre)[:, None]
        parts = stratified_folds(targets, min(self.folds, n), self.random_state)
        kernel_of = kernel_family(self.kernel, inputs, "SupportVectorRegression")

        def score(settings: dict[str, float]) -> float:
            trainer = _regressing(settings["C"], settings["epsilon"], ROUGH, unit)
            errors = centred - held_out(kernel_of(settings)(inputs), centred, parts, trainer)
            return float(np.mean(np.abs(errors) if self.loss == "mae" else errors**2))

        starts = {"C": (self.C, unit), "epsilon": (self.epsilon, 0.1 * unit)}
        found = settled(score, starts | lengthscale_start(self.kernel, inputs), self.refinements, 1e-3)
        self.C_, self.epsilon_ = found.values["C"], found.values["epsilon"]
        self.lengthscale_ = found.values.get("lengthscale")
        self.loss_, self.interior_ = found.score, found.interior
        self.kernel_ = kernel_of(found.values)
        machine = _regressing(self.C_, self.epsilon_, self.tol, unit)(self.kernel_(inputs), centred)
        self.function_ = KernelFunction(self.kernel_, inputs, machine.weights[:, 0])
        self.bias_ = centre + float(machine.bias[0])
        self.support_ = np.flatnonzero(machine.weights[:, 0])
        self.objective_, self.duality_gap_ = float(machine.objective[0]), float(machine.gap[0])
        return self

    def predict(self, X: ArrayLike) -> Array:
        """Predicted targets (n,)."""
        inputs = test_inputs(self, X)
        return self.function_(inputs) + self.bias_

    def _check_settings(self) -> None:
        if self.loss not in ("mae", "mse"):
            raise ValueError(f"loss must be 'mae' or 'mse', got {self.loss!r}.")
        if self.C is not None and not self.C > 0:
            raise ValueError(f"C must be positive, or None to choose it, got {self.C!r}.")
        if self.epsilon is not None and not self.epsilon >= 0:
            raise ValueError(f"epsilon must not be negative, or None to choose it, got {self.epsilon!r}.")


# ------------------------------------------------------------------------------------------ libsvm


def _classifying(C: float, tol: float) -> Trainer:
    """Support vector classification of labels +-1 in each column."""

    def train(K: Array, y: Array) -> tuple[Array, float, float, float]:
        hard = np.isinf(C)
        cost = HARD / float(np.mean(np.diag(K))) if hard else C
        machine = svm.SVC(C=cost, kernel="precomputed", tol=tol).fit(K, y)

        def aim(f: Array) -> tuple[Array, Array]:
            return y, y

        def judge(f: Array, weights: Array) -> tuple[float, float]:
            return float(np.sum(np.maximum(1.0 - y * f, 0.0))), float(np.sum(np.abs(weights)))

        problem = _Problem(K, cost, aim, judge)
        found = problem.polished(machine, tol)
        if hard and np.max(np.abs(found[0])) > 0.99 * cost:
            raise ValueError(
                "C = inf is for classes that the kernel's functions can separate, and these overlap: give a "
                "finite C, or None to choose it."
            )
        return found

    return each(train)


def _regressing(C: float, epsilon: float, tol: float, unit: float) -> Trainer:
    """Support vector regression of targets, which libsvm sees in these units."""

    def trainer(K: Array, targets: Array) -> Machines:
        y = targets[:, 0] / unit
        cost, free = C / unit, epsilon / unit
        machine = svm.SVR(C=cost, epsilon=free, kernel="precomputed", tol=tol).fit(K, y)

        def aim(f: Array) -> tuple[Array, Array]:
            sign = np.where(y > f, 1.0, -1.0)
            return sign, y - free * sign

        def judge(f: Array, weights: Array) -> tuple[float, float]:
            loss = np.sum(np.maximum(np.abs(y - f) - free, 0.0))
            return float(loss), float(y @ weights - free * np.sum(np.abs(weights)))

        weights, bias, objective, gap = _Problem(K, cost, aim, judge).polished(machine, tol)
        rest = np.array([[unit * bias], [unit**2 * objective], [unit**2 * gap]])
        return Machines(unit * weights[:, None], *rest)

    return trainer


@dataclasses.dataclass(frozen=True, eq=False)
class _Problem:
    """min |f|^2 / 2 + C sum loss(f_i), f = K weights + bias, and what libsvm found for it.

    aim: f (n,) -> the signs (n,) that weights may have, and the values (n,) of f up to which they pull
    judge: f and weights -> the sum of losses, and what the dual objective has beside -|f|^2 / 2
    """

    K: Array
    C: float
    aim: Callable[[Array], tuple[Array, Array]]
    judge: Callable[[Array, Array], tuple[float, float]]

    def polished(self, machine: Any, tol: float) -> tuple[Array, float, float, float]:
        """Weights, bias, objective and duality gap. libsvm reads covariances in single precision: where a
        smaller gap is asked for, the weights that it found between their bounds are solved for again.
        """
        weights = np.zeros(len(self.K))
        weights[machine.support_] = machine.dual_coef_[0]
        best = self._judged(weights, float(machine.intercept_[0]))
        if tol >= ROUGH:
            return best
        now = best
        for _ in range(ROUNDS):
            again = self._solved(*now[:2])
            if again is None:
                break
            now = self._judged(*again)
            best = min(best, now, key=lambda found: found[3])
            if best[3] <= NOTHING * abs(best[2]):
                break
        return best

    def _judged(self, weights: Array, bias: float) -> tuple[Array, float, float, float]:
        smooth = self.K @ weights
        loss, gain = self.judge(smooth + bias, weights)
        size, farthest = float(weights @ smooth), abs(bias) + float(np.max(np.abs(smooth)))
        primal = 0.5 * size + self.C * loss
        # weights that do not sum to zero are no point of the dual, unless offsets are bounded
        return weights, bias, primal, primal - gain + 0.5 * size + farthest * abs(float(weights.sum()))

    def _solved(self, weights: Array, bias: float) -> tuple[Array, float] | None:
        """Weights between their bounds from the values that f has there, the others where they are; those
        that pull the wrong way are let go first.
        """
        f = self.K @ weights + bias
        sign, target = self.aim(f)
        size, short = np.clip(sign * weights, 0.0, self.C), sign * (target - f)
        inside = (size > 0) & (size < self.C)
        inside |= ((size == 0) & (short > OFF)) | ((size == self.C) & (short < -OFF))
        at = np.flatnonzero(inside)
        if not at.size:
            return None
        fixed = np.where(inside, 0.0, sign * size)
        system = np.ones((len(at) + 1, len(at) + 1))
        system[:-1, :-1], system[-1, -1] = self.K[np.ix_(at, at)], 0.0
        right = np.append((target - self.K @ fixed)[at], -fixed.sum())
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", LinAlgWarning)
                found = solve(system, right, assume_a="sym")
        except LinAlgError:
            return None
        fixed[at] = sign[at] * np.clip(sign[at] * found[:-1], 0.0, self.C)
        return fixed, float(found[-1])
