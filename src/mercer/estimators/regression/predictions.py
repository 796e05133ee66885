"""What a fitted regressor says of new rows: means, intervals, draws, densities, components."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from mercer.estimators.explained import AbstractExplained
from mercer.estimators.regression.coloured import ColouredNoise, moments_of_function
from mercer.inputs import InputError, as_targets, is_chunked, is_table
from mercer.likelihoods import AbstractNoise, Gaussian, Heteroscedastic
from mercer.posteriors import AbstractPosterior, Component, SampledFunctions, UncertainPrediction
from mercer.posteriors.answers import Method
from mercer.posteriors.functions import WAVES

if TYPE_CHECKING:
    from mercer.estimators.regression.long import OfRows
    from mercer.estimators.regression.outputs import AbstractOutputs

ROW_ALONE = "predictions of data in chunks are of each row alone: leave out return_cov and noise_variance."
ONE_SIGMA = (float(ndtr(-1.0)), float(ndtr(1.0)))


class AbstractPredictions(AbstractExplained):
    """An estimator that predicts one number for each row."""

    coloured_noise_: ColouredNoise | None = None

    @abc.abstractmethod
    def _asking(self, refused: bool) -> AbstractOutputs | OfRows | None:
        """The models of several outputs, where there are several; `refused`: they cannot be asked that."""

    @abc.abstractmethod
    def _at(self, X: Any) -> tuple[AbstractPosterior, np.ndarray]:
        """The posterior that is asked, and X (m, d) as it reads it."""

    def predict(
        self,
        X: Any,
        return_std: bool = False,
        return_cov: bool = False,
        latent: bool = False,
        noise_variance: Any = None,
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Predictive mean (m,), and with it the standard deviation (m,) or covariance (m, m); of p outputs
        (m, p) each.

        They are those of a new observation y, or of the noise-free function if `latent`. Before `fit` they
        are those of the prior, as are all predictions and draws. Where noise is not Gaussian the standard
        deviation of y may be infinite (Student-t) or that of outliers alone (mixtures): in its place stands
        half the width of the interval that holds 68 % of y, which always exists, agrees with
        `predict_interval`, and is the same for Gaussian noise.
        `noise_variance` of the rows of X is needed where it was given for each training row, unless `latent`.

        Of a Dask frame or array predictions are a Dask series or array, computed when they are asked for.
        """
        if return_std and return_cov:
            raise ValueError("ask for return_std or return_cov, not both.")
        if is_chunked(X):
            return self._lazily(X, return_std, return_cov, latent, noise_variance)
        if (several := self._asking(return_cov or noise_variance is not None)) is not None:
            if not return_std:
                one = lambda m, X: m.predict(X, latent=latent)[:, None]  # noqa: E731
                return several.ask(X, one, ("value",), latent)[..., 0]
            both = several.ask(
                X, lambda m, X: np.stack(m.predict(X, True, latent=latent), 1), ("value", "spread"), latent
            )
            return both[..., 0], both[..., 1]
        posterior, X = self._at(X)
        with self._telling():
            if latent and self.coloured_noise_ is not None:
                if return_cov:
                    raise ValueError("with noise_along, return_cov is of y: leave out latent=True.")
                mean, std = moments_of_function(posterior, X)
                return (mean, std) if return_std else mean
            if return_cov:
                return posterior.mean(X, latent), posterior.covariance(X, latent, noise_variance)
            if return_std and _heavy(posterior) and not latent:
                mean, _, ends = posterior.predictive(X, ONE_SIGMA, noise_variance)
                return mean, 0.5 * (ends[:, 1] - ends[:, 0])
            if return_std:
                mean, std = posterior.mean_and_std(X, latent, noise_variance)
                return _first(mean), _first(std)
            return _first(posterior.mean(X, latent))

    def _lazily(self, X: Any, return_std: bool, return_cov: bool, latent: bool, noise_variance: Any) -> Any:
        """Predictions of a Dask array or frame, computed when they are asked for: a series (or array), two of
        them with the standard deviation.
        """
        from mercer.estimators.chunked import halves, lazily

        if return_cov or noise_variance is not None:
            raise ValueError(ROW_ALONE)
        if not return_std:
            return lazily(self, X, "predict", ("mean",), latent=latent)
        return halves(lazily(self, X, "predict", ("mean", "std"), return_std=True, latent=latent))

    def predict_quantile(self, X: Any, q: ArrayLike, noise_variance: Any = None) -> np.ndarray:
        """Predictive quantiles of y: (m,) for one q, (m, len(q)) for several;
        of heavy-tailed noise those of its own tails. Of p outputs (m, p), (m, p, len(q)). Of a Dask frame or
        array they are one, with a column for each of several q, computed when they are asked for.
        """
        if is_chunked(X):
            from mercer.estimators.chunked import lazily

            if noise_variance is not None:
                raise ValueError(ROW_ALONE)
            levels = np.asarray(q, float)
            names = tuple(f"q{100 * level:g}" for level in np.ravel(levels))
            return lazily(self, X, "predict_quantile", names, q=levels.tolist())
        if (several := self._asking(noise_variance is not None)) is not None:
            levels = np.atleast_1d(np.asarray(q, float))
            found = several.ask(X, lambda m, X: m.predict_quantile(X, levels), ("value",) * len(levels))
            return found if np.ndim(q) else found[..., 0]
        posterior, X = self._at(X)
        with self._telling():
            return posterior.quantile(X, q, noise_variance)

    def predict_interval(
        self, X: Any, level: float = 0.95, noise_variance: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends, each (m,), of the central interval that holds y with probability `level`; of
        p outputs (m, p). Of a Dask frame or array they are two series or arrays of Dask.
        """
        check_level(level)
        if is_chunked(X):
            from mercer.estimators.chunked import halves

            return halves(self.predict_quantile(X, [0.5 - 0.5 * level, 0.5 + 0.5 * level], noise_variance))
        ends = self.predict_quantile(X, [0.5 - 0.5 * level, 0.5 + 0.5 * level], noise_variance)
        return ends[..., 0], ends[..., 1]

    def predict_columns(
        self, X: Any, level: float = 0.95, latent: bool = False, noise_variance: Any = None
    ) -> dict[str, np.ndarray]:
        """Mean, standard deviation and the ends of the interval of this level, in one pass: "mean", "std",
        "lower" and "upper", each (m,).

        They are those of a new observation y, or of the noise-free function if `latent`; "std" is that of
        `predict`. Of a Dask frame or array they are the columns of one.

        >>> model.predict_columns(Xs, level=0.9)["upper"]
        """
        check_level(level)
        if is_chunked(X):
            from mercer.estimators.chunked import lazily

            if noise_variance is not None:
                raise ValueError(ROW_ALONE)
            names = ("mean", "std", "lower", "upper")
            return lazily(self, X, "predict_columns", names, level=level, latent=latent)
        tails, (posterior, X) = (0.5 - 0.5 * level, 0.5 + 0.5 * level), self._at(X)
        with self._telling():
            if latent:
                mean, std = (
                    map(_first, posterior.mean_and_std(X, latent=True))
                    if self.coloured_noise_ is None
                    else moments_of_function(posterior, X)
                )
                ends = mean[:, None] + std[:, None] * ndtri(tails)
            else:
                inner = ONE_SIGMA if _heavy(posterior) else ()
                mean, std, ends = posterior.predictive(X, (*tails, *inner), noise_variance)
                if inner:
                    std = 0.5 * (ends[:, 3] - ends[:, 2])
        return {"mean": mean, "std": std, "lower": ends[:, 0], "upper": ends[:, 1]}

    def predict_uncertain(
        self,
        mu: Any,
        Sigma: Any,
        latent: bool = False,
        method: Method | None = None,
        noise_variance: Any = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> UncertainPrediction:
        """Mean and variance of y, or of the noise-free function if `latent`, where the input is uncertain,
        x ~ N(mu, Sigma), and the covariance of x with it: two numbers and (d,) for one mu of d numbers, and
        (m,), (m,) and (m, d) for a table of m rows.

        Sigma: (d, d) in the order and the units of the columns, (d,) variances of independent columns, or one
            number for all; (m, d, d) gives each row its own. A column that is known has variance 0
        method: "exact" (for SE, constant, linear and polynomial kernels, their sums and products), "linear",
            "quadrature" or "monte-carlo"; None takes the best that there is for the kernel, and the answer's
            `method` says which
        random_state: seed of Monte Carlo

        For columns of numbers alone: a category, a date or an empty cell has no Gaussian error.

        >>> mean, variance, cross = model.predict_uncertain([0.3, 1.0], [[0.1, 0.02], [0.02, 0.2]])
        """
        columns = self.columns_
        if columns is not None and not columns.plain:
            other = ", ".join(repr(c.name) for c in columns.columns if not c.plain)
            raise InputError(
                f"only numbers can have a Gaussian error, and the model reads {other} as something else: "
                "fit it to columns of numbers without empty cells, or give a kernel."
            )
        single = np.ndim(mu) < 2 and not is_table(mu)
        posterior, X = self._at(self._by_position(np.atleast_2d(mu)) if not is_table(mu) else mu)
        seed = seed_of(random_state)
        with self._telling():
            return posterior.predict_uncertain(
                X[0] if single else X, Sigma, latent, method, noise_variance, seed
            )

    def _by_position(self, rows: np.ndarray) -> Any:
        """Rows (m, d) of numbers in the order of the columns, under their names where they have some: a
        covariance beside them has no names, either.
        """
        names = vars(self).get("feature_names_in_")
        return rows if names is None or len(names) != rows.shape[1] else dict(zip(names, rows.T, strict=True))

    def predict_noise(self, X: Any) -> np.ndarray:
        """Standard deviation (m,) of the noise of y at each row, in units of y, where it is Gaussian: one for
        all, that of the row's group, or (likelihood="heteroscedastic") learned as a function of X.

        >>> GPRegressor(likelihood="heteroscedastic").fit(X, y).predict_noise(Xs)
        """
        posterior, X = self._at(X)
        _, total = posterior.mean_and_std(X)
        _, own = posterior.mean_and_std(X, latent=True)
        if not isinstance(posterior.model.likelihood, Gaussian | Heteroscedastic):
            name = type(posterior.model.likelihood).__name__
            raise ValueError(f"{name} has no Gaussian noise to tell: see predict_interval.")
        return np.sqrt(np.maximum(total**2 - _first(own) ** 2, 0.0))

    def sample_y(
        self,
        X: Any,
        n_samples: int = 1,
        random_state: int | np.random.RandomState | None = 0,
        latent: bool = False,
        noise_variance: Any = None,
    ) -> np.ndarray:
        """Joint draws from the predictive distribution: (m, n_samples), a draw in each column as in
        scikit-learn; those of `posterior_.sample` are rows, (n_samples, m).
        """
        posterior, X = self._at(X)
        if latent and self.coloured_noise_ is not None:
            raise ValueError("with noise_along, joint draws are of y: leave out latent=True.")
        drawn = posterior.sample(X, n_samples, seed_of(random_state), latent, noise_variance)
        return (drawn if drawn.ndim == 2 else drawn[..., 0]).T

    def sample_functions(
        self,
        n_samples: int = 1,
        random_state: int | np.random.RandomState | None = None,
        points: Any = None,
        waves: int = WAVES,
    ) -> SampledFunctions:
        """Draws of the noise-free function, as functions of tables X that can be evaluated anywhere, again
        and again: (n_samples, m). random_state: None is that of the estimator. points, waves: as in
        `posterior_.sample_functions`.

        >>> functions = model.sample_functions(10)
        >>> functions(X), functions[0](X)                         # (10, m), (m,)
        """
        seed = self._seed() if random_state is None else seed_of(random_state)
        at = None if points is None else self._inputs(points)
        drawn = self.posterior_.sample_functions(n_samples, seed, at, waves)
        return drawn.reading(self._inputs, self.columns_ is None or self.columns_.plain)

    def log_density(self, X: Any, y: Any, noise_variance: Any = None) -> np.ndarray:
        """Log predictive density (m,) of each target; of p outputs (m, p), NaN where y is."""
        if (several := self._asking(noise_variance is not None)) is not None:
            return several.log_density(X, y)
        posterior, X = self._at(X)
        return posterior.log_density(X, as_targets(y, X.shape[0]), noise_variance)

    def components(self, X: Any) -> list[Component]:
        """Posterior of every additive term of the kernel: name, mean (m,) and std (m,).

        The means sum to the predictive mean less the prior mean.
        """
        posterior, X = self._at(X)
        return posterior.components(X)


def seed_of(random_state: int | np.random.RandomState | None) -> int | None:
    """A seed, of scikit-learn's generators one that they draw."""
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    return random_state


def check_level(level: float) -> None:
    """A level of intervals lies strictly between 0 and 1."""
    if not 0 < level < 1:
        raise ValueError(f"level must lie strictly between 0 and 1, got {level}.")


def _first(moments: np.ndarray) -> np.ndarray:
    """Of the function itself, where there is a second one behind the noise."""
    return moments if moments.ndim == 1 else moments[:, 0]


def _heavy(posterior: AbstractPosterior) -> bool:
    """Noise whose standard deviation says little."""
    return isinstance(posterior.model.likelihood, AbstractNoise)
