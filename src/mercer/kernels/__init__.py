"""Covariance functions and their algebra.

>>> from mercer import kernels as k
>>> k.SE(lengthscale=1.0, variance=2.0) + 0.5 * k.Periodic(period=1.0) * k.SE(10.0)
"""

from mercer.kernels.algebra import On, Power, Product, Scale, Sum
from mercer.kernels.base import AbstractKernel
from mercer.kernels.dot import Constant, Linear, Polynomial
from mercer.kernels.parse import KernelSyntaxError, parse
from mercer.kernels.stationary import SE, AbstractStationary, GammaExponential, Matern, Periodic, RationalQuadratic

__all__ = [
    "SE",
    "AbstractKernel",
    "AbstractStationary",
    "Constant",
    "GammaExponential",
    "KernelSyntaxError",
    "Linear",
    "Matern",
    "On",
    "Periodic",
    "Polynomial",
    "Power",
    "Product",
    "RationalQuadratic",
    "Scale",
    "Sum",
    "parse",
]
