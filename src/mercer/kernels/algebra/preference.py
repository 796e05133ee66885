"""Which of two things is better: the covariance of f(a) - f(b) for a latent utility f."""

from __future__ import annotations

import jax
import numpy as np

from mercer.inputs import Array
from mercer.kernels.algebra.transforms import AbstractTransform
from mercer.kernels.base import AbstractKernel, Encoded
from mercer.kernels.traits import Traits
from mercer.params import ParameterError


class Preference(AbstractTransform):
    """The covariance of f(a) - f(b) where f has the covariance `kernel`: an input is two items side by side,
    the d columns of a and then the d columns of b (Chu and Ghahramani 2005; Houlsby et al. 2012).

    k((a, b), (a', b')) = k(a, a') - k(a, b') - k(b, a') + k(b, b')

    With the probit likelihood f is the utility of an item, in units of the noise with which people compare: a
    is preferred with probability Phi(f(a) - f(b)), and P(a before b) = 1 - P(b before a) as long as the mean
    is zero. `mercer.decide.utilities` says f at single items.

    >>> pairs = np.hstack([winners, losers])                  # (n, 2 d)
    >>> model = mercer.Model(mercer.GP(Preference(SE())), mercer.likelihoods.Bernoulli())
    >>> post = mercer.fit(model, pairs, np.ones(len(pairs))).posterior
    >>> post.probability(np.hstack([a, b]))                   # that a is preferred to b, (m,)
    >>> mercer.decide.utilities(post, items).ranking          # items (m, d), the best first
    """

    def rebuild(self, parts: tuple[AbstractKernel, ...]) -> Preference:
        return Preference(parts[0])

    def bind(self, d: int, names: tuple[str, ...] | None = None) -> Preference:
        if d % 2:
            raise ParameterError(
                f"Preference reads two items side by side, the columns of a and then those of b: it needs an "
                f"even number of columns, got {d}."
            )
        return Preference(self.kernel.bind(d // 2, names[: d // 2] if names else None))

    def encode(self, X: Array) -> tuple[Encoded, Encoded]:
        d = X.shape[1] // 2
        return self.kernel.encode(X[:, :d]), self.kernel.encode(X[:, d:])

    def suggest(self, X: np.ndarray, variance: float) -> Preference:
        """Of the items, a and b alike; f(a) - f(b) has about twice the variance of f."""
        d = X.shape[1] // 2
        return Preference(self.kernel.suggest(np.concatenate([X[:, :d], X[:, d:]]), 0.5 * variance))

    def block(self, A: tuple[Encoded, Encoded], B: tuple[Encoded, Encoded]) -> jax.Array:
        (a, b), (c, d), k = A, B, self.kernel.block
        return k(a, c) - k(a, d) - k(b, c) + k(b, d)

    def rank(self, d: int) -> int | None:
        return self.kernel.rank(d // 2)

    def features(self, A: tuple[Encoded, Encoded]) -> jax.Array:
        return self.kernel.features(A[0]) - self.kernel.features(A[1])

    def traits(self, d: int = 2) -> Traits:
        inner = self.kernel.traits(d // 2)
        return Traits(smoothness=inner.smoothness, beyond="knows no preference")
