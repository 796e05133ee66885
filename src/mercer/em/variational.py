"""Variational Bayes for mixtures and hidden Markov models: EM whose M-step gives a distribution of the
parameters instead of a point (Bishop, chapter 10; Beal's thesis, chapter 3).

The posterior is approximated by a product, q(states) q(parameters). With conjugate priors q(parameters) is
the prior plus expected counts and moments (`mercer.em.conjugate`), and the E-step is that of EM at
exp E[log θ] instead of θ. The log normalisers of the E-step less the divergence of q(parameters) from the
prior, which is what `mercer.em.em` climbs, are a lower bound of the log evidence log p(data).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from mercer.em.conjugate import Dirichlets, NormalWisharts, of_emission
from mercer.em.forward import Smoothed, smooth
from mercer.em.gaussian import NormalInverseWishart
from mercer.em.hmm import HMM, Expected, Prepared, prepared
from mercer.em.mixture import Counted, GaussianMixture, Labelled, labelled, normalise, shares
from mercer.registry import Saved


@Saved.register
@dataclass(frozen=True)
class VariationalMixture:
    """The posterior of a Gaussian mixture; NaN in the data is a missing value.

    weights: `Dirichlets` of the shares of k components, or `Sticks` of a Dirichlet process cut off at k
    gaussians: `NormalWisharts` of the components

    >>> prior = NormalInverseWishart(dof=2, scale=np.cov(X.T), mean=X.mean(0), weight=1.0)
    >>> start = VariationalMixture.assigned(X, responsibilities, Sticks(0.1, np.zeros(k)), prior)
    >>> em(start, [X]).model.weights.mean()
    """

    weights: Any
    gaussians: NormalWisharts

    rows: ClassVar[bool] = True

    @classmethod
    def assigned(
        cls,
        X: np.ndarray,
        responsibilities: np.ndarray,
        weights: Any,
        prior: NormalInverseWishart,
        covariance_type: str = "full",
    ) -> VariationalMixture:
        """A start: the posterior if the rows of X belonged to components with these probabilities (k, n)."""
        before = NormalWisharts.of_prior(prior, len(responsibilities), covariance_type)
        moments = before.gaussians.moments(X, lambda block: responsibilities[:, block.rows])
        return cls(weights.updated(responsibilities.sum(1)), before.maximise(moments))

    def expect(self, X: np.ndarray | Labelled) -> Counted:
        """The E-step: responsibilities summed into what `maximise` needs, with the log normalisers."""
        X, keep = labelled(X, self.gaussians.states)
        offsets, total = (self.weights.expected_log() + self.gaussians.offsets)[:, None], []

        def weigh(block):
            joint = block.log_prob() + offsets
            if block.width:  # a row without any value is none
                keep(joint, block.rows)
                total.append(normalise(joint).sum())
            return joint

        moments = self.gaussians.gaussians.moments(X, weigh)
        return Counted(float(np.sum(total)), moments, len(X))

    def maximise(self, summary: Counted) -> VariationalMixture:
        """The M-step: the posterior of the parameters, given expected counts and moments."""
        return VariationalMixture(
            self.weights.updated(summary.moments.weight), self.gaussians.maximise(summary.moments)
        )

    def log_prior(self) -> float:
        """Minus the divergence of the posterior from the prior, which makes the objective a bound."""
        return -self.weights.divergence() - self.gaussians.divergence()

    def log_joint(self, X: np.ndarray) -> np.ndarray:
        """E[log α_l p_l(x_i)]: (k, n)."""
        return self.weights.expected_log()[:, None] + self.gaussians.log_prob(X)

    def responsibilities(self, X: np.ndarray) -> np.ndarray:
        """q(l | x_i): (n, k)."""
        joint = self.log_joint(X)
        normalise(joint)
        return joint.T

    def log_prob(self, X: np.ndarray) -> np.ndarray:
        """Log predictive densities (n,), the parameters integrated out: a mixture of Student-t densities."""
        return normalise(np.log(self.weights.mean())[:, None] + self.gaussians.predictive(X))

    def point(self) -> GaussianMixture:
        """The mixture with the expected weights, means and precisions."""
        return GaussianMixture(self.weights.mean(), self.gaussians.gaussians)


@Saved.register
@dataclass(frozen=True)
class VariationalHMM:
    """The posterior of a hidden Markov model.

    initial: `Dirichlets` (N,) of the first state
    transition: `Dirichlets` (N, N), a row for each state; a prior of zero is an impossible transition
    emission: `NormalWisharts` of vectors, `DirichletEmission` of symbols or kinds, `GammaEmission` of counts

    >>> start = VariationalHMM.around(model, sequences, prior=NormalInverseWishart(...))
    >>> em(start, [start.prepare(sequences)]).model.point()
    """

    initial: Dirichlets
    transition: Dirichlets
    emission: Any

    @classmethod
    def around(
        cls,
        model: HMM,
        sequences: Sequence[Any] | Prepared,
        prior: Any,
        concentration: float | None = None,
        initial_concentration: float | None = None,
    ) -> VariationalHMM:
        """A start: the posterior if states were what `model` finds in the sequences. Probabilities of zero in
        the model stay zero.

        prior: of the emission: NormalInverseWishart, a concentration (a number, or (N, L)), or Gamma.
        concentration: of each possible transition, initial_concentration: of each first state; 1/N unless
        told.
        """
        first, each = (1 / model.states if c is None else c for c in (initial_concentration, concentration))
        initial, transition = (
            np.where(model.initial > 0, first, 0.0),
            np.where(model.transition > 0, each, 0.0),
        )
        start = cls(
            Dirichlets(initial, np.zeros_like(initial)),
            Dirichlets(transition, np.zeros_like(transition)),
            of_emission(model.emission, prior),
        )
        return start.maximise(model.expect(sequences))

    @property
    def states(self) -> int:
        """Number of hidden states N."""
        return len(self.initial.prior)

    def prepare(self, sequences: Sequence[Any] | Prepared, labels: Any = None) -> Prepared:
        """Sequences, checked and laid out for the recursions, as `HMM.prepare`."""
        return prepared(self.emission, sequences, labels)

    def smooth(self, sequences: Sequence[Any] | Prepared) -> Smoothed:
        """Forward and backward at exp E[log θ], whose rows have sums below one: a step from state i is one of
        a proper chain, and the sum of the row is a factor of the emission at i, except at the end of a
        sequence.
        """
        data = self.prepare(sequences)
        first, initial = _proper(self.initial)
        out, transition = _proper(self.transition)
        log_b = data.log_emissions(self.emission)
        chunks = data.chunks
        log_b[:, chunks.back] += out[:, None]
        log_b[:, chunks.back[np.cumsum(chunks.lengths) - 1]] -= out[:, None]
        found = smooth(initial, transition, log_b, chunks)
        return replace(found, log_likelihood=found.log_likelihood + first)

    def expect(self, sequences: Sequence[Any] | Prepared) -> Expected:
        """The E-step (forward-backward): expected first states, transitions and emissions, with the log
        normalisers.
        """
        data = self.prepare(sequences)
        return Expected.of(self.smooth(data), data, self.emission)

    def maximise(self, summary: Expected) -> VariationalHMM:
        """The M-step: the posterior of the parameters, given expected counts."""
        return VariationalHMM(
            self.initial.updated(summary.first),
            self.transition.updated(summary.transitions),
            self.emission.maximise(summary.emission),
        )

    def log_prior(self) -> float:
        """Minus the divergence of the posterior from the prior, which makes the objective a bound."""
        return -self.initial.divergence() - self.transition.divergence() + self.emission.log_prior()

    def visits(self) -> np.ndarray:
        """Expected numbers of steps (N,) that the data spent in each state."""
        return self.initial.counts + self.transition.counts.sum(0)

    def point(self) -> HMM:
        """The model with the expected probabilities, means and precisions."""
        return HMM(self.initial.mean(), self.transition.mean(), self.emission.point())


def _proper(found: Dirichlets) -> tuple[Any, np.ndarray]:
    """exp E[log θ] as log sums along the last axis, and probabilities."""
    table = np.exp(found.expected_log())
    return np.log(table.sum(-1)), shares(table)
