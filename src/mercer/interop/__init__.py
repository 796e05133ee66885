"""Thin adapters to other libraries: gridded data of xarray, tables as they came in, sktime's forecasters.
Each is imported when first used; `mercer.interop.sktime.GPForecaster` by its module, since it needs sktime.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mercer.registry import exporter

if TYPE_CHECKING:
    from mercer.interop.frames import predict_frame
    from mercer.interop.grids import fit_grid, predict_grid

__all__ = ["fit_grid", "predict_frame", "predict_grid"]

__getattr__ = exporter(__name__, {"frames": "predict_frame", "grids": "fit_grid predict_grid"})


def __dir__() -> list[str]:
    return sorted(__all__)
