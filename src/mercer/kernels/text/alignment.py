"""The pair hidden-Markov kernel: how probable it is that two strings are copies of one."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from mercer.kernels.text.base import AbstractText
from mercer.kernels.text.pairs import Cell, Recursion, States, forward, walk, walk_all
from mercer.params import Hyper, ParameterError, hyper, unit


class PairHMM(AbstractText):
    """The probability p(x, x') that a pair hidden Markov model emits two strings, summed over all their
    alignments (Watkins' dynamic alignment kernel).

    An ancestor string, of equally probable symbols, ends with probability `end` before each of them. Each of
    the two strings copies it independently: a symbol is kept, or with probability `mutation` drawn anew from
    the alphabet, and before each symbol and at the end others are inserted, one more with probability
    `insertion`. Given the ancestor the two are independent, so that p(x, x') is a covariance.

    Probabilities of long strings are tiny: normalise=True, which is computed in logarithms, is what learning
    wants. There `end` and `insertion` act as one number, so `end` is held unless given as `param(...)`.

    >>> PairHMM(mutation=0.1, insertion=0.2, alphabet="acgt", normalise=True)(["acgt", "acct", "gg"])
    """

    mutation: Hyper = hyper(0.2, unit)
    insertion: Hyper = hyper(0.3, unit)
    end: Hyper = hyper(0.05, unit, free=False)

    def __check_init__(self):
        if self.alphabet is None:
            raise ParameterError('PairHMM needs the symbols there are: PairHMM(alphabet="acgt").')
        for name in ("mutation", "insertion", "end"):
            value = getattr(self, name)
            if not isinstance(value, jax.core.Tracer) and not (np.ndim(value) == 0 and 0 < value < 1):
                raise ParameterError(f"PairHMM.{name} must be one number between 0 and 1, got {value}.")

    def recursion(self, theta: jax.Array) -> Recursion:
        """log G, where G sums over alignments the odds of being copies against being all insertions.

        G(i, j) = 1 + (sum over pairs i' <= i, j' <= j of the odds of the symbols there times G before them).
        The sum of the second differences of log G over the table is log G at its end.
        """
        mutation, insertion, end = theta
        both_kept = (1.0 - mutation) ** 2
        pair = jnp.log1p(-end) + 2.0 * (jnp.log1p(-insertion) - jnp.log(insertion))
        equal = pair + jnp.log(len(self.alphabet or "") * both_kept + 1.0 - both_kept)
        different = pair + jnp.log1p(-both_kept)

        def step(cell: Cell, before: States, above: States) -> tuple[States, States, jax.Array]:
            diagonal, left, row = before  # log G(i-1, j-1), log G(i, j-1), log of what row i has added to it
            up = above[0]
            row = jnp.logaddexp(row, diagonal + jnp.where(cell.match, equal, different))
            here = jnp.logaddexp(up, row)
            term = jnp.where(cell.real, here - up - left + diagonal, 0.0)
            return (here, here, here), (up, here, row), term

        zero = 0.0 * pair
        return step, (zero, zero, zero - 1e30), zero

    def compare(self, A: jax.Array, B: jax.Array) -> jax.Array:
        def odds(theta, A, B):
            return walk_all(A, B, *self.recursion(theta))

        log_odds = forward(odds)(self._theta(), A, B)
        return jnp.exp(log_odds + self._alone(A)[:, None] + self._alone(B)[None, :])

    def compare_same(self, A: jax.Array) -> jax.Array:
        return jnp.exp(self._own(A) + 2.0 * self._alone(A))

    def _own(self, A: jax.Array) -> jax.Array:
        return forward(lambda theta, a: walk(a, a, *self.recursion(theta)))(self._theta(), A.T)

    def _alone(self, A: jax.Array) -> jax.Array:
        """What each string brings along: the log probability of being all insertions, times sqrt(end); or,
        normalised, what makes its own covariance 1.
        """
        if self.normalise:
            return -0.5 * self._own(A)
        length = jnp.sum(A >= 0, 1)
        return (
            0.5 * jnp.log(self.end)
            + jnp.log1p(-self.insertion)
            + length * jnp.log(self.insertion / len(self.alphabet or ""))
        )

    def _theta(self) -> jax.Array:
        return jnp.stack([jnp.asarray(v, float) for v in (self.mutation, self.insertion, self.end)])
