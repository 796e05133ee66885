"""A kernel at a glance: its covariance, functions drawn from it, its spectrum."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.kernels import AbstractKernel, SpectralError, line_spectrum
from mercer.kernels.traits import columns_of
from mercer.viz._style import BLUE, CYCLE, GREY, frame, legend
from mercer.viz._subject import line

POINTS = 401


def kernel(
    kernel: AbstractKernel, X: Any = None, at: Any = None, samples: int = 3, seed: Any = 0, column: int = 0,
    axes: Any = None, xlabel: str = "x",
) -> Any:  # fmt: skip
    """Covariance, sample paths and spectrum of a kernel, side by side. Returns the array of three Axes.

    `X` (m, 1), or a vector, says where along the input `column` (the others are held at 0); default: a few
    length-scales or periods. A kernel that is not stationary has its covariance with each of the inputs `at`
    (a few numbers) in the first panel and its matrix in the third; of a stationary one they are the profile
    and the spectral density (or lines).

    >>> viz.kernel(kernels.Matern(nu=1.5, lengthscale=0.7))
    """
    if not isinstance(kernel, AbstractKernel):
        raise TypeError(f"viz.kernel draws a kernel, got {type(kernel).__name__}.")
    if kernel.reads_objects():
        raise ValueError(
            f"{kernel.formula()} is of inputs that are not numbers: there is no line to draw it along."
        )
    bound, d = columns_of(kernel)
    if not 0 <= column < d:
        raise ValueError(f"column {column} is not one of the kernel's {d}.")
    x = _where(bound.traits(d), column) if X is None else line(X, "viz.kernel")[1]
    stationary = bound.traits(d).stationary
    if axes is None:
        import matplotlib.pyplot as plt

        _, axes = plt.subplots(1, 3, figsize=(9.6, 2.7), layout="constrained")
    axes = np.ravel(axes)
    if len(axes) != 3:
        raise ValueError(f"viz.kernel draws three panels, but {len(axes)} Axes were given.")
    table = lambda values: np.where(np.arange(d) == column, np.reshape(values, (-1, 1)), 0.0)  # noqa: E731
    (_profile if stationary else _sections)(bound, x, at, table, axes[0], xlabel)
    _paths(bound, x, table, samples, seed, axes[1], xlabel)
    (_spectrum if stationary else _matrix)(bound, x, table, axes[2], xlabel, d)
    return axes


def _where(traits, column: int) -> np.ndarray:
    """Four length-scales on each side of 0, or two periods (with both, as much as twelve of them);
    else from -3 to 3.
    """
    length, period = (
        None if v is None else np.ravel(v)[column % np.size(v)] for v in (traits.lengthscale, traits.period)
    )
    half = 3.0 if length is None else 4 * length
    if period is not None:
        half = 2 * period if length is None else min(half, 6 * period)
    return np.linspace(-half, half, POINTS)


def _profile(kernel, x, at, table, ax, xlabel: str) -> None:
    frame(ax, f"{xlabel} - {xlabel}′", "covariance")
    tau = np.linspace(0, np.ptp(x) / 2, POINTS)
    ax.axhline(0, color=GREY, linewidth=0.8)
    ax.plot(tau, kernel(table(tau), table([0.0]))[:, 0], color=BLUE, linewidth=1.6)
    ax.set_xlim(0, tau[-1])


def _sections(kernel, x, at, table, ax, xlabel: str) -> None:
    frame(ax, xlabel, f"covariance with f({xlabel}′)")
    points = np.quantile(x, [0.2, 0.5, 0.85]) if at is None else np.ravel(np.asarray(at, float))
    ax.axhline(0, color=GREY, linewidth=0.8)
    for i, (point, column) in enumerate(zip(points, kernel(table(x), table(points)).T, strict=True)):
        ax.plot(x, column, color=CYCLE[i % len(CYCLE)], linewidth=1.5, label=f"{xlabel}′ = {point:.3g}")
    ax.set_xlim(x.min(), x.max())
    legend(ax, columns=3)


def _paths(kernel, x, table, samples: int, seed, ax, xlabel: str) -> None:
    """By the eigenvectors of the covariance, which does not mind a degenerate one."""
    frame(ax, xlabel, f"f({xlabel})")
    values, vectors = np.linalg.eigh(kernel(table(x)))
    draws = vectors @ (
        np.sqrt(np.maximum(values, 0))[:, None]
        * np.random.default_rng(seed).standard_normal((len(x), samples))
    )
    for i, f in enumerate(draws.T):
        ax.plot(x, f, color=CYCLE[i % len(CYCLE)], linewidth=1.2)
    ax.set_xlim(x.min(), x.max())


def _spectrum(kernel, x, table, ax, xlabel: str, d: int) -> None:
    frame(ax, f"frequency / cycles per unit of {xlabel}", "spectral density")
    try:
        if d == 1 and kernel.traits(1).recurs:
            _lines(kernel, ax)
            return
        s = _frequencies(kernel, d)
        ax.plot(s, kernel.spectral_density(_along(s, d)), color=BLUE, linewidth=1.6)
        ax.set_xlim(0, s[-1])
        ax.set_ylim(bottom=0)
    except SpectralError:
        ax.set_axis_off()
        ax.text(0.5, 0.5, "no spectral density", ha="center", va="center", color=GREY, transform=ax.transAxes)


def _lines(kernel, ax) -> None:
    frequencies, weights = line_spectrum(kernel)
    ax.set_ylabel("variance at each frequency")
    ax.vlines(frequencies, 0, weights, color=BLUE, linewidth=1.8)
    ax.plot(frequencies, weights, "o", color=BLUE, markersize=3.5)
    shown = frequencies[weights > 1e-3 * weights.max()][-1]
    ax.set_xlim(-0.05 * (shown or 1.0), 1.15 * (shown or 1.0))
    ax.set_ylim(bottom=0)


def _frequencies(kernel, d: int) -> np.ndarray:
    """From 0 to where the density has fallen to a hundredth."""
    coarse = np.geomspace(1e-4, 1e4, 65)
    values = kernel.spectral_density(_along(coarse, d))
    high = coarse[min(np.flatnonzero(values > 0.01 * values.max())[-1] + 1, 64)]
    return np.linspace(0, high, 201)[1:]


def _along(s, d: int) -> np.ndarray:
    return np.pad(s[:, None], ((0, 0), (0, d - 1)))


def _matrix(kernel, x, table, ax, xlabel: str, d: int) -> None:
    frame(ax, xlabel, f"{xlabel}′")
    thin = x[:: max(1, len(x) // 200)]
    K = kernel(table(thin))
    most = np.abs(K).max()
    extent = (thin[0], thin[-1], thin[0], thin[-1])
    image = ax.imshow(
        K,
        origin="lower",
        extent=extent,
        aspect="auto",
        cmap="RdBu_r",
        vmin=-most,
        vmax=most,
        interpolation="nearest",
    )
    ax.figure.colorbar(image, ax=ax, label="covariance")
