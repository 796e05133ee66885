"""Models that a page evaluates itself: kernels, means, warps and columns as JSON, in the words of its script.

What the script does not know is a `NotKnown`, whose message says so for people.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mercer import kernels as k
from mercer import warps
from mercer.columns import Columns
from mercer.columns.roles import PERIODS, AbstractColumn, Category, Date, LeftOut, Number, Raw
from mercer.kernels.base import AbstractKernel
from mercer.likelihoods import AbstractLikelihood, Bernoulli, Gaussian, MultinomialProbit, Softmax, Warped
from mercer.likelihoods.warped import NODES, SHARES
from mercer.means import AbstractMean, Constant, Linear, Zero
from mercer.params import Static

__all__ = ["NotKnown", "answer", "cells", "column_data", "encoded", "floats", "kernel_data", "mean_data"]

Z95 = 1.959963984540054
MS = 86_400_000  # milliseconds of a day
MOST_ORDER = 6  # of a half-integer Matern


class NotKnown(Exception):
    """The page's script cannot evaluate this."""


def floats(values: Any) -> str:
    """Numbers as text, to the last bit."""
    return base64.b64encode(np.ascontiguousarray(values, dtype="<f8").tobytes()).decode()


# ------------------------------------------------------------------------------------------------- kernels


def kernel_data(kernel: AbstractKernel) -> dict[str, Any]:
    """A kernel that is bound to its columns."""
    if isinstance(kernel, k.Shared):
        return kernel_data(kernel.expanded())
    for cls, write in _WRITERS.items():
        if type(kernel) is cls:
            found: dict[str, Any] = write(kernel)
            return found
    raise NotKnown(f"the script of this page does not know the kernel {type(kernel).__name__}")


def _list(value: Any) -> list[float]:
    return np.atleast_1d(np.asarray(value, float)).tolist()


def _stationary(kernel: Any, **form: Any) -> dict[str, Any]:
    if kernel.loadings is not None:
        raise NotKnown("the script of this page does not know kernels with loadings")
    scales = {"lengthscale": _list(kernel.lengthscale), "variance": float(kernel.variance)}
    return {"kind": "stationary", **scales, **form}


def _matern(kernel: Any) -> dict[str, Any]:
    p = float(kernel.nu) - 0.5
    if not isinstance(kernel.nu, Static) or p != int(p) or p > MOST_ORDER:
        raise NotKnown(f"the script of this page does not know the Matern kernel of order {kernel.nu:g}")
    p, f = int(p), math.factorial
    poly = [f(p) / f(2 * p) * f(2 * p - j) / (f(p - j) * f(j)) * 2.0**j for j in range(p + 1)]  # (4.16)
    return _stationary(kernel, form="matern", nu=float(kernel.nu), poly=poly)


def _linear(kernel: Any) -> dict[str, Any]:
    centre = [0.0] if kernel.centre is None else _list(kernel.centre)
    return {"kind": "linear", "variance": _list(kernel.variance), "centre": centre}


def _polynomial(kernel: Any) -> dict[str, Any]:
    if kernel.factor is not None:
        raise NotKnown("the script of this page does not know polynomial kernels with a factor")
    numbers = {"offset": float(kernel.offset), "variance": float(kernel.variance)}
    return {"kind": "polynomial", "degree": int(kernel.degree), **numbers}


def _periodic(kernel: Any) -> dict[str, Any]:
    both = {"period": _list(kernel.period), "lengthscale": _list(kernel.lengthscale)}
    return {"kind": "periodic", "variance": float(kernel.variance), **both}


def _parts(kind: str) -> Callable[[Any], dict[str, Any]]:
    return lambda kernel: {"kind": kind, "parts": [kernel_data(part) for part in kernel.parts]}


_WRITERS: dict[type, Callable[[Any], dict[str, Any]]] = {
    k.SE: lambda kernel: _stationary(kernel, form="se"),
    k.Matern: _matern,
    k.RationalQuadratic: lambda kernel: _stationary(kernel, form="rq", alpha=float(kernel.alpha)),
    k.GammaExponential: lambda kernel: _stationary(kernel, form="gamma", gamma=float(kernel.gamma)),
    k.Periodic: _periodic,
    k.Linear: _linear,
    k.Polynomial: _polynomial,
    k.Constant: lambda kernel: {"kind": "constant", "variance": float(kernel.variance)},
    k.Sum: _parts("sum"),
    k.Product: _parts("product"),
    k.Scale: lambda one: {"kind": "scale", "variance": float(one.variance), "part": kernel_data(one.kernel)},
    k.On: lambda one: {"kind": "on", "columns": list(map(int, one.columns)), "part": kernel_data(one.kernel)},
}


def mean_data(mean: AbstractMean) -> dict[str, Any]:
    """A prior mean: a number and weights of the encoded columns."""
    if isinstance(mean, Zero):
        return {"constant": 0.0, "weights": []}
    if isinstance(mean, Constant):
        return {"constant": float(np.asarray(mean.constant)), "weights": []}
    if isinstance(mean, Linear) and np.ndim(mean.weights):
        return {"constant": float(np.asarray(mean.intercept)), "weights": _list(mean.weights)}
    raise NotKnown(f"the script of this page does not know the mean {type(mean).__name__}")


# ------------------------------------------------------------------------------------- what is predicted


