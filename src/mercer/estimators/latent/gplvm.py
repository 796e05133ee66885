"""The Gaussian-process latent variable model with scikit-learn's interface: few numbers for each row of a
table, and smooth functions from them to its columns.
"""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from mercer.conditioned import AbstractSubject, LatentSpace
from mercer.distributed import Parallel
from mercer.estimators.base import read_kernel
from mercer.estimators.hidden.shared import generator, names_of
from mercer.estimators.latent.shared import name_columns, numbers_of, units_of, whole
from mercer.estimators.shared_work import AbstractShared
from mercer.kernels import SE, AbstractKernel
from mercer.latent import bayesian, mode
from mercer.latent.learn import Learned, learn, of_rows
from mercer.latent.mapping import Mapping, predict, shares
from mercer.latent.rows import locate, spread
from mercer.latent.table import grouped, principal_points
from mercer.params import fixed, strip
from mercer.persist import AbstractSavable
from mercer.processes import check_fork
from mercer.progress import Progress, shown
from mercer.registry import unknown
from mercer.report import AbstractReported, Report
from mercer.report.reported import keeps_its_data
from mercer.tables import text_table

METHODS = ("bayesian", "map")
NOISE = 0.1  # share of the variance at the start
RELEVANT = 0.01  # of the most relevant latent column: below, a column is not used


