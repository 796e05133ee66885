"""Gaussian-process regression as a scikit-learn estimator,
with Gaussian noise or noise that outliers cannot spoil.
"""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin

from mercer.distributed import Parallel, team
from mercer.estimators import defaults, reading, roughness, saving
from mercer.estimators.base import evidence_of, fitted, frame_index, read_kernel
from mercer.estimators.many import checkpoint_of
from mercer.estimators.regression.before import prior_of
from mercer.estimators.regression.coloured import check_coloured, noise_of
from mercer.estimators.regression.groups import GroupEffects, effects, kinds_of
from mercer.estimators.regression.input_noise import errors_of, settled, with_inputs
from mercer.estimators.regression.left_out import AbstractLeftOut
from mercer.estimators.regression.model import AbstractModelled
from mercer.estimators.regression.monotone import Wish, constrained, of_function, wishes
from mercer.estimators.regression.noise import RowNoise, few_rows, not_with
from mercer.estimators.regression.repeats import Copies, copies
from mercer.estimators.regression.robust import Candidate, RobustComparison, judged, warm_start
from mercer.estimators.regression.side import Side, seen_or_limit
from mercer.estimators.regression.tails import GAUSSIAN, left_out_densities
from mercer.estimators.regression.warped import check_warped, gaussian_noise, warp_of
from mercer.estimators.shared_work import AbstractShared
from mercer.gp import Model
from mercer.inference.protocol import AbstractInference
from mercer.inputs import InputError, Inputs, Targets, as_targets, is_chunked
from mercer.kernels import AbstractKernel
from mercer.learning import Fit, fit
from mercer.learning.objectives import Objective
from mercer.likelihoods import AbstractLikelihood, AbstractNoise, Gaussian
from mercer.means import AbstractBasis, AbstractMean
from mercer.observe import Observations
from mercer.params import Param, parameters
from mercer.posteriors import AbstractPosterior
from mercer.progress import Progress
from mercer.report import AbstractReported, Report
from mercer.report.reported import keeps_its_data
from mercer.solvers.protocol import AbstractSolver, SolverError

if TYPE_CHECKING:
    from mercer.estimators.regression.long import OfRows
    from mercer.estimators.regression.outputs import AbstractOutputs
    from mercer.estimators.regression.searched import Ranking
    from mercer.explain import AbstractFitted
    from mercer.warps import AbstractWarp

MOSTLY_EQUAL = (
    "more than half of the targets are one value, which noise of heavy tails would take for no noise at all: "
    "its scale is held above a hundredth of where it starts. Whether a row has that value is a question for "
    "GPClassifier"
)


