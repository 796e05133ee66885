"""The generative topographic mapping with scikit-learn's interface: a table on a square, and a density."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, DensityMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from mercer.conditioned import AbstractSubject, LatentSpace
from mercer.em import Outcome, TopographicMap, em
from mercer.em.topographic import features_of
from mercer.estimators.base import read_kernel
from mercer.estimators.hidden.shared import generator, names_of, warn_unless_converged
from mercer.estimators.latent.shared import name_columns, numbers_of, units_of, whole
from mercer.estimators.shown import AbstractShown
from mercer.kernels import SE, AbstractKernel
from mercer.latent.table import principal_axes
from mercer.persist import AbstractSavable
from mercer.processes import check_fork
from mercer.progress import Progress
from mercer.report import AbstractReported, Report
from mercer.report.reported import keeps_its_data

NODES = 400  # of the grid, unless told: 400 on a line, 20 x 20, 7 x 7 x 7
LEAST = 10  # rows, to hold one in five out for the choice of a length-scale
PART = 10_000  # rows for which responsibilities are kept at a time


class GTM(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, DensityMixin, AbstractShown, AbstractSubject,
    AbstractSavable, AbstractReported,
):  # fmt: skip
    """A table by a smooth surface through it: a mixture of Gaussians whose centres are the images of a grid
    on the square [-1, 1]^q under a Gaussian process, fitted by EM (Bishop, Svensen and Williams 1998).

    n_components: q, the dimensions of the grid: 1, 2 or 3
    nodes: of the grid along each dimension; None: about 400 in all
    lengthscale: of the squared exponential that bends the surface, in units of the square; of several that is
        taken under which one row in five, left out, is most probable
    kernel: another covariance function over the square instead; a basis as in the original is a kernel too,
        `kernels.Features(functions)`
    standardise: whether columns are divided by their standard deviations. False: all by one number
    max_evaluations, tol: M-steps, and the relative gain of the objective below which it has converged
    random_state: seed of the choice of rows that are left out
    progress: None shows a line in terminals after a second, True always, False never

    EM starts on the plane of the principal components. NaN is an empty cell: a row is placed by those it has.

    Learned: embedding_ and embedding_std_ (n, q), posterior means and standard deviations of the rows on the
    square; model_ (`mercer.em.TopographicMap`, of the standardised table), nodes_ (K, q) and centres_ (K, d),
    their images in the units of the table; noise_std_ (d,); kernel_; log_likelihood_, in nats; history_, the
    objective before each M-step and at the end (log-likelihood plus log prior of the surface), which never
    falls; selection_, {length-scale: mean log density of rows left out}; converged_, n_iter_.

    >>> points = GTM().fit_transform(X)                                  # (n, 2): posterior means
    >>> GTM().fit(X).responsibilities(X)                                 # (n, 400)
    >>> viz.latent_space(model, labels=species)
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        nodes: int | None = None,
        lengthscale: float | Iterable[float] = (0.2, 0.3, 0.5, 0.8),
        kernel: AbstractKernel | str | None = None,
        standardise: bool = True,
        max_evaluations: int = 500,
        tol: float = 1e-6,
        random_state: int | np.random.RandomState | None = 0,
        progress: Progress = None,
    ):
        self.n_components = n_components
        self.nodes = nodes
        self.lengthscale = lengthscale
        self.kernel = kernel
        self.standardise = standardise
        self.max_evaluations = max_evaluations
        self.tol = tol
        self.random_state = random_state
        self.progress = progress

    # -- learning --------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> GTM:
        """Learn from rows X (n, d); NaN is an empty cell. y is ignored."""
        check_fork()
        nodes, kernels = self._grid(), self._kernels()
        X = validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan", ensure_min_samples=2)
        mean, scale = units_of(X, self.standardise)
        rows = (X - mean) / scale
        self.selection_: dict[float, float] = {}
        chosen = kernels[None] if None in kernels else self._choose(kernels, nodes, rows)
        outcome = self._climb(chosen, nodes, rows)
        jacobian = float(np.sum(~np.isnan(X) * np.log(scale)))
        self._take(
            nodes, mean, scale, chosen, outcome.model, outcome.log_likelihood - jacobian,
            outcome.path() - jacobian, outcome.converged, outcome.iterations,
        )  # fmt: skip
        found = [self._moments(self.model_.responsibilities(part)) for part in _parts(rows)]
        self.embedding_, self.embedding_std_ = (np.concatenate(a) for a in zip(*found, strict=True))
        warn_unless_converged(outcome, self.tol)
        return self

    def _grid(self) -> np.ndarray:
        q = whole(self.n_components, "n_components", 1)
        if q > 3:
            raise ValueError(
                f"a grid has one, two or three dimensions, got n_components={q}: see GPLVM for more."
            )
        count = round(NODES ** (1 / q)) if self.nodes is None else whole(self.nodes, "nodes", 2)
        side = np.linspace(-1.0, 1.0, count)
        return np.stack(np.meshgrid(*[side] * q, indexing="ij"), -1).reshape(-1, q)

    def _kernels(self) -> dict[float | None, AbstractKernel]:
        """The kernel given, under None; or the default one with each length-scale."""
        whole(self.max_evaluations, "max_evaluations", 0)
        if self.kernel is not None:
            given = read_kernel(self.kernel)
            assert given is not None
            if given.reads_objects():
                raise ValueError(f"{given.formula()} reads objects; points of the grid are numbers.")
            return {None: given.bind(self.n_components)}
        scales = np.atleast_1d(np.asarray(self.lengthscale, float))
        if scales.ndim > 1 or not scales.size or not (np.isfinite(scales) & (scales > 0)).all():
            raise ValueError(f"lengthscale must be a positive number, or several, got {self.lengthscale!r}.")
        return {float(scale): SE(float(scale)) for scale in scales}

    def _choose(
        self, kernels: dict[Any, AbstractKernel], nodes: np.ndarray, rows: np.ndarray
    ) -> AbstractKernel:
        """The kernel under which rows left out are most probable."""
        if len(kernels) == 1 or len(rows) < LEAST:
            return list(kernels.values())[len(kernels) // 2]
        out = generator(self.random_state).permutation(len(rows)) % 5 == 0
        for scale, kernel in kernels.items():
            found = self._climb(kernel, nodes, rows[~out]).model
            self.selection_[scale] = float(found.log_prob(rows[out]).mean())
        return kernels[max(self.selection_, key=self.selection_.__getitem__)]

    def _climb(self, kernel: AbstractKernel, nodes: np.ndarray, rows: np.ndarray) -> Outcome[TopographicMap]:
        features, q = features_of(np.asarray(kernel(nodes))), nodes.shape[1]
        sizes, axes = principal_axes(rows, q + 1)
        plane = (2.0 * nodes * sizes[:q]) @ axes[:q]  # two standard deviations to each side
        ridge = features.T @ features + 1e-3 * np.eye(features.shape[1])
        weights = np.linalg.solve(ridge, features.T @ plane)
        spacing = 4.0 * sizes[0] / len(nodes) ** (1 / q)
        noise = float(max(sizes[q] ** 2, spacing**2, 1e-3))
        start = TopographicMap(features, weights, noise, np.full(len(nodes), 1.0 / len(nodes)))
        return em(
            start, _parts(rows), max_evaluations=self.max_evaluations, tol=self.tol, progress=self.progress
        )

    def _take(
        self, nodes: np.ndarray, mean: np.ndarray, scale: np.ndarray, kernel: AbstractKernel,
        model: TopographicMap, log_likelihood: float, history: np.ndarray, converged: bool, iterations: int,
    ) -> None:  # fmt: skip
        self.nodes_, self.mean_, self.scale_, self.kernel_, self.model_ = nodes, mean, scale, kernel, model
        self.centres_ = model.centres * scale + mean
        self.noise_std_ = np.sqrt(model.noise_variance) * scale
        self.log_likelihood_, self.history_ = log_likelihood, history
        self.converged_, self.n_iter_ = converged, max(1, iterations)

    # -- what it says of rows --------------------------------------------------------------------------------

    def responsibilities(self, X: Any) -> np.ndarray:
        """Probability (k, K) of each node, given the observed cells of a row."""
        return np.concatenate([self.model_.responsibilities(part) for part in self._parts(X)])

    def transform(self, X: Any, return_std: bool = False) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Posterior means (k, q) of the points of rows X (k, d) on the square, and with `return_std` their
        posterior standard deviations (k, q).
        """
        found = [self._moments(self.model_.responsibilities(part)) for part in self._parts(X)]
        mean, std = (np.concatenate(a) for a in zip(*found, strict=True))
        return (mean, std) if return_std else mean

    def _moments(self, R: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean = R @ self.nodes_
        return mean, np.sqrt(np.maximum(R @ self.nodes_**2 - mean**2, 0.0))

    def inverse_transform(self, X: Any) -> np.ndarray:
        """Rows of the table (k, d) on the surface at points X (k, q) of the square, in units of the table.
        Each column has noise of standard deviation `noise_std_` besides.
        """
        check_is_fitted(self)
        X = check_array(X, dtype=np.float64)
        if X.shape[1] != self.nodes_.shape[1]:
            raise ValueError(f"points have {self.nodes_.shape[1]} columns here, but X has {X.shape[1]}.")
        return self._surface(X) * self.scale_ + self.mean_

    def _surface(self, X: np.ndarray) -> np.ndarray:
        """f at points: k(x, Z) k(Z, Z)^-1 f(Z), by the features of the nodes."""
        features, weights = self.model_.features, self.model_.weights
        inner = weights / np.sum(features**2, 0)[:, None]  # features are orthogonal
        return np.asarray(self.kernel_(X, self.nodes_)) @ (features @ inner)

    def score_samples(self, X: Any) -> np.ndarray:
        """Log densities (k,) of rows, by their observed cells, in units of the table."""
        found = np.concatenate([self.model_.log_prob(part) for part in self._parts(X)])
        seen = np.concatenate([~np.isnan(part) for part in self._parts(X)])
        return found - seen @ np.log(self.scale_)

    def score(self, X: Any, y: Any = None) -> float:
        """The mean log density of the rows."""
        return float(self.score_samples(X).mean())

    def _parts(self, X: Any) -> list[np.ndarray]:
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan", reset=False)
        return _parts((X - self.mean_) / self.scale_)

    @property
    def _n_features_out(self) -> int:
        return self.nodes_.shape[1]

    # -- what is said of it ----------------------------------------------------------------------------------

    def summary(self) -> str:
        """The surface, its noise and its likelihood, as text."""
        check_is_fitted(self)
        K, q = self.nodes_.shape
        lines = [
            f"GTM: {K} nodes in {q} dimension{'s' if q > 1 else ''}, kernel {self.kernel_.formula()}",
            f"log-likelihood {self.log_likelihood_:.3f} after {self.n_iter_} iterations; noise "
            f"{100 * self.model_.noise_variance:.3g} % of a column's variance",
        ]
        if self.selection_:
            said = ", ".join(f"{scale:g}: {value:.4f}" for scale, value in self.selection_.items())
            lines.append(f"mean log density of rows left out, by length-scale: {said}")
        return "\n".join(lines)

    def latent_space(self) -> LatentSpace:
        """For `viz.latent_space`: the training rows, and the logarithm of the magnification: by how much the
        surface stretches a small patch of the square.
        """
        check_is_fitted(self)

        def stretched(places: np.ndarray) -> np.ndarray:
            q, step = self.nodes_.shape[1], 1e-4
            at = np.zeros((len(places), q))
            at[:, : places.shape[1]] = places[:, :q]
            slopes = [
                (self._surface(at + step * e) - self._surface(at - step * e)) / (2 * step) for e in np.eye(q)
            ]
            J = np.stack(slopes, -1)  # (m, d, q)
            return 0.5 * np.linalg.slogdet(J.transpose(0, 2, 1) @ J + 1e-12 * np.eye(q))[1]

        return LatentSpace(self.embedding_, self.embedding_std_, stretched, "log magnification")

    def _told(self, budget: float | str, X: Any) -> Report:
        from mercer.estimators.reports.others import latent_told

        keeps_its_data(X)
        check_is_fitted(self)
        facts = [
            ("nodes", str(len(self.nodes_)), "of the grid"),
            ("noise", f"{100 * self.model_.noise_variance:.3g} %", "of a column's variance"),
            ("EM", "converged" if self.converged_ else "not converged", f"after {self.n_iter_} steps"),
        ]
        return latent_told(self, facts, None)

    # -- files -----------------------------------------------------------------------------------------------

    def _learned(self) -> dict[str, Any]:
        return {
            "model": self.model_, "nodes": self.nodes_, "mean": self.mean_, "scale": self.scale_,
            "kernel": self.kernel_, "embedding": self.embedding_, "embedding_std": self.embedding_std_,
            "log_likelihood": self.log_likelihood_, "history": self.history_, "converged": self.converged_,
            "selection": [[k, v] for k, v in self.selection_.items()], "names": names_of(self),
        }  # fmt: skip

    def _relearn(self, learned: dict[str, Any]) -> None:
        model, kernel = learned["model"], learned["kernel"]
        if not isinstance(model, TopographicMap) or not isinstance(kernel, AbstractKernel):
            raise TypeError("the model is not a TopographicMap with a kernel")
        K, d, q = len(model.features), model.weights.shape[1], whole(self.n_components, "n_components", 1)
        n = len(learned["embedding"])
        wanted: dict[str, tuple[int, ...]] = {"nodes": (K, q), "mean": (d,), "scale": (d,)}
        found = numbers_of(learned, wanted | {"embedding": (n, q), "embedding_std": (n, q)})
        history = np.asarray(learned["history"], np.float64)
        self.selection_ = {float(k): float(v) for k, v in learned["selection"]}
        self._take(
            found["nodes"], found["mean"], found["scale"], kernel.bind(q), model,
            float(learned["log_likelihood"]), history, bool(learned["converged"]), len(history) - 1,
        )  # fmt: skip
        self.embedding_, self.embedding_std_ = found["embedding"], found["embedding_std"]
        name_columns(self, d, learned["names"])

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def _parts(rows: np.ndarray) -> list[np.ndarray]:
    return [rows[i : i + PART] for i in range(0, len(rows), PART)]