class GPLVM(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, AbstractShared, AbstractSubject, AbstractSavable,
    AbstractReported,
):  # fmt: skip
    """Each row of a table by a point x in a few latent dimensions, each column a Gaussian process of x plus
    noise: principal components with curved surfaces in place of planes (Lawrence 2005).

    n_components: how many latent dimensions. Those that are not needed are switched off, by their
        length-scales ("bayesian") or by the prior of the points ("map"); `relevance_` shows which are left
    method: "bayesian" integrates the points out and climbs a lower bound of the evidence (Titsias and
        Lawrence 2010): n m^2 operations an evaluation, and every point has its uncertainty. "map" finds the
        most probable points: n^3 operations, any kernel
    kernel: covariance function over the latent dimensions; None: SE, with a length-scale for each dimension
        ("bayesian"), or with a length-scale of one ("map", where points and length-scales could shrink
        together: hold those of your own kernel by `mercer.fixed`). "bayesian" takes SE only;
        `kernels.Linear(fixed(1.0))` with "map" is probabilistic principal component analysis
    m: of "bayesian": how many inducing inputs, as in `solvers.VFE`; at most the number of rows
    standardise: whether columns are divided by their standard deviations. False: all by one number. The
        columns' means are subtracted either way
    restarts: random starts besides the one from principal components; the best end is kept
    max_evaluations: of the objective, for each start; 0 learns nothing
    random_state: seed of the choice of inducing inputs and of random starts
    progress: None shows a line in terminals after a second, True always, False never
    parallel: who climbs from the starts: None (this process, one after the other), a number of processes, or
        a `dask.distributed.Client`; what is learned does not depend on it

    NaN is an empty cell, in `fit` and in `transform`. What is known of it is what the other cells of its row
    say: the columns that are observed in the same rows share one factorisation, so the cost grows with the
    number of different patterns of columns.

    Learned: embedding_ and embedding_std_ (n, q), points and their standard deviations, the most relevant
    columns first; relevance_ (q,), shares of the columns' effects, which sum to one; n_relevant_, how many
    are above 1 % of the largest; kernel_ and noise_variance_ of the standardised table; objective_, the lower
    bound of log p(table), or log p(table, points) for "map", in nats; history_, the best objective after
    each evaluation; converged_, n_iter_; mean_ and scale_ (d,) of the columns.

    >>> model = GPLVM(n_components=2).fit(X)
    >>> model.embedding_, model.relevance_
    >>> points, std = model.transform(X_new, return_std=True)
    >>> rows, std = model.inverse_transform(points, return_std=True)     # fills empty cells, too
    >>> viz.latent_space(model, labels=species)
    """

    def __init__(
        self,
        n_components: int = 2,
        method: Literal["bayesian", "map"] = "bayesian",
        *,
        kernel: AbstractKernel | str | None = None,
        m: int = 50,
        standardise: bool = True,
        restarts: int = 0,
        max_evaluations: int = 1000,
        random_state: int | np.random.RandomState | None = 0,
        progress: Progress = None,
        parallel: Parallel = None,
    ):
        self.n_components = n_components
        self.method = method
        self.kernel = kernel
        self.m = m
        self.standardise = standardise
        self.restarts = restarts
        self.max_evaluations = max_evaluations
        self.random_state = random_state
        self.progress = progress
        self.parallel = parallel

    # -- learning --------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> GPLVM:
        """Learn from rows X (n, d); NaN is an empty cell. y is ignored."""
        check_fork()
        self._check_settings()
        X = validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan", ensure_min_samples=2)
        kernel = self._kernel()
        self.mean_, self.scale_ = units_of(X, self.standardise)
        rows = (X - self.mean_) / self.scale_
        found = self._climb(kernel, rows)
        objective = found.objective - float(np.sum(~np.isnan(X) * np.log(self.scale_)))
        arrays = found.arrays
        std = np.exp(0.5 * arrays[1]) if self.method == "bayesian" else None
        self._take(
            rows, found.kernel, found.noise_variance, arrays[0], std,
            arrays[2] if self.method == "bayesian" else None,
        )  # fmt: skip
        self._order()
        self.objective_, self.history_ = objective, found.history - found.objective + objective
        self.converged_, self.n_iter_ = found.converged, len(found.history)
        if not found.converged:
            from mercer.learning.unconverged import UnconvergedWarning

            warnings.warn(
                f"the GPLVM has not converged: {found.message}. Raise max_evaluations.",
                UnconvergedWarning,
                stacklevel=2,
            )
        return self

    def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:
        """Fit, and the latent points (n, q) of the rows."""
        return self.fit(X).embedding_.copy()

    def _check_settings(self) -> None:
        if self.method not in METHODS:
            raise ValueError(unknown("method", self.method, METHODS))
        for name, least in (("n_components", 1), ("m", 1), ("restarts", 0), ("max_evaluations", 0)):
            whole(getattr(self, name), name, least)

    def _kernel(self) -> Any:
        q, given = self.n_components, read_kernel(self.kernel)
        if given is None:
            given = SE(np.full(q, np.sqrt(q))) if self.method == "bayesian" else SE(fixed(1.0))
        kernel = given.bind(q)
        if kernel.reads_objects():
            raise ValueError(f"{kernel.formula()} reads objects; latent points are numbers.")
        if self.method == "bayesian" and not (type(kernel) is SE and kernel.loadings is None):
            raise ValueError(
                f'method="bayesian" has closed forms for SE (one length-scale, or one for each dimension), '
                f'not for {kernel.formula()}: use method="map".'
            )
        return kernel

    def _climb(self, kernel: Any, rows: np.ndarray) -> Learned:
        rng, q = generator(self.random_state), self.n_components
        m, points = min(self.m, len(rows)), principal_points(rows, q)
        points += 0.1 * rng.normal(size=points.shape) * (points.std(0) == 0)
        by_map = self.method == "map"
        problem = of_rows(kernel, rows, q, None if by_map else m)
        starts: dict[str, np.ndarray] = {}
        for name in ("principal components", *(f"random {i + 1}" for i in range(self.restarts))):
            X = rng.normal(size=points.shape) if starts else points
            at = (kernel, NOISE, X) if by_map else bayesian.start(kernel, NOISE, X, m, rng)
            starts[name] = problem.vector(*at)
        return learn(problem, starts, self.max_evaluations, self.progress, self.parallel)

    def _take(
        self, rows: np.ndarray, kernel: Any, noise: float, mu: np.ndarray, std: np.ndarray | None,
        Z: np.ndarray | None,
    ) -> None:  # fmt: skip
        """Set what predictions need."""
        self._rows, self.kernel_, self.noise_variance_ = rows, kernel, noise
        self.embedding_, self.inducing_ = mu, Z
        self._mapping: Mapping | None = None
        self.embedding_std_ = np.sqrt(spread(self._map(), rows, mu)) if std is None else std

    def _map(self) -> Mapping:
        """The functions from latent points to the standardised table; made when first asked for."""
        if self._mapping is None:
            table, kernel = grouped(self._rows), strip(self.kernel_)
            if self.inducing_ is None:
                self._mapping = mode.mapping(
                    mode.Points(kernel, self.noise_variance_, self.embedding_), table
                )
            else:
                at = bayesian.Variational(
                    kernel, self.noise_variance_, self.embedding_, 2.0 * np.log(self.embedding_std_),
                    self.inducing_,
                )  # fmt: skip
                self._mapping = bayesian.mapping(at, table)
        return self._mapping

    def _order(self) -> None:
        """The latent columns by relevance, where the kernel is the default one, which may be turned so."""
        self.relevance_ = shares(self._map(), self.embedding_)
        if self.kernel is None:
            order = np.argsort(-self.relevance_, kind="stable")
            self.embedding_, self.embedding_std_ = self.embedding_[:, order], self.embedding_std_[:, order]
            self.inducing_ = None if self.inducing_ is None else self.inducing_[:, order]
            if self.method == "bayesian":
                self.kernel_ = SE(self.kernel_.lengthscale[order], self.kernel_.variance)
            self.relevance_, self._mapping = self.relevance_[order], None

    @property
    def n_relevant_(self) -> int:
        """How many latent columns are used: their relevance is above 1 % of the largest."""
        check_is_fitted(self)
        return int(np.sum(self.relevance_ > RELEVANT * self.relevance_.max()))

    # -- predictions -----------------------------------------------------------------------------------------

    def transform(self, X: Any, return_std: bool = False) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Latent points (k, q) of rows X (k, d), and with `return_std` their standard deviations (k, q).

        NaN is an empty cell. The map is held as it was learned, and each row is located on its own, from the
        training rows most like it; one that was in the training data keeps the point it has there. A row
        without any cell has the prior: zero, with standard deviation one.
        """
        check_is_fitted(self)
        check_fork()
        X = validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan", reset=False)
        rows = (X - self.mean_) / self.scale_
        at = {row.tobytes(): i for i, row in enumerate(self._rows)}
        trained = np.array([at.get(row.tobytes(), -1) for row in rows])
        points, std = self.embedding_[trained], self.embedding_std_[trained]
        if (new := trained < 0).any():
            with shown("locating", self.progress):
                found = locate(
                    self._map(), rows[new], self._rows, self.embedding_, self.embedding_std_**2,
                    self.method == "bayesian",
                )  # fmt: skip
            points[new], std[new] = found[0], np.sqrt(found[1])
        return (points, std) if return_std else points

    def inverse_transform(
        self, X: Any, return_std: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Rows of the table (k, d) predicted at latent points X (k, q), and with `return_std` their standard
        deviations (k, d), noise included, in the units of the columns.
        """
        check_is_fitted(self)
        X = check_array(X, dtype=np.float64)
        if X.shape[1] != self._n_features_out:
            raise ValueError(
                f"latent points have {self._n_features_out} columns here, but X has {X.shape[1]}."
            )
        mean, variance = predict(self._map(), X)
        rows = mean * self.scale_ + self.mean_
        return (rows, np.sqrt(variance + self.noise_variance_) * self.scale_) if return_std else rows

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log density, in nats and the units of the columns, of the cells of rows X (k, d) that are not
        empty, each predicted from the point that its row was placed at. y is ignored.
        """
        points = self.transform(X)
        mean, std = self.inverse_transform(np.asarray(points), return_std=True)
        away = (np.asarray(X, float) - mean) / std
        return float(np.nanmean(-0.5 * away**2 - np.log(std) - 0.5 * np.log(2 * np.pi)))

    @property
    def _n_features_out(self) -> int:
        return self.embedding_.shape[1]

    # -- what is said of it ----------------------------------------------------------------------------------

    def summary(self) -> str:
        """What was learned: the dimensions with their relevance and length-scales, noise, objective."""
        check_is_fitted(self)
        n, d = self._rows.shape
        empty = int(np.isnan(self._rows).sum())
        what = (
            "lower bound of the log evidence" if self.method == "bayesian" else "log density with the points"
        )
        lines = [
            f"GPLVM by {self.method}: {n} rows, {d} columns" + (f", {empty} empty cells" if empty else ""),
            f"{self.n_relevant_} of {self._n_features_out} latent dimensions are used; "
            f"{what} {self.objective_:.3f}",
            f"kernel {self.kernel_.formula()}, "
            f"noise {100 * self.noise_variance_:.3g} % of a column's variance",
        ]
        spread = self.embedding_.std(0)
        rows = [
            [
                str(j),
                f"{self.relevance_[j]:.4f}",
                f"{spread[j]:.3g}",
                f"{self.embedding_std_[:, j].mean():.3g}",
            ]
            for j in range(self._n_features_out)
        ]
        return "\n".join([*lines, *text_table(["dimension", "relevance", "spread", "mean std"], rows)])

    def latent_space(self) -> LatentSpace:
        """For `viz.latent_space`: the points, and the predictive precision as a function of the first two
        dimensions, the others at zero.
        """
        check_is_fitted(self)

        def precision(grid: np.ndarray) -> np.ndarray:
            points = np.zeros((len(grid), self._n_features_out))
            points[:, : grid.shape[1]] = grid[:, : points.shape[1]]
            _, variance = predict(self._map(), points)
            return np.mean(1.0 / (variance + self.noise_variance_), 1)

        return LatentSpace(self.embedding_, self.embedding_std_, precision, "predictive precision")

    def _told(self, budget: float | str, X: Any) -> Report:
        from mercer.estimators.reports.others import latent_told

        keeps_its_data(X)
        check_is_fitted(self)
        facts = [
            ("latent dimensions", f"{self.n_relevant_} used", f"of {self._n_features_out}"),
            ("noise", f"{100 * self.noise_variance_:.3g} %", "of a column's variance"),
            ("climb", "converged" if self.converged_ else "not converged", f"after {self.n_iter_} steps"),
        ]
        return latent_told(self, facts, self.relevance_)

    # -- files -----------------------------------------------------------------------------------------------

    def _learned(self) -> dict[str, Any]:
        return {
            "rows": self._rows, "embedding": self.embedding_, "embedding_std": self.embedding_std_,
            "relevance": self.relevance_, "inducing": self.inducing_, "mean": self.mean_,
            "scale": self.scale_, "kernel": self.kernel_, "noise_variance": self.noise_variance_,
            "objective": self.objective_, "history": self.history_, "converged": self.converged_,
            "names": names_of(self),
        }  # fmt: skip

    def _relearn(self, learned: dict[str, Any]) -> None:
        rows, Z, kernel = np.asarray(learned["rows"], np.float64), learned["inducing"], learned["kernel"]
        (n, d), q = rows.shape, whole(self.n_components, "n_components", 1)
        wanted: dict[str, tuple[int, ...]] = {"embedding": (n, q), "embedding_std": (n, q), "relevance": (q,)}
        wanted |= {"mean": (d,), "scale": (d,)} | ({} if Z is None else {"inducing": (len(Z), q)})
        found = numbers_of(learned, wanted)
        if (Z is None) != (self.method == "map"):
            raise ValueError("the inducing inputs do not suit the method")
        if not isinstance(kernel, AbstractKernel) or not float(learned["noise_variance"]) > 0:
            raise TypeError("there is no kernel, or no noise")
        self.mean_, self.scale_ = found["mean"], found["scale"]
        self._rows, self.kernel_, self._mapping = rows, kernel.bind(q), None
        self.noise_variance_, self.inducing_ = float(learned["noise_variance"]), found.get("inducing")
        self.embedding_, self.embedding_std_ = found["embedding"], found["embedding_std"]
        self.relevance_, self.history_ = found["relevance"], np.asarray(learned["history"], np.float64)
        self.objective_, self.converged_ = float(learned["objective"]), bool(learned["converged"])
        self.n_iter_ = max(1, len(self.history_))
        name_columns(self, d, learned["names"])

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
