"""The mathematics of EP: the site that matches moments (3.59), how far all sites are from theirs, and the
evidence (3.65).
"""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Callable

import numpy as np

from mercer.inference import pointwise
from mercer.inference.protocol import AbstractSiteProblem
from mercer.linalg.cholesky import NotPositiveDefinite
from mercer.posteriors.cavity import Cavity, cavity
from mercer.solvers.protocol import AbstractState, Sites

# log Z, d and D of cavities by their means and variances
Tilted = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]
BACK = 0.3  # share of a site that is taken back where its cavity is not proper


def matched_site(
    d: np.ndarray, D: np.ndarray, v: np.ndarray, power: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Precision and slope, at the mean of a cavity of variance v, of the site that gives the marginal the
    moments of cavity times likelihood: D / (1 - v D) and d / (1 - v D) (3.59), with d = dlogZ/dmu and D =
    -d2logZ/dmu2. Where a power of the likelihood is in the cavity's place, that power of the site is.
    """
    rest = power * (1.0 - v * D)
    with np.errstate(divide="ignore", invalid="ignore"):
        return D / rest, d / rest


def log_scales(sites: Sites, c: Cavity, log_Z: np.ndarray, power: float = 1.0) -> np.ndarray:
    """The log scales that make each site integrate to Z_i over its cavity, or their powers: with the log
    normaliser of the sites they sum to log Z_EP (3.65). With 1 + v W = 1 / share nothing is divided by a
    precision, which may be zero.
    """
    W, g = power * np.asarray(sites.precision), power * np.asarray(sites.slope)
    e = c.mean - sites.centre
    slope = g - W * e
    with np.errstate(invalid="ignore", divide="ignore"):
        integral = g * e - 0.5 * W * e**2 + 0.5 * slope**2 * c.variance * c.share + 0.5 * np.log(c.share)
    return (log_Z - integral) / power


@dataclasses.dataclass(frozen=True, eq=False)
class Point:
    """The sites `given` and how EP would change them: W and g, the slope at the posterior mean, by dW and dg;
    all (n, 1), or (n, C) for contests. `change` is the largest of these in units of the marginals'
    deviations; `proper` where every cavity is.
    """

    state: AbstractState
    given: Sites
    mean: np.ndarray
    variance: np.ndarray
    W: np.ndarray
    g: np.ndarray
    dW: np.ndarray
    dg: np.ndarray
    proper: bool
    change: float
    log_scale: float  # of all sites together

    @property
    def log_evidence(self) -> float:
        return self.state.log_normaliser + self.log_scale

    def sites(self) -> Sites:
        """The sites, centred at the posterior mean."""
        return Sites(self.mean, self.W, self.g)

    def moved(self, share: float) -> Sites:
        """This share of the way to where EP would take them."""
        return Sites(self.mean, self.W + share * self.dW, self.g + share * self.dg)

    def end(self, tol: float, sweeps: int) -> End:
        """The run ends here."""
        converged = self.proper and self.change <= tol and np.isfinite(self.log_evidence)
        return End(self.state, self.given, self.log_evidence, bool(converged), sweeps, self.change)


@dataclasses.dataclass(frozen=True, eq=False)
class End:
    """How a run ended, after so many sweeps in all."""

    state: AbstractState
    sites: Sites
    log_evidence: float
    converged: bool
    sweeps: int
    change: float


class AbstractProblem(AbstractSiteProblem):
    """A model on its data, at changing sites, each a function of one number."""

    @abc.abstractmethod
    def point(self, sites: Sites) -> Point:
        """One factorisation, then every cavity and the site that it asks for."""

    def step(self, sites: Sites, needed: bool) -> Point | None:
        """The point at these sites; None where the posterior, or a cavity that is `needed`, is not proper."""
        try:
            point = self.point(sites)
        except NotPositiveDefinite:
            return None
        return point if point.proper or not needed else None


@dataclasses.dataclass(eq=False)
class OneLatent(AbstractProblem):
    """One latent function: a site for each datum, of which `power` is taken out for its cavity."""

    power: float = 1.0

    def point(self, sites: Sites) -> Point:
        """One factorisation, then every cavity and the site that it asks for."""
        state = self.factor(sites)
        mean, variance = state.marginals()
        c = cavity(state, self.power)
        tilt = functools.partial(pointwise.tilted, self.model.likelihood, self.y, power=self.power)
        slope = state.alpha[:, None]
        scales, dW, dg, proper = changes(state.sites, c, mean, variance, slope, tilt, self.power)
        variance = np.maximum(np.abs(variance), 1e-300)
        change = largest_change(dW, dg, variance)
        W = state.sites.precision
        return Point(state, sites, mean, variance, W, slope, dW, dg, proper, change, float(np.sum(scales)))


def changes(
    sites: Sites,
    c: Cavity,
    mean: np.ndarray,
    variance: np.ndarray,
    slope: np.ndarray,
    tilted: Tilted,
    power: float = 1.0,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, bool]:
    """What moment matching asks of sites whose marginals are N(mean, variance) and whose slopes there are
    `slope`: the log scales of those given, the changes of precisions and of slopes, and whether all the
    cavities are proper.
    """
    ok = (c.share > 0) & (variance > 0)
    v = np.where(ok, c.variance, 1.0)
    log_Z, d, D = tilted(np.where(ok, c.mean, mean), v)
    W, g = matched_site(d, D, v, power)
    g = g + W * (c.mean - mean)  # the slope at the posterior mean, which is where `slope` is the old one
    ok &= np.isfinite(W) & np.isfinite(g)
    # a site without a proper cavity is taken back a little, so that the others can make room for it
    dW = np.where(ok, W - sites.precision, -BACK * np.asarray(sites.precision))
    return log_scales(sites, c, log_Z, power), dW, np.where(ok, g - slope, -BACK * slope), bool(ok.all())


def largest_change(dW: np.ndarray, dg: np.ndarray, variance: np.ndarray) -> float:
    """Of precisions and slopes, in units of the marginals' deviations."""
    return float(max(np.max(np.abs(dW) * variance), np.max(np.abs(dg) * np.sqrt(variance))))
