"""PAC-Bayes certificates of classifiers (GPML 7.4.3): how often they err on new data at most."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtr
from sklearn.base import clone

from mercer.estimators import roughness
from mercer.estimators.reading import some_rows
from mercer.inputs import Inputs, Targets
from mercer.theory.pac_bayes import mcallester, seeger

if TYPE_CHECKING:
    from mercer.estimators.classification.classifier import GPClassifier

FEWEST = 8  # rows


@dataclasses.dataclass(frozen=True, eq=False)
class Certificate:
    """A bound on the errors of `classifier` on new data from where the training data came from, which holds
    with probability 1 - delta over the choice of these n data.

    gibbs: bound of the share of errors of one function drawn from the posterior for each prediction (Seeger)
    vote: bound of the share of errors of the classifier itself, which predicts the more probable class: twice
        that, at most 1
    mcallester: McAllester's bound in place of Seeger's, for comparison
    risk: share of errors of drawn functions on the n training data. divergence: KL(posterior || prior), nats
    split: rows that hyperparameters were learned from, and nothing else
    """

    classifier: GPClassifier
    delta: float
    n: int
    split: int
    risk: float
    divergence: float
    gibbs: float
    vote: float
    mcallester: float

    @property
    def vacuous(self) -> bool:
        """Whether guessing is as good as what is certified."""
        return self.vote >= 0.5

    def __str__(self) -> str:
        worth = (
            "No more than guessing would do: too few data for how far the posterior moved from the prior."
            if self.vacuous
            else "Guessing errs in half of them."
        )
        prior = (
            f"hyperparameters were learned from {self.split} other rows"
            if self.split
            else "hyperparameters were given"
        )
        return (
            f"With probability {1 - self.delta:g} at most {100 * self.vote:.1f} % of new rows are classified "
            f"wrongly. {worth}\n"
            f"A function drawn from the posterior errs in at most {100 * self.gibbs:.1f} % (by McAllester's "
            f"bound {100 * self.mcallester:.1f} %), and in {100 * self.risk:.1f} % of the {self.n} training "
            f"rows; the posterior is {self.divergence:.4g} nats from the prior.\n"
            f"It holds if rows are independent and new ones come from where these do; {prior}, so that the "
            f"prior did not know the {self.n} rows. It is about `classifier`, trained on these."
        )


def certified(estimator: GPClassifier, X: Any, y: Any, delta: float) -> Certificate:
    """The certificate of a classifier with these settings, trained on X and y."""
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie strictly between 0 and 1, got {delta:g}.")
    labels = np.asarray(y)
    n = len(labels)
    given = not estimator.learn and estimator.kernel is not None and not roughness.asked(estimator.kernel)
    learns = np.zeros(n, bool)
    if not given:
        order = np.random.default_rng(estimator._seed()).permutation(n)
        learns[order[: n // 2]] = True
    if len(np.unique(labels)) != 2:
        raise ValueError("certificates are for two classes: ask for one class against the rest.")
    if n < FEWEST:
        raise ValueError(f"{n} rows are too few for a certificate.")
    first = ~learns if given else learns
    classifier = clone(estimator).fit(some_rows(X, first), labels[first])
    if not given:
        classifier = _conditioned(classifier, some_rows(X, ~learns), labels[~learns])
    posterior = classifier.one_posterior()
    mean, variance = posterior.latent_moments(posterior.inputs)
    assert variance is not None
    sign = np.where(np.asarray(posterior.y) > 0, 1.0, -1.0)
    risk = float(np.mean(ndtr(-sign * np.ravel(mean) / np.sqrt(np.ravel(variance)))))
    divergence, count = posterior.prior_divergence(), int(np.sum(~learns))
    gibbs = seeger(risk, divergence, count, delta)
    other = mcallester(risk, divergence, count, delta)
    split = int(learns.sum())
    return Certificate(classifier, delta, count, split, risk, divergence, gibbs, min(1.0, 2 * gibbs), other)


def _conditioned(learned: GPClassifier, X: Any, labels: np.ndarray) -> GPClassifier:
    """The classifier with the hyperparameters that were learned, which has seen these rows instead."""
    codes = np.searchsorted(learned.classes_, labels)
    inputs = Inputs(learned._inputs(X), learned._data[0].names)
    found = learned._fits[0]
    ((problem, y),) = learned._problems(inputs, codes)
    posterior = found.model.condition(
        problem, Targets(y), learned._rule, learned._solver(found.model, inputs)
    )
    learned._data = (inputs, codes)
    return learned._take([dataclasses.replace(found, posterior=posterior)])
