"""Latent variable models of tables: rows as points of a space with few dimensions.

`bound` is the lower bound of the evidence of the Bayesian GPLVM at a `Variational`, `log_joint_and_gradient`
the density that the other one climbs at `Points`; both of a `Grouped` table with empty cells.
`psi1` and `psi2` are expectations of the squared exponential at Gaussian points. People use
`mercer.GPLVM`, which learns all of it and answers in the units of the table.

>>> table = latent.grouped(Y)                                          # NaN: an empty cell
>>> latent.bound(latent.Variational(kernels.SE(np.ones(2)), 0.1, mu, np.log(s), Z), table)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mercer.registry import exporter

if TYPE_CHECKING:
    from mercer.latent.bayesian import Variational, bound, bound_and_gradient
    from mercer.latent.expectations import psi1, psi2
    from mercer.latent.mapping import Mapping
    from mercer.latent.mode import Points, log_joint_and_gradient
    from mercer.latent.table import Grouped, grouped, principal_points

__all__ = [
    "Grouped",
    "Mapping",
    "Points",
    "Variational",
    "bound",
    "bound_and_gradient",
    "grouped",
    "log_joint_and_gradient",
    "principal_points",
    "psi1",
    "psi2",
]

__getattr__ = exporter(
    __name__,
    {
        "bayesian": "Variational bound bound_and_gradient",
        "expectations": "psi1 psi2",
        "mapping": "Mapping",
        "mode": "Points log_joint_and_gradient",
        "table": "Grouped grouped principal_points",
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)
