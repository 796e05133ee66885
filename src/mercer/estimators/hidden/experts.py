"""Regression by a mixture of Gaussian processes, as a scikit-learn estimator: for jumps,
and for several regimes.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from mercer.distributed import Parallel
from mercer.em import GPExperts, em
from mercer.em.experts import ConditionedExperts
from mercer.em.gates import GATES
from mercer.estimators import defaults
from mercer.estimators.base import read_kernel
from mercer.estimators.hidden import words
from mercer.estimators.hidden.shared import generator, names_of, warn_unless_converged
from mercer.estimators.shared_work import AbstractShared
from mercer.gp import GP, Model
from mercer.inputs import Inputs, as_inputs, as_targets
from mercer.kernels import AbstractKernel
from mercer.likelihoods import Gaussian
from mercer.means import Constant
from mercer.params import fixed
from mercer.persist import AbstractSavable
from mercer.progress import Progress, shown
from mercer.report import AbstractReported, Report
from mercer.report.reported import keeps_its_data


class GPMixture(RegressorMixin, AbstractShared, AbstractSavable, AbstractReported):
    """A mixture of Gaussian-process experts: y follows one of several functions, each with hyperparameters
    and noise of its own, and a gate says which is likely where. For functions that jump or change their
    character, and for several regimes at once.

    n_experts: how many; one is a `GPRegressor`
    kernel: that every expert starts from, or its formula; None: an ARD Matern 5/2 under weak priors
    gating: "softmax", regions with boundaries of second order in x; "gp", regions of any shape, by Gaussian
        processes; "constant", the same everywhere, for curves that overlap
    restarts: starts beyond the first, alternately from groups in (x, y) and in x; the best bound is kept
    max_evaluations, tol: M-steps for each start, and the relative gain of the bound below which a start has
        converged
    random_state: seed of the starts
    parallel: who climbs from the starts: None (this process, one after the other), a number of processes, or
        a `dask.distributed.Client`; what is learned does not depend on it

    Learned: responsibilities_ (n, K), of each expert for each row; experts_
    (`mercer.em.ConditionedExperts`), its `experts` and `gate`; model_, lower_bound_ (of the log evidence,
    with priors), history_, converged_, n_iter_.

    >>> model = GPMixture(n_experts=2).fit(X, y)
    >>> mean, std = model.predict(X, return_std=True)
    >>> low, high = model.predict_interval(X)                # quantiles of the mixture
    >>> model.predict_gate(X)                                # gate, (n, 2)
    """

    _experts: ConditionedExperts | None

    def __init__(
        self,
        n_experts: int = 2,
        kernel: str | AbstractKernel | None = None,
        *,
        gating: Literal["softmax", "gp", "constant"] = "softmax",
        restarts: int = 3,
        max_evaluations: int = 50,
        tol: float = 1e-5,
        random_state: int | np.random.RandomState | None = 0,
        progress: Progress = None,
        parallel: Parallel = None,
    ):
        self.n_experts = n_experts
        self.kernel = kernel
        self.gating = gating
        self.restarts = restarts
        self.max_evaluations = max_evaluations
        self.tol = tol
        self.random_state = random_state
        self.progress = progress
        self.parallel = parallel

    # -- learning --------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any) -> GPMixture:
        """Learn from y (n,) at X (n, d)."""
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        y = np.asarray(y, np.float64)
        if self.gating not in GATES:
            raise ValueError(f"gating must be one of {sorted(GATES)}, got {self.gating!r}.")
        if not 1 <= self.n_experts <= len(X) or int(self.n_experts) != self.n_experts or self.restarts < 0:
            raise ValueError(
                f"n_experts must be a whole number from 1 to n_samples = {len(X)} and restarts at least 0."
            )
        rng = generator(self.random_state)
        starts = [
            lambda seed=seed, i=i: self._start(X, y, ("both", "x")[i % 2], np.random.default_rng(seed))
            for i, seed in enumerate(
                rng.integers(2**31, size=1 if self.n_experts == 1 else 1 + self.restarts)
            )
        ]
        outcome = em(
            starts,
            [(X, y)],
            max_evaluations=self.max_evaluations,
            tol=self.tol,
            slack=1e-6,
            progress=self.progress,
            parallel=self.parallel,
        )
        self._take(
            outcome.model, X, y, outcome.objective, outcome.path(), outcome.converged, outcome.iterations
        )
        self._experts = self.experts_  # `predict` changes nothing
        warn_unless_converged(outcome, self.tol)
        return self

    def _start(self, X: np.ndarray, y: np.ndarray, by: str, rng: np.random.Generator) -> GPExperts:
        scale = defaults.target_scale(y)
        kernel = read_kernel(self.kernel)
        noise = defaults.default_noise(scale) if kernel is None else defaults.NOISE_SHARE * scale**2
        gp = GP(kernel or defaults.default_kernel(X, scale), Constant(fixed(float(np.mean(y)))))
        expert = Model(gp, Gaussian(noise))
        gate = GATES[self.gating].start(X, int(self.n_experts))
        if self.n_experts == 1:
            return GPExperts((expert,), gate, np.ones((len(X), 1)), steps=50)
        return GPExperts.around(X, y, (expert,) * int(self.n_experts), gate, rng, by)

    def _take(self, model: GPExperts, X, y, bound: float, history, converged: bool, iterations: int) -> None:
        self.model_ = model
        self._data = (X, y)
        self._experts = None
        self.lower_bound_, self.history_, self.converged_, self.n_iter_ = (
            bound,
            np.asarray(history),
            converged,
            max(1, iterations),
        )

    @property
    def experts_(self) -> ConditionedExperts:
        """The posterior of all experts; of a saved model conditioned when it is first asked for."""
        check_is_fitted(self)
        if self._experts is None:
            X, y = self._data
            with shown("conditioning"):
                self._experts = self.model_.condition(Inputs(X), y)
        return self._experts

    @property
    def responsibilities_(self) -> np.ndarray:
        """Probability (n, K) that each expert made each datum."""
        return self.experts_.responsibilities

    # -- predictions -----------------------------------------------------------------------------------------

    def predict(self, X: Any, return_std: bool = False) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Mean (m,) of y under the mixture, and with it the standard deviation (m,)."""
        X = self._inputs(X)
        mean, std = self.experts_.mean_and_std(X)
        return (mean, std) if return_std else mean

    def predict_quantile(self, X: Any, q: ArrayLike) -> np.ndarray:
        """Quantiles of y: (m,) for one q, (m, len(q)) for several."""
        X = self._inputs(X)
        return self.experts_.quantile(X, q)

    def predict_interval(self, X: Any, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends, each (m,), of the central interval that holds y with probability `level`."""
        if not 0 < level < 1:
            raise ValueError(f"level must lie strictly between 0 and 1, got {level}.")
        ends = self.predict_quantile(X, [0.5 - 0.5 * level, 0.5 + 0.5 * level])
        return ends[:, 0], ends[:, 1]

    def log_density(self, X: Any, y: Any) -> np.ndarray:
        """Log predictive density (m,) of each target."""
        X = self._inputs(X)
        return self.experts_.log_density(X, y)

    def predict_density(self, X: Any, grid: ArrayLike) -> np.ndarray:
        """Predictive density of y (m, len(grid)) at the values `grid`: it may have several peaks."""
        X = self._inputs(X)
        return self.experts_.density(X, grid)

    def predict_gate(self, X: Any) -> np.ndarray:
        """Probability (m, K) of each expert at X, before y is seen."""
        X = self._inputs(X)
        return self.experts_.parts(X)[0]

    def predict_experts(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of y, (m, K) each, of every expert by itself."""
        X = self._inputs(X)
        _, means, variances = self.experts_.parts(X)
        return means, np.sqrt(variances)

    def summary(self) -> str:
        """How much of the data each expert made, how surely, and how noisy it is, as text."""
        check_is_fitted(self)
        return words.experts(self)

    def _told(self, budget: float | str, X: Any) -> Report:
        from mercer.estimators.reports.others import experts_told

        keeps_its_data(X)
        return experts_told(self)

    def _learned(self) -> dict[str, Any]:
        X, y = self._data
        return {
            "model": self.model_, "X": X, "y": y, "bound": self.lower_bound_, "history": self.history_,
            "converged": self.converged_, "iterations": self.n_iter_, "names": names_of(self),
        }  # fmt: skip

    def _relearn(self, found: dict[str, Any]) -> None:
        X, y = as_inputs(found["X"]).values, found["y"]
        model = found["model"]
        if not isinstance(model, GPExperts) or len(model.responsibilities) != len(X):
            raise TypeError("the model is not a GPExperts of these data")
        if not isinstance(model.gate, tuple(GATES.values())):
            raise TypeError("the model has no gate")
        self.n_features_in_ = X.shape[1]
        if found["names"] is not None:
            self.feature_names_in_ = np.array(found["names"], dtype=object)
        self._take(
            model,
            X,
            as_targets(y, len(X)),
            float(found["bound"]),
            found["history"],
            bool(found["converged"]),
            int(found["iterations"]),
        )

    def _inputs(self, X) -> np.ndarray:
        check_is_fitted(self)
        return validate_data(self, X, reset=False, dtype=np.float64)
