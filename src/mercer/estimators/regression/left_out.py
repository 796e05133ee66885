"""The fit of a regressor seen from its own data: rows left out, intervals that hold, outliers, a summary."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from mercer.estimators import defaults
from mercer.estimators.base import column_lines, fitted
from mercer.estimators.many import ROWS
from mercer.estimators.regression.predictions import AbstractPredictions, check_level
from mercer.estimators.regression.repeats import Copies
from mercer.estimators.regression.robust import Outliers, RobustComparison, outliers
from mercer.estimators.regression.tails import hint
from mercer.inputs import as_targets
from mercer.likelihoods import AbstractNoise, Gaussian
from mercer.params import parameters
from mercer.posteriors import LeaveOneOut

if TYPE_CHECKING:
    from mercer.estimators.regression.conformal import Conformal
    from mercer.explain import Attributions


class AbstractLeftOut(AbstractPredictions):
    """A regressor that is asked about the rows it was fitted to."""

    robust_comparison_: RobustComparison | None
    _index: tuple[str, ...] | None
    _copies: Copies | None
    _outliers: Outliers | None

    @abc.abstractmethod
    def _check_one(self) -> None:
        """Fitted, to one output."""

    def loo(self) -> LeaveOneOut:
        """Leave-one-out predictions of the training data: mean, variance and log_density, each (n,). A row
        and its copies are left out together.
        """
        self._check_one()
        left = self.posterior_.loo()
        return LeaveOneOut(*map(self._each_row, (left.mean, left.variance, left.log_density)))

    def _each_row(self, values: np.ndarray) -> np.ndarray:
        """Values (n,) for all rows of the table, from those of the rows that count."""
        return values if self._copies is None else values[self._copies.rows]

    def loo_interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends, each (n,), of the interval that the other data predict for each training
        target.
        """
        self._check_one()
        check_level(level)
        posterior = self.posterior_
        tails = (0.5 - 0.5 * level, 0.5 + 0.5 * level)
        if isinstance(posterior.model.likelihood, Gaussian):
            loo = posterior.loo()
            lower, upper = (Gaussian(0.0).quantile(q, loo.mean, loo.variance) for q in tails)
        else:
            moments = posterior.loo_latent()
            lower, upper = (posterior.model.likelihood.quantile(q, *moments) for q in tails)
        return self._each_row(lower), self._each_row(upper)

    def seen_rows(self) -> np.ndarray | None:
        """Which training rows' targets were seen themselves (n,), where of some only a limit is known; else
        None.
        """
        self._check_one()
        seen = self.model_.likelihood.seen
        return None if seen is None else self._each_row(seen)

    def coverage(
        self, levels: ArrayLike, X: Any = None, y: ArrayLike | None = None
    ) -> tuple[int, np.ndarray]:
        """Number of rows, and the shares of them that lie in their intervals of these `levels`: rows X with
        targets y, or the training rows left out one at a time.

        >>> n, observed = model.coverage([0.5, 0.9, 0.95])
        """
        levels = np.asarray(levels, float)
        if X is None:
            ends, y = [self.loo_interval(level) for level in levels], self._each_row(self.posterior_.y)
        else:
            tails = np.concatenate([0.5 - 0.5 * levels, 0.5 + 0.5 * levels])
            found = self.predict_quantile(X, tails)
            y, ends = as_targets(y, len(found)), list(zip(*np.split(found.T, 2), strict=True))
        return len(y), np.array([np.mean((low <= y) & (y <= high)) for low, high in ends])

    def calibrate(self, X: Any, y: Any) -> Conformal:
        """Intervals that hold what they promise whatever the data are like, by rows X, y that were not
        trained on (split-conformal prediction): an object with `predict_interval`, see `Conformal`.

        The model's own intervals are right where the model is; these are as wide as calls for where it is
        not, in proportion to its own std at each row.

        >>> lower, upper = model.calibrate(X_new, y_new).predict_interval(Xs, level=0.9)
        """
        from mercer.estimators.regression.conformal import calibrated

        self._check_one()
        return calibrated(self, X, y)

    def name_rows(self, names: Iterable[Any]) -> Self:
        """Call the training rows by these names in `outliers_`,
        instead of by their positions or the labels of a frame.
        """
        self._check_one()
        names, n = tuple(map(str, names)), len(self._each_row(self.posterior_.y))
        if len(names) != n:
            raise ValueError(f"{len(names)} names were given for {n} rows.")
        self._index, self._outliers = names, None
        return self

    def _attributed(self, Z: np.ndarray, beside: np.ndarray | None, groups: Any, seed: int) -> Attributions:
        """What columns add to f; training rows by their places in the table."""
        from mercer.explain import attributions

        self._check_one()
        found = attributions(self.posterior_, Z, beside, groups, seed=seed)
        names = self._index or tuple(map(str, range(len(self._each_row(self.posterior_.y)))))
        first = np.arange(len(names)) if self._copies is None else self._copies.kept
        named = tuple(
            tuple(one._replace(row=int(first[one.row]), label=names[first[one.row]]) for one in each)
            for each in found.influences
        )
        if self.model_.likelihood.mean_is_latent:
            return dataclasses.replace(found, influences=named, what=("the predicted y",) * len(Z))
        what = "the function behind y, on whose scale columns add up,"
        means = self.posterior_.mean(Z)
        also = tuple(f"On the scale of y itself {mean:.4g} is predicted." for mean in means)
        return dataclasses.replace(found, influences=named, what=(what,) * len(Z), also=also)

    def summary(self) -> str:
        """What was found, as text: how well rows are predicted by the others, which columns matter, how noisy
        they are; then the hyperparameters, and how far to trust the optimiser.
        """
        from mercer.estimators.findings import opened

        fitted(self)
        if (several := self._asking(refused=False)) is not None:
            return several.summary()
        lines = [
            *self._left_out_lines(),
            *self._importance_lines(),
            f"noise: {self.model_.likelihood.words()}",
        ]
        if isinstance(self.model_.likelihood, AbstractNoise):
            lines.append(f"outliers: {self.outliers_.paragraph()}")
        if (said := self._noise_hint()) is not None:
            lines.append(f"hint: {said}")
        return opened([*lines, *column_lines(self.columns_), *self._note_lines()], self.fit_.summary())

    def _opening(self) -> list[str]:
        self._check_one()
        return [*self._left_out_lines(), f"the noise is {self.model_.likelihood.words()}"]

    def _left_out_lines(self) -> list[str]:
        """How well left-out rows are predicted, where the posterior can say."""
        from mercer.estimators.findings import numbers_left_out

        if not self._left_out_at_hand:
            return []
        y, (lower, upper) = self._each_row(self.posterior_.y), self.loo_interval(0.95)
        inside, mean = (lower <= y) & (y <= upper), self.loo().mean
        rows = self.seen_rows()
        if rows is None:
            return [numbers_left_out(y, mean, inside)]
        return (
            [numbers_left_out(y[rows], mean[rows], inside[rows], "row that was seen itself is")]
            if rows.any()
            else []
        )

    def _noise_hint(self) -> str | None:
        """Whether another noise may be better than the Gaussian one that was learned for all rows alike."""
        noise = [p for p in parameters(self.model_.likelihood) if p.name == "noise_variance"]
        likelihood = self.model_.likelihood
        learned = isinstance(likelihood, Gaussian) and not likelihood.per_datum and noise[0].free
        if not learned or self.robust_comparison_ is not None or self.posterior_.averages:
            return None
        few = len(self.posterior_.y) <= ROWS and not defaults.constant(self.posterior_.y)
        return hint(self.posterior_) if few else None

    @property
    def outliers_(self) -> Outliers:
        """How far each training row is taken for an outlier."""
        self._check_one()
        if self._outliers is None:
            rows = None if self._copies is None else self._copies.rows
            self._outliers = outliers(self.posterior_, self._index, rows)
        return self._outliers

    def outlier_report(self) -> Outliers:
        return self.outliers_
