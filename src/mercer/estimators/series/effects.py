"""What was learned of the columns of a design: their effects, and the parts of the series that they make."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.estimators.series.design import Design


def effects(design: Design, state: Any) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Labels of the columns, posterior means (p,) of their weights, and standard deviations. state: of the
    posterior.
    """
    if not design.columns:
        return [], np.zeros(0), np.zeros(0)
    weights = state.basis_weights()
    return [c.label for c in design.columns], weights.mean, np.sqrt(np.diag(weights.covariance))


def part_moments(
    design: Design, state: Any, H: np.ndarray, unsure: np.ndarray
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Mean and variance (m,) of each part H beta, by columns H (m, p) of which those of regressors are known
    up to variances `unsure` (m, k).
    """
    if not design.columns:
        return []
    weights = state.basis_weights()
    b, V = weights.mean, weights.covariance
    out = []
    for name in design.names:
        own = design.of(name)
        h = H[:, own]
        variance = np.einsum("mi,ij,mj->m", h, V[np.ix_(own, own)], h)
        of_regressors = [j for j in own if j < unsure.shape[1]]
        variance = variance + unsure[:, of_regressors] @ _squares(b, V)[of_regressors]
        out.append((h @ b[own], np.maximum(variance, 0.0)))
    return out


def carried_variance(state: Any, unsure: np.ndarray) -> np.ndarray | float:
    """What regressors of variance `unsure` (m, k) add to the variance of f: with r independent of beta,
    Var(beta r) = Var(beta E r) + (E[beta]^2 + Var(beta)) Var(r).
    """
    if not unsure.any():
        return 0.0
    weights = state.basis_weights()
    return unsure @ _squares(weights.mean, weights.covariance)[: unsure.shape[1]]


def _squares(b: np.ndarray, V: np.ndarray) -> np.ndarray:
    """E[beta^2]."""
    return b**2 + np.diag(V)


__all__ = ["carried_variance", "effects", "part_moments"]