def answer(likelihood: AbstractLikelihood, labels: Sequence[str] = ()) -> dict[str, Any]:
    """How the script gets from the function to what is predicted; `labels` of classes."""
    if isinstance(likelihood, Gaussian):
        noise = np.asarray(likelihood.noise_variance, float)
        return {"kind": "gaussian", "z": Z95, "noise": float(noise) if noise.ndim == 0 else 0.0}
    if isinstance(likelihood, Warped):
        noise = np.asarray(likelihood.noise_variance, float)
        if noise.ndim:
            raise NotKnown("the script of this page does not know warped targets with the noise of each row")
        nodes = {"nodes": NODES.tolist(), "shares": SHARES.tolist()}
        warp = warp_data(likelihood.warp)
        return {"kind": "warped", "z": Z95, "noise": float(noise), "warp": warp} | nodes
    if isinstance(likelihood, Bernoulli) and float(likelihood.flip) == 0.0:
        return {"kind": likelihood.link, "labels": list(labels)}
    if isinstance(likelihood, MultinomialProbit):
        return {"kind": "probit-classes", "labels": list(labels)}
    if isinstance(likelihood, Softmax):
        return {"kind": "softmax", "labels": list(labels)}
    if likelihood.mean_is_latent:
        return {"kind": "gaussian", "z": Z95, "noise": 0.0}
    raise NotKnown(f"the script of this page does not know the likelihood {type(likelihood).__name__}")


def warp_data(warp: warps.AbstractWarp) -> dict[str, Any]:
    """A warp of the target."""
    kinds = {"Log": "log", "Logit": "logit", "BoxCox": "box-cox", "YeoJohnson": "yeo-johnson", "Tanh": "tanh"}
    name = type(warp).__name__
    if name not in kinds or type(warp) is not getattr(warps, name):
        raise NotKnown(f"the script of this page does not know the warp {name}")
    fields = ("lower", "upper", "power", "unit", "centre", "height", "steepness", "place")
    numbers = {f: np.asarray(vars(warp)[f], float).tolist() for f in fields if f in vars(warp)}
    return {"kind": kinds[name]} | numbers


# ------------------------------------------------------------------------------------------------- columns


def column_data(columns: Columns, X: np.ndarray) -> list[dict[str, Any]]:
    """What the columns of a table are, and between which ends, and where, their controls stand: from the
    encoded training inputs X (n, d). Columns that were left out have none.
    """
    places = columns.groups
    return [
        _column(column, values)
        for column, values in zip(
            [c for c in columns.columns if not isinstance(c, LeftOut)], cells(columns, X), strict=True
        )
        if places[column.name]
    ]


def _column(column: AbstractColumn, values: np.ndarray) -> dict[str, Any]:
    if isinstance(column, Category):
        shown = ["(empty)" if level is None else level for level in column.levels]
        shown += ["(other)"] if column.rare else []
        start = int(np.bincount(values.astype(int)).argmax())
        labels = [*shown, "(new)"]
        return dict(name=column.name, type="category", labels=labels, width=len(labels), start=start)
    seen = values[np.isfinite(values)]
    low, high = float(seen.min()), float(seen.max())
    if not high > low:
        low, high = low - 1.0, high + 1.0
    middle, step = float(np.median(seen)), float(f"{(high - low) / 200:.2g}")
    if isinstance(column, Date) or np.all(seen == np.round(seen)):
        middle, step = float(np.round(middle)), max(1.0, float(np.round(step)))
    else:
        middle = float(f"{middle:.4g}")
    common: dict[str, Any] = dict(name=column.name, low=low, high=high, start=middle, step=step)
    if isinstance(column, Date):
        periods = [PERIODS[season] for season in column.seasons]
        origin = f"{np.datetime64(column.origin, 'ms')}Z"
        return common | dict(type="date", origin=origin, periods=periods, fill=column.fill)
    if isinstance(column, Number):
        return common | dict(type="number", fill=column.fill)
    if isinstance(column, Raw) and not column.objects:
        return common | dict(type="number", fill=None)
    raise NotKnown(f"the script of this page does not know columns like {column.name!r}")


def cells(columns: Columns, X: np.ndarray) -> list[np.ndarray]:
    """The columns that encoded inputs X (n, d) came from, as numbers: of a category the position of the
    level, of a date days; NaN where a cell was empty.
    """
    if X.dtype == object:
        raise NotKnown("the script of this page reads numbers, categories and dates alone")
    found, places = [], columns.groups
    for column in columns.columns:
        part = X[:, list(places[column.name])]
        if isinstance(column, LeftOut):
            continue
        if isinstance(column, Category):
            found.append(part.argmax(1).astype(float))
        elif isinstance(column, Number | Date) and column.fill is not None:
            found.append(np.where(part[:, -1] > 0.5, np.nan, part[:, 0]))
        else:
            found.append(part[:, 0])
    return found


def encoded(columns: Columns, values: dict[str, np.ndarray]) -> np.ndarray:
    """Inputs (m, d) from columns as `cells` gives them, by name: what the script does with a row."""
    parts = []
    for column in columns.columns:
        if isinstance(column, LeftOut):
            continue
        one = np.asarray(values[column.name], float)
        if isinstance(column, Category):
            part = np.zeros((len(one), column.width))
            part[np.arange(len(one)), one.astype(int)] = np.sqrt(0.5)
            parts.append(part)
            continue
        seasons = column.seasons if isinstance(column, Date) else ()
        angles = [2 * np.pi * one / PERIODS[season] for season in seasons]
        part = np.column_stack([one, *(turn(angle) for angle in angles for turn in (np.sin, np.cos))])
        fill = column.fill if isinstance(column, Number | Date) else None
        if fill is not None:
            empty = np.isnan(one)
            part = np.column_stack([part, empty])
            part[empty, :-1] = 0.0
            part[empty, 0] = fill
        parts.append(part)
    return np.concatenate(parts, 1)
