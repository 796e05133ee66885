"""What a fitted estimator of tables says of its columns."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from mercer.estimators.base import fitted
from mercer.estimators.learned import AbstractLearned
from mercer.progress import shown

if TYPE_CHECKING:
    from mercer.estimators.told import Explanation
    from mercer.explain import AbstractFitted, Attributions, Effect, Importance


FEW = 2000  # rows, up to which a summary leaves each out by any solver


class AbstractExplained(AbstractLearned):
    """An estimator that predicts from the columns of a table."""

    @abc.abstractmethod
    def _function(self) -> AbstractFitted:
        """The function that is explained."""

    @abc.abstractmethod
    def _attributed(self, Z: np.ndarray, beside: np.ndarray | None, groups: Any, seed: int) -> Attributions:
        """What columns add to predictions at inputs Z (m, d), beside those of a background."""

    @abc.abstractmethod
    def _opening(self) -> list[str]:
        """How well left-out rows are predicted, and how noisy they are, in lines."""

    @overload
    def explain(self, rows: None = None, background: Any = None) -> Explanation: ...

    @overload
    def explain(self, rows: Any, background: Any = None) -> Attributions: ...

    def explain(self, rows: Any = None, background: Any = None) -> Explanation | Attributions:
        """The model in plain sentences: what its parts and columns do, where, how strongly and how sure that
        is. Of `rows`, their predictions: what each column adds to them, how sure that is, and on which
        training rows they rest.

        What is said of a model is read from its additive parts, `importance` and `effects`. What a column
        adds to a prediction is the Shapley value of f: what its value changes beside those that it has in
        rows of the training data, averaged over all orders in which columns may be changed; of an additive
        function its term less the average of the term. The values and the average sum to the prediction, and
        each has the standard deviation that the posterior gives it. Counts, other noise with a link and
        warped targets are explained on the scale on which the model is Gaussian, classes by the latent
        function that speaks for the predicted one (of two: for the second), which the answer says.

        rows: None: the model; a table, or one row: a dict, a pandas series, a sequence of values
        background: other rows to set them beside, such as one alone; None: rows of the training data

        >>> print(model.explain())
        >>> print(model.explain(df[["a", "b"]].head(2)))
        >>> model.explain({"a": 1.0, "b": 2.0})["a"]
        """
        from mercer.estimators.attributed import attributed
        from mercer.estimators.told import told

        fitted(self)
        if rows is None and background is not None:
            raise ValueError("background goes with rows to explain: give both, or neither.")
        with shown("explaining", self.progress):
            return told(self) if rows is None else attributed(self, rows, background)

    def explanation(self, rows: Any = None) -> Explanation | Attributions:
        """`explain`, for pictures."""
        return self.explain() if rows is None else self.explain(rows)

    def importance(self, permutation: bool = True, draws: int = 32, groups: Any = None) -> Importance:
        """How much each column matters to the predictions: the share of their variance that it explains,
        alone and with its interactions, and how much worse left-out rows are predicted where it is shuffled.

        Regressors are explained by the predicted mean, classifiers by the probabilities of all classes
        together (at the posterior mean of the latent functions). A long length-scale is not a small
        importance: a linear effect has one. Columns are taken as independent, each distributed as in the
        training data.

        permutation: shuffle columns, too
        draws: functions drawn from the posterior, for the standard errors; 0: those of the integration
        groups: {name: positions of the inputs that belong together}; default: the columns of the table

        >>> found = model.importance()
        >>> print(found); found.to_frame(); found.pairs
        """
        from mercer.explain import importance

        fitted(self)
        with shown("importance", self.progress):
            return importance(self._function(), groups or self._groups(), permutation, draws, self._seed())

    def input_importance(self) -> Importance:
        """How much each column matters, without shuffling them."""
        return self.importance(permutation=False)

    def effects(
        self, columns: Any = None, most: int = 6, level: float = 0.95, groups: Any = None
    ) -> tuple[Effect, ...]:
        """How columns matter: the prediction along each, averaged over rows of the training data (partial
        dependence), with the interval of the averaged function.

        columns: names, or pairs of names for the effect of two together; default: the `most` important ones
        level: probability of the intervals
        groups: as in `importance`

        >>> model.effects()[0].mean
        >>> model.effects(["age", ("age", "weight")])  # along one column, and along two
        """
        from mercer.explain import effects

        fitted(self)
        with shown("effects", self.progress):
            return effects(self._function(), columns, groups or self._groups(), most, level, self._seed())

    def column_effects(self, columns: Any = None, most: int = 6, level: float = 0.95) -> tuple[Effect, ...]:
        """`effects`, for pictures."""
        return self.effects(columns, most, level)

    def _groups(self) -> dict[str, tuple[int, ...]] | None:
        """The inputs that each column of the table became."""
        if self.columns_ is None:
            return None
        return {name: positions for name, positions in self.columns_.groups.items() if positions}

    @property
    def _left_out_at_hand(self) -> bool:
        """Whether predictions of left-out rows cost no more than a factorisation: not where predictions
        average over many settings, and, of many rows, not where diag R takes a solution for each.
        """
        posteriors: list[Any] = [one for f in self._fits for one in f.posteriors]
        return all(one.can("loo") and (len(one.y) <= FEW or "kappa" in one.state.pulls) for one in posteriors)

    def _note_lines(self) -> list[str]:
        """What the posteriors note of themselves."""
        return [f"note: {note}" for f in self._fits for one in f.posteriors for note in one.notes]

    def _importance_lines(self) -> list[str]:
        """A line of the summary: the leading columns; none for one column, or where predictions average over
        many settings of the hyperparameters and would take long.
        """
        if self.n_features_in_ < 2 or any(f.posterior.averages for f in self._fits):
            return []
        found = self.importance(permutation=False, draws=0)
        if not found.total.any():
            return []
        return [
            f"importance: {found.line()} (share of the variance of the {found.what}, interactions included)"
        ]