class GPRegressor(RegressorMixin, AbstractShared, AbstractModelled, AbstractLeftOut, AbstractReported):
    """Gaussian-process regression with learned hyperparameters.

    Without a kernel, an ARD Matern 5/2 is learned under weak priors scaled to the data, so units do not
    matter. With a kernel, its numbers are in your units and it is learned by the evidence alone unless it
    carries priors; X is never transformed.

    kernel: kernel, str or None. A kernel such as `kernels.SE(1.0)`, its formula as text, or None for the
        default. "auto" chooses the roughness (Matern 3/2, Matern 5/2 or SE) and whether there is a linear
        part by the evidence, for several times the work; "search" looks for the structure, as
        `mercer.search` does, see `search_`.
    mean: "empirical", number, mean, callable or None. Prior mean. "empirical" fixes it at the mean of y (the
        median where noise is robust); None is zero; `mercer.param(0.0)` is a learned constant.
    basis: basis or None. Explicit basis functions such as `means.Polynomial(1)`, with their weights
        integrated out.
    noise_variance: number, `mercer.param`, `mercer.fixed`, array (n,) or None. Where the noise variance
        starts, in squared units of y; None starts at a tenth of the variance of y. An array gives a known
        variance to each training row, which is not learned. Zero is noise-free, and is not learned either.
        For Gaussian noise only.
    noise_by: str, int or None. A column of X, by its name or position, whose values put rows into groups
        (instruments, clinics, methods) that each have a noise variance of their own, learned under a weak
        prior; at most 32 groups, of two rows or more on average. A row is predicted with the noise of its
        group; one of a group that was not seen, with the mean of their variances. The column stays an input.
        For Gaussian noise only.
    input_noise: number, array (d,), dict, "learn" or None. Errors of the inputs of the training rows: their
        standard deviations, in units of the columns, one for all, one for each, or by name (the others have
        none); "learn" learns one for each column, which takes data whose slope varies. To first order an
        error of x is one of f'(x) times it in y, so that steep rows count less; slopes and fit take turns,
        for a few times the work (McHutchon and Rasmussen 2011). Predictions are those at a known input:
        `predict_uncertain(X, model.input_noise_**2)` for rows with such errors. For Gaussian noise only.
    likelihood: str, instance or None. The noise. None or "gaussian"; robust against outliers are "student-t",
        "laplace", "mixture" (of two Gaussians), "uniform" (Gaussian, contaminated uniformly) and
        "epsilon-insensitive", all learned from robust scales of y with weak priors; "auto" fits
        Gaussian noise, and then Student-t, Laplace or mixture noise if residuals of left-out rows speak for
        it, which is kept if it predicts held-out rows better. For other targets: "poisson" and
        "negative-binomial" (counts), "binomial" (successes of `trials`), "beta" (shares between 0 and 1),
        "gamma" (positive numbers), "weibull" and "log-logistic" (waiting times, some of which had not ended),
        "censored" (Gaussian, some rows known by limits alone); "heteroscedastic" is Gaussian noise whose
        variance is a function of the inputs, too, see `predict_noise`. An instance such as
        `likelihoods.StudentT(dof=4.0)` is learned as it stands.
    objective: str. "evidence" (with priors: MAP), "loo", "loo-mse", "gcv" or "k-fold".
    solver: str, instance or None. How the algebra is done. None is "dense" up to 10,000 rows, and "auto" for
        more, which says what it chose and why; or an instance such as `solvers.VFE(m=512)`.
    inference: str, instance or None. How the posterior is found: "exact" for Gaussian noise, else
        "variational", "ep" or "laplace"; None is the best suited one (variational for Student-t). "mcmc" (or
        `inference.MCMC(...)`) samples the hyperparameters, "ccd" and "grid" integrate over a few settings
        around the best: predictions then include their uncertainty.
    restarts: int. Random starts besides the given and the data-driven one.
    random_state: int, RandomState or None. Seed of the random starts.
    max_evaluations: int. Limit on evaluations of the objective per start; with 0 nothing is learned.
    learn: bool. Whether hyperparameters are learned. False holds them at the values given (the optimizer=None
        of scikit-learn), and those not given where learning would start; `fit` then only conditions on the
        data.
    progress: bool, None or function (done, total, text). Show how far fits and predictions are: always,
        never, or (None) in a terminal or a notebook after a second.
    memory: str, number or None. What the solver may use, such as "8GiB" (default 4 GiB): where "dense" needs
        more, the default is "auto".
    checkpoint: path or None. A file such as "fit.npz" in which a long fit keeps what it has reached; the same
        call goes on from it if it was killed.
    repeats: str. Rows that repeat another in every input and in y. "merge" takes them for copies and counts
        them once, which a note says: as two measurements that agree to the last digit they would say that
        there is no noise. "keep" takes every row for a measurement of its own. Equal inputs with different
        targets are replicates, which always count. So do all rows where replicates agree no more often than
        their spread and the rounding of y (scores, counts) explain, and where no noise is learned.
    missing: "indicator" or "error". Empty cells of X, where no kernel is given: put at the column's mean with
        a further column that tells them from others, so that what they mean is learned (an empty cell of a
        category is a level of its own); or refused. An empty cell in a column that had none in `fit` is an
        error.

    outputs: "independent" or "coregional". What several outputs, y (n, p) or a frame, have in common:
        nothing, a model for each (`estimators_`), or correlated functions of the same length-scales, learned
        together (cokriging): k(x, x') times a covariance between outputs, of rank 2 and a part of each
        output's own, and a noise of each. A kernel that is a sum has such a covariance for each term (the
        linear model of coregionalisation). Empty cells of y are not known, and predicted from the rest.
    output_rank: int or None. Rank of the part that coregional outputs have in common; None is 2.
    output_noise: "independent" or "correlated". Whether the noise of coregional outputs has something in
        common, too, within a row: an error of the row's, such as of its place or its dilution. Predictions
        are of new rows, whose errors are their own.
    output_column: str, int or None. A column of X that says of which output each y (n,) is, in a long table
        of several outputs: rows that agree in all others are one. Predictions (m,) are of the outputs that
        the column says; of tables without it (m, p), of all.
    monotone, convex: dict or None. {column: +1 or -1}, by name or position: the function rises (+1) or falls
        (-1) along the column, or is convex (+1) or concave (-1), within the range of the data. By virtual
        observations of the signs of its derivative, as many as it takes, which a note counts; hyperparameters
        are learned with a few of them. For Gaussian noise.
    warp: str, warp or None. A rising function of y that is Gaussian where y is not (a warped GP), learned
        with the kernel by the evidence of y: "log" (positive y), "box-cox" (positive, a power learned),
        "logit" (between 0 and 1; `warps.Logit(lower, upper)` for others), "yeo-johnson" (any y, a power
        learned), "tanh" (any y, bends learned), or an instance of `mercer.warps`. Means, standard deviations,
        quantiles, draws and densities are those of y; `latent`, the kernel and the noise are in units of the
        warped target. For Gaussian noise.
    noise_along: str, int or None. A column of numbers or dates along which errors are correlated (AR(1) noise
        in time, measured at any times): beside the noise of each row's own, an Ornstein-Uhlenbeck process is
        learned, see `coloured_noise_`. It is part of y, whose predictions near the data know of it, and not
        of the function: `predict(X, latent=True)` is without it. For Gaussian noise.
    groups: str, int, dict or None. A column, by name or position, whose rows of one value (a school, a
        patient) have an offset of their own in common: a random effect, whose variance is learned, see
        `group_effects`. {column: "offset" or "function", ...}: or a function of the other columns of their
        own, of which all groups' mean is learned, too. The other columns have the default kernel; a group
        that was not seen is predicted by what groups have in common, and is less certain.
    budget: number, str or None. With kernel="search", how long `fit` may take: seconds, "60s", "5min"; None
        is "60s", or no limit with `max_models`.
    max_models: int or None. With kernel="search", how many models are looked at, at most; without a budget
        `fit` then finds the same whenever it is repeated.
    parallel: None, int or dask.distributed.Client. Who climbs from several starts, and looks at models with
        kernel="search": this process, so many processes, or the workers of a cluster. What is learned does
        not depend on it, save with a budget. A process takes seconds to start: it pays where climbs are long.

    kernel_: kernel with the learned values, in your units
    model_, posterior_, fit_: the learned `Model`, its posterior, and the `Fit` with status and history
    log_marginal_likelihood_: log density of your y given X, without priors; None where hyperparameters were
        averaged over
    noise_variance_: learned noise variance, or the array given; with `noise_by` one for each of
        `noise_groups_`; infinite for Student-t noise of at most 2 degrees of freedom, None for counts
    noise_covariance_: of several outputs, (p, p), between their noise in one row; None where not Gaussian
    input_noise_: with `input_noise` the standard deviations (d,) of errors of the columns, else None
    warp_: with `warp` the learned one: `warp_.forward(y)` are the warped targets; else None
    coloured_noise_: with `noise_along` the learned noise, its `std` and `lengthscale`; else None
    noise_covariance_: the covariance (n, n) of errors given to `fit`, or None
    noise_groups_: with `noise_by` what the groups are called, else None
    outliers_: which training rows are outliers (`Outliers`): a score for each, and a report when printed
    robust_comparison_: for likelihood="auto", the noise models side by side and why one was kept
        (`RobustComparison`), else None
    search_: with kernel="search" the models that were looked at, ranked (`Ranking`), else None
    columns_: what each column of X is and which columns of numbers it became (`mercer.columns.Columns`)
    outputs_, estimators_: where y has several columns, their names, and the models: one for each, or the one
        of all, on a long table whose last column says which. `posterior_` and the like are theirs then
    n_features_in_, feature_names_in_: as in scikit-learn

    X is an array, a data frame (pandas, polars, pyarrow) or a dict of columns. Without a kernel its columns
    may hold numbers, booleans, categories, text labels, dates and empty cells, see `mercer.columns`: labels
    become a category, each of whose levels is as far from every other as is learned; dates become days, and
    sine and cosine of the year, week or day where they cover several. Text that reads as a number or a date
    is one. A label that was not seen in training is one more level: predictions are less certain there, and
    a `ColumnWarning` says so. A kernel that is given reads columns as they are, dates as days since
    1970-01-01. Columns with names are taken by name, in any order; those that the model was not fitted to
    are ignored with a `ColumnWarning`, one that is missing is an error that names it. Columns that do not
    vary have scale 1. Targets that do not vary (a single row, or all equal)
    teach nothing: hyperparameters keep their starting values, which for the default kernel are those of
    targets with standard deviation |y| (a single row) or 1e-6 |y| (all equal), so that the constant is
    predicted almost surely. With `noise_variance=0` repeated rows must have equal targets. Kernels on text or
    other objects take a list of them, or a frame.

    Before `fit` predictions and draws are those of the prior: of the kernel and the mean given, else of the
    default ones for columns and targets with mean 0 and standard deviation 1. Noise that was not given is
    not known then, and left out.

    >>> model = GPRegressor().fit(df[["a", "b"]], df["y"])
    >>> mean, std = model.predict(new[["a", "b"]], return_std=True)
    >>> print(model.summary())

    >>> GPRegressor().fit(X, y, y_error=errors)               # known errors, beside a learned noise
    >>> GPRegressor(noise_by="instrument").fit(df[["a", "instrument"]], y)

    >>> GPRegressor(groups="instrument").fit(df[["a", "instrument"]], y).group_effects()
    >>> model = GPRegressor(likelihood="student-t").fit(X, y)
    >>> print(model.outliers_)
    >>> lower, upper = model.predict_interval(Xs, level=0.95)
    """

    numeric_targets: ClassVar[bool] = True
    noise_groups_: tuple[str, ...] | None
    noise_covariance_: np.ndarray | None
    input_noise_: np.ndarray | None
    warp_: AbstractWarp | None
    search_: Ranking | None
    _several: AbstractOutputs | None

    def __init__(
        self,
        kernel: str | AbstractKernel | None = None,
        mean: str | float | Param | AbstractMean | Callable[..., Any] | None = "empirical",
        basis: AbstractBasis | None = None,
        noise_variance: ArrayLike | Param | None = None,
        objective: str | Objective = "evidence",
        solver: str | AbstractSolver | None = None,
        inference: str | AbstractInference | None = None,
        restarts: int = 0,
        random_state: int | np.random.RandomState | None = 0,
        max_evaluations: int = 500,
        progress: Progress = None,
        likelihood: str | AbstractLikelihood | None = None,
        memory: str | float | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        repeats: str = "merge",
        missing: Literal["indicator", "error"] = "indicator",
        learn: bool = True,
        noise_by: str | int | None = None,
        input_noise: ArrayLike | Mapping[str, float] | str | None = None,
        outputs: Literal["independent", "coregional"] = "independent",
        output_rank: int | None = None,
        output_noise: Literal["independent", "correlated"] = "independent",
        output_column: str | int | None = None,
        monotone: Mapping[Any, int] | None = None,
        convex: Mapping[Any, int] | None = None,
        warp: str | AbstractWarp | None = None,
        groups: str | int | Mapping[Any, str] | None = None,
        noise_along: str | int | None = None,
        budget: float | str | None = None,
        max_models: int | None = None,
        parallel: Parallel = None,
    ):
        self.kernel = kernel
        self.mean = mean
        self.basis = basis
        self.noise_variance = noise_variance
        self.objective = objective
        self.solver = solver
        self.inference = inference
        self.restarts = restarts
        self.random_state = random_state
        self.max_evaluations = max_evaluations
        self.progress = progress
        self.likelihood = likelihood
        self.memory = memory
        self.checkpoint = checkpoint
        self.repeats = repeats
        self.missing = missing
        self.learn = learn
        self.noise_by = noise_by
        self.input_noise = input_noise
        self.outputs = outputs
        self.output_rank = output_rank
        self.output_noise = output_noise
        self.output_column = output_column
        self.monotone = monotone
        self.convex = convex
        self.warp = warp
        self.groups = groups
        self.noise_along = noise_along
        self.budget = budget
        self.max_models = max_models
        self.parallel = parallel

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._own_kernel and self.missing != "error"
        tags.requires_fit = False
        tags.target_tags.multi_output = True
        return tags

    # -- learning --------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        y_error: Any = None,
        *,
        exposure: Any = None,
        trials: Any = None,
        event: Any = None,
        lower: Any = None,
        upper: Any = None,
        noise_covariance: Any = None,
    ) -> GPRegressor:
        """Learn from y (n,) at X (n, d): arrays, or data frames with names; or from several outputs y (n, p),
        NaN where a cell is empty, see `outputs`.

        sample_weight: (n,), above zero, or None. The noise variance of a row is the learned one divided by
            its weight: that of the mean of so many measurements. It is not the same as so many rows, which
            would also say how far they lie apart. Only what weights are relative to each other matters to f;
            y is predicted with the noise of weight 1.
        y_error: (n,), not negative, or None. Known standard deviation of the error of each y, in its units.
            A noise that all rows share is learned beside it, and y is predicted with this learned noise
            alone; where the errors of new rows are known, `predict(X, return_std=True,
            noise_variance=model.noise_variance_ + error**2)`. If the errors are all of the noise, give
            `GPRegressor(noise_variance=0)`.

        Both are for Gaussian noise. Other likelihoods take, (n,) each:

        exposure: how much was observed (days, area, people), for "poisson" and "negative-binomial";
            predictions are of exposure 1.
        trials: how many there were, for "binomial", where y says how many of them succeeded; predictions are
            of one, so that the mean is a probability.
        event: 1 where it happened at the time y, 0 where it had not yet by then, for "weibull" and
            "log-logistic".
        lower, upper: limits between which y lies where it was not seen itself (a limit of detection, the end
            of a scale), for "censored", which is the default with them. Infinite or empty is no limit, and
            where both are empty y itself was seen; where there is a limit y is not read.

        X and y may also be Dask frames or arrays cut at the same rows, or X a source of chunks such as
        `mercer.inputs.parquet("data/*.parquet", target="y")` (and y None): they need not fit into memory, and
        are worked on where they are. Solvers are VFE (the default then), FITC and ProjectedProcess. What is
        known of each row, and settings that look at all rows at once, do not go with them.

        A row is then a copy of another (see `repeats`) if they agree, too.

        noise_covariance: (n, n) or None. Known covariance of errors of the rows, in squared units of y, where
            they are not independent (measured one after the other, from one calibration). As with `y_error`,
            a noise of each row's own is learned beside it, and new rows are predicted with that alone. Every
            row counts, and the algebra is dense. For Gaussian noise.
        """
        self._several = None
        if is_chunked(X):
            from mercer.estimators.regression.chunked import REPEATS, fit_chunks

            of_rows = dict(
                sample_weight=sample_weight, y_error=y_error, exposure=exposure, trials=trials, event=event,
                lower=lower, upper=upper, noise_covariance=noise_covariance,
            )  # fmt: skip
            self._grouping = tuple(kinds_of(self.groups))
            found = fit_chunks(self, X, y, of_rows)
            noted = found.posterior.noting(REPEATS)
            return self._take([dataclasses.replace(found, posterior=noted)])
        outputs = reading.several_outputs(y)
        if self.output_column is not None:
            if outputs is not None:
                raise ValueError("output_column is for one column of targets: leave it out for y (n, p).")
            from mercer.estimators.regression.long import widened

            X, outputs = widened(X, self.output_column, y)
        if outputs is not None:
            beside = (sample_weight, y_error, exposure, trials, event, lower, upper, noise_covariance)
            if any(given is not None for given in beside):
                raise ValueError("weights, errors and the like of rows go with one output: fit each alone.")
            from mercer.estimators.regression.outputs import kind_of

            if self.outputs == "coregional" and (self.monotone or self.convex):
                raise ValueError("monotone and convex are of one output each: use outputs='independent'.")
            return self._take_outputs(kind_of(self.outputs).fit(self, X, outputs))
        kernel = None if self._own_kernel else read_kernel(self.kernel)
        if self.groups is not None and self.kernel is not None:
            raise ValueError(
                "groups adds to the default kernel: to one of your own add a term such as "
                "kernels.Categorical(correlation=mercer.fixed(0.0)).on('school')."
            )
        check_coloured(
            self.noise_along,
            {name: getattr(self, name) for name in ("likelihood", "basis", "monotone", "convex", "warp")}
            | {f"kernel={self.kernel!r}": True if self._chosen_kernel else None},
        )
        self._grouping = tuple(kinds_of(self.groups))
        index = frame_index(X)
        inputs, y = self._training_data(X, seen_or_limit(y, lower, upper), (kernel,))
        known = RowNoise.read(sample_weight, y_error, len(y))
        check_warped(self.warp, self.likelihood, known, [self.input_noise, self.monotone, self.convex])
        side = Side.read(len(y), exposure=exposure, trials=trials, event=event, lower=lower, upper=upper)
        self._index, self.robust_comparison_, self.search_ = index, None, None
        self.noise_covariance_ = self._covariance(noise_covariance, len(y))
        self._copies = None if noise_covariance is not None else self._repeated(inputs, y, known, side)
        if self._copies is not None:
            kept = self._copies.kept
            inputs, y, known = Inputs(inputs.values[kept], inputs.names), y[kept], known.at(kept)
            side = side.at(kept)
        likelihood, y = side.into(self.likelihood, y)
        known = known.by(self.columns_, self.noise_by, inputs.values)
        known = with_inputs(known, self.input_noise, self.columns_, inputs.values)
        with team(self.parallel):
            if asked := wishes(self.monotone, self.convex, self.columns_):
                self._check_shaped(likelihood, known)
                return self._take([self._shaped(self._fit_noise(None, kernel, inputs, y), inputs, y, asked)])
            automatic = isinstance(self.likelihood, str) and self.likelihood == "auto"
            if automatic and not known.nothing:
                raise ValueError(not_with("likelihood='auto'"))
            if self.kernel is not None and self._own_kernel and self.learn and not defaults.constant(y):
                found = self._choose_kernel(GAUSSIAN if automatic else likelihood, inputs, y, known)
                if not automatic or roughness.asked(self.kernel, "search"):
                    return self._take([self._settled(found, inputs, y)])
                kernel = found.model.gp.kernel
            if automatic and not defaults.constant(y):
                return self._take([self._choose(kernel, inputs, y)])
            found = self._fit_noise(likelihood, kernel, inputs, y, known)
            return self._take([self._settled(found, inputs, y)])

    def _covariance(self, given: Any, n: int) -> np.ndarray | None:
        """The known covariance of the errors of n rows, checked."""
        if given is None:
            return None
        plain = (
            self.likelihood is None or isinstance(self.likelihood, Gaussian) or self.likelihood == GAUSSIAN
        )
        dense = self.solver is None or (isinstance(self.solver, str) and self.solver == "dense")
        if not plain or not dense or self.monotone or self.convex or self.warp is not None:
            raise ValueError(
                "noise_covariance goes with Gaussian noise and dense algebra: leave out likelihood, warp, "
                "monotone, convex and solver."
            )
        from mercer.solvers.correlated import checked

        covariance = checked(given)
        if len(covariance) != n:
            raise InputError(f"noise_covariance is of {len(covariance)} rows, but there are {n}.")
        return covariance

    def _settled(self, found: Fit, inputs: Inputs, y: np.ndarray) -> Fit:
        """The fit with the slopes of its own mean, where inputs have errors."""
        if self.input_noise is None or defaults.constant(y):
            return found
        settings = self._settings("input noise") | {"starts": "given", "restarts": 0}
        return settled(found, lambda model: self._learn(model, inputs, y, self.inference, **settings))

    def _choose_kernel(self, likelihood: Any, inputs: Inputs, y: np.ndarray, known: RowNoise) -> Fit:
        """The fit with the kernel of kernel="auto" or "search"; sets `search_`."""
        if roughness.asked(self.kernel, "search"):
            from mercer.estimators.regression import searched

            searched.check(self, known)
            settings = self._settings("kernel") | {"starts": "given", "restarts": 0}
            found, self.search_ = searched.chosen(self, inputs, y, settings)
            return found
        roughness.check(self.objective, self.inference)
        plain = self._fit_noise(likelihood, None, inputs, y, known)
        heavy = isinstance(plain.model.likelihood, AbstractNoise)
        latent = np.asarray(plain.model.likelihood.guess(y), float)
        default = roughness.Default(inputs.values, defaults.target_scale(latent, heavy), self.columns_)
        settings = self._settings("kernel") | {"starts": "given", "restarts": 0}

        def learn(model: Model) -> Fit:
            return self._learn(model, inputs, y, self.inference, **settings)

        return roughness.chosen(plain, default, inputs, y, self._seed(), learn)

    def _repeated(self, inputs: Inputs, y: np.ndarray, known: RowNoise, side: Side) -> Copies | None:
        """The rows that are copies of others; none where no noise is learned that they could mislead."""
        found = copies(inputs.values, y, self.repeats, [*known.columns, *side.columns])
        likelihood = self._likelihood(*side.into(self.likelihood, y), known)
        learned = self.learn and any(p.free for p in parameters(likelihood))
        return found if learned and not defaults.constant(y) else None

    def _fit_noise(
        self,
        likelihood: Any,
        kernel: AbstractKernel | None,
        inputs: Inputs,
        y: np.ndarray,
        known: RowNoise = RowNoise(),
    ) -> Fit:
        """The model with this noise, learned."""
        model = self._model(likelihood, kernel, inputs, y, known)
        if defaults.constant(y):
            solver, seed = self._solver(model, inputs), self._seed()
            held = defaults.hold(model)
            return fit(held, inputs, Targets(y), solver=solver, progress=self.progress, seed=seed)
        several = isinstance(self.likelihood, str) and self.likelihood == "auto"
        settings = self._settings(likelihood if several else "")
        return self._learn(model, inputs, y, self.inference, **settings)

    def _check_shaped(self, likelihood: Any, known: RowNoise) -> None:
        """What monotone and convex do not go with."""
        noise: Any = self.noise_variance
        named = likelihood is None or (isinstance(likelihood, str) and likelihood == GAUSSIAN)
        plain = named and known.nothing and np.ndim(noise) == 0 and self.input_noise is None
        rule = self.inference is None and self.objective == "evidence" and not self._chosen_kernel
        if not plain or not rule:
            raise ValueError(
                "monotone and convex go with one Gaussian noise variance for all rows, learned by the "
                "evidence: leave out likelihood, weights, errors and noise_by, inference, objective and "
                "kernel='auto' or 'search'."
            )

    def _shaped(self, free: Fit, inputs: Inputs, y: np.ndarray, asked: list[Wish]) -> Fit:
        """The fit whose function has the shape that was asked for."""
        if defaults.constant(y):
            return free
        solver = self._solver(free.model, inputs)
        settings = self._settings("signs")
        if not self.learn:
            settings["max_evaluations"] = 0

        def learn(model: Model, data: Observations) -> Fit:
            return fit(model, data, inference="ep", solver=solver, **settings)

        def condition(model: Model, data: Observations) -> AbstractPosterior:
            return model.condition(data, inference="ep", solver=solver, progress=self.progress)

        plain = self.columns_ is None or self.columns_.plain
        found, model = constrained(free, inputs, y, asked, plain, learn, condition)
        posterior = model.condition(inputs, Targets(y), solver=solver, progress=self.progress)
        for note in found.posterior.notes:
            posterior = posterior.noting(note)
        return dataclasses.replace(found, model=posterior.model, posterior=posterior)

    def _settings(self, part: str) -> dict[str, Any]:
        """Those of `mercer.fit`, for one fit of several."""
        return dict(
            progress=self.progress,
            seed=self._seed(),
            objective=self.objective,
            max_evaluations=self.max_evaluations,
            restarts=self.restarts,
            checkpoint=checkpoint_of(self.checkpoint, part),
            parallel=self.parallel,
        )

    def _choose(self, kernel: AbstractKernel | None, inputs: Inputs, y: np.ndarray) -> Fit:
        """The noise model that predicts held-out data best; sets `robust_comparison_`."""
        for given in ("noise_variance", "inference"):
            if getattr(self, given) is not None:
                raise ValueError(
                    "with likelihood='auto' every noise model starts and is fitted in its own way: leave "
                    f"out {given}."
                )
        plain = self._fit_noise(GAUSSIAN, kernel, inputs, y)
        densities = left_out_densities(plain.posterior)
        compared = RobustComparison(tuple(Candidate(name, density) for name, density in densities.items()))
        if compared.suggested == GAUSSIAN:
            self.robust_comparison_ = compared
            return plain
        rows, name = {c.name: c for c in compared.candidates}, compared.suggested
        solver = self._solver(plain.model, inputs)
        rows[GAUSSIAN] = judged(rows[GAUSSIAN], plain.posterior, "exact", solver)
        found = plain
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                model = self._model(name, kernel, inputs, y, RowNoise())
                warm = warm_start(model, plain.posterior)
                settings = self._settings(name) | {"starts": "several" if warm is None else "given"}
                found = self._learn(warm or model, inputs, y, "variational", **settings)
                note = "; ".join(str(w.message) for w in caught)
                rows[name] = judged(rows[name], found.posterior, "variational", solver, note)
            except (ArithmeticError, np.linalg.LinAlgError, SolverError) as error:
                rows[name] = dataclasses.replace(rows[name], held_out=-np.inf, note=f"failed: {error}")
        self.robust_comparison_ = RobustComparison(tuple(rows.values()))
        if self.robust_comparison_.best == GAUSSIAN:
            return plain
        for w in caught:
            warnings.warn(w.message, w.category, stacklevel=3)
        return found

    def _take(self, fits: list[Fit]) -> GPRegressor:
        (found,) = fits
        posterior: AbstractPosterior = found.posterior
        if defaults.constant(posterior.y):
            note = (
                "the targets do not vary, so nothing was learned: hyperparameters have their starting values"
            )
            posterior = posterior.noting(note)
        named_noise = isinstance(self.likelihood, str) and isinstance(found.model.likelihood, AbstractNoise)
        if named_noise and defaults.mostly_equal(posterior.y):
            posterior = posterior.noting(MOSTLY_EQUAL)
        if self._copies is not None:
            posterior = posterior.noting(self._copies.note())
        likelihood: Any = gaussian_noise(found.model.likelihood)
        if (few := few_rows(likelihood, posterior.inputs.values)) is not None:
            posterior = posterior.noting(few)
        found = dataclasses.replace(found, posterior=posterior)
        self.fit_, self.posterior_, self.model_ = found, posterior, found.model
        self.kernel_ = of_function(found.model.kernels[0])
        assert self.columns_ is not None
        self.coloured_noise_ = noise_of(found.model.kernels[0], self.noise_along, self.columns_)
        self.warp_ = warp_of(found.model.likelihood)
        noise = np.asarray(getattr(likelihood, "noise_variance", None), float)
        self.noise_variance_ = None if np.isnan(noise).any() else float(noise) if noise.ndim == 0 else noise
        grouped = isinstance(likelihood, Gaussian) and likelihood.by is not None
        self.noise_groups_ = likelihood.by.value.labels if grouped else None
        self.input_noise_ = errors_of(likelihood)
        self._outliers = None
        self.log_marginal_likelihood_ = evidence_of(posterior)
        return self

    def _asking(self, refused: bool) -> AbstractOutputs | OfRows | None:
        several: AbstractOutputs | None = vars(self).get("_several")
        if several is not None and refused:
            raise ValueError("return_cov and noise_variance go with one output: ask those in estimators_.")
        if several is None or self.output_column is None:
            return several
        from mercer.estimators.regression.long import OfRows

        return OfRows(several, self.output_column)

    def _check_one(self) -> None:
        """Fitted, to one output."""
        fitted(self)
        if self._several is not None:
            raise ValueError("this model has several outputs: ask those in estimators_.")

    def _take_outputs(self, several: AbstractOutputs) -> GPRegressor:
        """Set the learned attributes of several outputs."""
        assert several.columns is not None
        reading.name_features(self, several.columns)
        self._several, self.outputs_, self.estimators_ = several, several.names, several.members
        fits: Any = tuple(member.fit_ for member in several.members)
        self.fit_ = fits
        self.noise_variance_, self.noise_groups_ = several.noise_variance, None
        self.noise_covariance_ = several.noise_covariance
        self.input_noise_ = self.warp_ = self.robust_comparison_ = self._copies = self._index = None
        self.log_marginal_likelihood_ = several.log_evidence
        for name in {"posterior_", "model_", "kernel_"} & set(vars(self)):
            delattr(self, name)
        return self

    def _learned(self) -> dict[str, Any]:
        fitted(self)
        if self._several is None:
            return saving.learned(self)
        return {"outputs": self._several.packed()}

    def _relearn(self, learned: dict[str, Any]) -> None:
        self._several = None
        if "outputs" not in learned:
            return saving.relearn(self, learned)
        from mercer.estimators.regression.outputs import kind_of

        self._take_outputs(kind_of(self.outputs).unpacked(self, learned["outputs"]))

    def _at(self, X: Any) -> tuple[AbstractPosterior, np.ndarray]:
        """The posterior, or before `fit` the prior, and X (m, d) as it reads it."""
        if "fit_" in vars(self):
            self._check_one()
        return (self.posterior_, self._inputs(X)) if "posterior_" in vars(self) else prior_of(self, X)

    def group_effects(self) -> dict[str, GroupEffects]:
        """Of each column that `groups` says has offsets: the offset of every group, with its standard
        deviation. Functions of groups are terms in `components(X)`.

        >>> print(model.group_effects()["school"])
        """
        self._check_one()
        if "offset" not in kinds_of(self.groups).values():
            raise ValueError("there are no offsets of groups: fit with GPRegressor(groups='column').")
        assert self.columns_ is not None
        return effects(self.posterior_, self.columns_, self.groups)

    # -- what the shared parts ask ---------------------------------------------------------------------------

    @property
    def _rule(self) -> Any:
        compared = self.robust_comparison_
        robust = compared is not None and compared.best != GAUSSIAN
        return "variational" if robust else self.inference

    @property
    def _training(self) -> tuple[Inputs, np.ndarray]:
        return self.posterior_.inputs, self.posterior_.y

    def _labels(self) -> Any:
        compared, copied, ranking = self.robust_comparison_, self._copies, self.search_
        if self._index is None and compared is None and copied is None and ranking is None:
            return None
        rows = None if compared is None else [list(dataclasses.astuple(c)) for c in compared.candidates]
        return {
            "index": None if self._index is None else list(self._index),
            "noise_models": rows,
            "copies": None if copied is None else copied.rows.tolist(),
            "search": None if ranking is None else ranking.packed(),
        }

    def _restore(self, inputs: Inputs, y: np.ndarray, labels: Any) -> None:
        super()._restore(inputs, y, labels)
        said: dict[str, Any] = labels or dict.fromkeys(("index", "noise_models", "copies", "search"))
        self.search_ = None
        if said["search"] is not None:
            from mercer.estimators.regression.searched import Ranking

            self.search_ = Ranking.unpacked(said["search"])
        index, rows, copied = said["index"], said["noise_models"], said["copies"]
        self._copies = None if copied is None else Copies(np.asarray(copied, dtype=int))
        if self._copies is not None and not np.array_equal(np.unique(copied), np.arange(len(y))):
            raise ValueError(f"the copies are not those of {len(y)} rows")
        n = len(self._each_row(y))
        if index is not None and len(index) != n:
            raise ValueError(f"there are {n} rows but {len(index)} labels of them")
        self._index = None if index is None else tuple(map(str, index))
        self.robust_comparison_ = (
            None if rows is None else RobustComparison(tuple(Candidate(*row) for row in rows))
        )

    def _problems(self, inputs: Inputs, y: np.ndarray) -> list[tuple[Inputs, np.ndarray]]:
        return [(inputs, y)]

    def _function(self) -> AbstractFitted:
        from mercer.explain import PosteriorFunction

        self._check_one()
        return PosteriorFunction(self.posterior_)

    def _targets(self, y, n: int) -> np.ndarray:
        return as_targets(y, n)

    def _told(self, budget: float | str, X: Any) -> Report:
        from mercer.estimators.reports.regression import told

        keeps_its_data(X)
        return told(self, budget)
