"""Gaussian Markov processes as tools (GPML appendix B): Fourier transforms, ARMA processes, circles,
random fields on graphs.
"""

from mercer.series.autoregressive import ARMA, YuleWalkerFit, from_covariances, sample_covariance, yule_walker
from mercer.series.circle import Circulant, on_polygon
from mercer.series.coloured import Coloured
from mercer.series.continuous import ContinuousARMA
from mercer.series.fields import MarkovField, graph, lattice
from mercer.series.fourier import Circle, Integers, Line, Polygon, sampled_spectrum, wrap, wrapped_spectrum

__all__ = [
    "ARMA",
    "Circle",
    "Circulant",
    "Coloured",
    "ContinuousARMA",
    "Integers",
    "Line",
    "MarkovField",
    "Polygon",
    "YuleWalkerFit",
    "from_covariances",
    "graph",
    "lattice",
    "on_polygon",
    "sample_covariance",
    "sampled_spectrum",
    "wrap",
    "wrapped_spectrum",
    "yule_walker",
]
