"""Expectation propagation: each site makes the approximate marginal match the moments of cavity times
likelihood.

With log Z(mu) = log of the integral of p(y|f) N(f | mu, v) over the cavity, d = dlogZ/dmu and D =
-d2logZ/dmu2, the site centred at the cavity's mean has slope d / (1 - v D) and precision D / (1 - v D) (3.59
without a division by anything small). The evidence (3.65) is the log normaliser of the sites plus the log of
their scales, which stays finite as a precision tends to zero (3.73-3.75).

`point` holds these equations, `contests` the sites where one of several latent functions wins, `parallel` and
`sequential` the two orders in which sites are visited, `rule` what is tried in turn.
"""

from mercer.inference.ep.rule import EP

__all__ = ["EP"]
