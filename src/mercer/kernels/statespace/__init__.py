"""Kernels of time as linear stochastic differential equations: f(t) = h(t) . x(t) with a Markov state x (GPML
appendix B).

`state_space(kernel)` gives the form of a kernel on one column, exact for Matern of half-integer order, Wiener
processes and their integrals, the integrated Ornstein-Uhlenbeck process, Brownian bridges, polynomials,
cosines, and sums, products and whole powers of those. The SE and the periodic kernels have no finite state:
they are approximated to a tolerance.

>>> form = state_space(Matern(nu=1.5) * Periodic(7.0) + Linear(0.1))
>>> form.size, form.error()
"""

from mercer.kernels.statespace.algebra import PowerForm, ProductForm, ScaleForm, SumForm
from mercer.kernels.statespace.expansions import MOST_HARMONICS, SE_ORDERS, PeriodicForm, SEForm
from mercer.kernels.statespace.form import (
    TOLERANCE,
    AbstractForm,
    AbstractKernelForm,
    AbstractWeights,
    NoStateSpace,
    chain,
    chain_by_steps,
    state_space,
)
from mercer.kernels.statespace.processes import (
    BridgeForm,
    FeatureForm,
    IntegratedForm,
    MaternForm,
    WienerForm,
)

__all__ = [
    "MOST_HARMONICS",
    "SE_ORDERS",
    "TOLERANCE",
    "AbstractForm",
    "AbstractKernelForm",
    "AbstractWeights",
    "BridgeForm",
    "FeatureForm",
    "IntegratedForm",
    "MaternForm",
    "NoStateSpace",
    "PeriodicForm",
    "PowerForm",
    "ProductForm",
    "SEForm",
    "ScaleForm",
    "SumForm",
    "WienerForm",
    "chain",
    "chain_by_steps",
    "state_space",
]
