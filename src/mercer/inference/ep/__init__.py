"""Expectation propagation: each site makes the approximate marginal match the moments of cavity times
likelihood.

With log Z(mu) = log of the integral of p(y|f) N(f | mu, v) over the cavity, d = dlogZ/dmu and D =
-d2logZ/dmu2, the site centred at the cavity's mean has slope d / (1 - v D) and precision D / (1 - v D) (3.59
without a division by anything small). The evidence (3.65) is the log normaliser of the sites plus the log of
their scales, which stays finite as a precision tends to zero (3.73-3.75).

Power EP (Minka 2004) does the same with powers eta of site and likelihood: cavities lack t^eta, log Z is that
of p(y|f)^eta, and a site is the 1/eta-th power of what matches. At eta = 1 it is EP; as eta tends to 0 the
cavity becomes the marginal, log Z / eta the average of log p, and the fixed point that of `KL`.

`point` holds these equations, `contests` the sites where one of several latent functions wins, `parallel` and
`sequential` the two orders in which sites are visited, `rule` what is tried in turn.
"""

from mercer.inference.ep.rule import EP

__all__ = ["EP"]
