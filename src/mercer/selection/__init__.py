"""Which data to keep: active sets chosen at random, by clusters or greedily (GPML 8.1-8.3, Algorithm 8.1).

    Random           "random"            uniformly
    Clusters         "k-means"           the datum nearest to each cluster centre
    Biased           "biased"            at random in proportion to k(x, x)^2
    Pivoted          "pivoted"           the largest residual variance first
    Trace            "trace"             the largest decrease of tr(K - K~)
    Entropy          "entropy"           the largest decrease of the posterior's entropy (8.19)
    InformationGain  "information-gain"  the largest change of the posterior
    Residual         "residual"          the smallest residual sum of squares
    Matching         "matching"          the smallest quadratic form (8.18)
    Evidence         "evidence"          the largest log evidence (8.17)

The first five look at inputs and covariances alone, the others at targets too. No likelihood is seen here:
what `Entropy` and `InformationGain` need of one comes as a function (`Pool.tilted`).

>>> rows = selection.Entropy().rows(selection.Pool(gp, X, y, noise_variance=0.1), 500)
>>> solvers.VFE(m=200, select="pivoted")
>>> solvers.SubsetOfData(500, selection.Evidence(candidates=None))
"""

from __future__ import annotations

from mercer.registry import exporter, named
from mercer.selection.protocol import AbstractSelection, Pool, Tilted

# imported when first used
_MODULES = {
    "chance": "Biased Random",
    "clusters": "Clusters centres",
    "informative": "Entropy InformationGain",
    "pivoted": "pivoted_cholesky",
    "regressors": "Evidence Matching Pivoted Residual Trace",
}

__all__ = ["AbstractSelection", "Pool", "Tilted", "by_name", *" ".join(_MODULES.values()).split()]

__getattr__ = exporter(__name__, _MODULES)


def by_name(selection: str | AbstractSelection) -> AbstractSelection:
    """A selection from its name, or the one given.

    >>> by_name("information-gain")
    InformationGain()
    """
    if isinstance(selection, AbstractSelection):
        return selection
    return named("selection", selection, AbstractSelection, {"Clusters": "k-means"})()


def __dir__() -> list[str]:
    return sorted(__all__)
