"""A fit as a text table: what was learned, how sure the optimiser is, and what a person should look at."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.kernels import Shared
from mercer.learning.climb import AS_GIVEN
from mercer.likelihoods import Gaussian
from mercer.params import element_names, parameters
from mercer.tables import text_table

STRAIGHT = 100.0  # a length-scale this many times the range of its input lets f hardly bend along it


MANY_HELD = 6  # numbers of one hyperparameter that is not learned: more are counted, not listed


def summary(fit: Any) -> str:
    """Table of hyperparameters with gradients and notes, then how the optimiser ended, and what each
    posterior says of itself.
    """
    posteriors = fit.posteriors
    rows = []
    for p in parameters(fit.model):
        values = np.atleast_1d(p.value).ravel()
        of_rows = not p.free and np.shape(p.value) == posteriors[0].y.shape
        if values.size > (200 if p.free else MANY_HELD) or of_rows:
            rows.append((p.name, f"{values.size} values", "", p.status, ""))
            continue
        for name, value in zip(element_names(p.name, np.shape(p.value)), values, strict=True):
            gradient = f"{fit.gradient[name]:.2g}" if name in fit.gradient else ""
            rows.append((name, f"{value:.6g}", gradient, p.status, _note(p, name, value, posteriors[0])))
    lines = text_table(("hyperparameter", "value", "gradient", "status", "note"), rows)
    lines.append("")
    if len(posteriors) > 1:
        total = sum(q.log_evidence for q in posteriors)
        lines.append(f"log evidence of {len(posteriors)} data sets: {total:.4f}")
    if fit.objective != "evidence":
        lines.append(f"objective ({fit.objective}): {fit.value:.4f}")
    if fit.log_prior:
        lines.append(f"log prior: {fit.log_prior:.4f}")
    s = fit.status
    ended = (
        s.message
        if s.message == AS_GIVEN
        else f"{'converged' if s.converged else 'NOT converged'}, {s.evaluations} evaluations, "
        f"{s.seconds:.2f} s, "
        f"largest gradient {s.gradient_norm:.2g}"
        + f"; best of {len(s.starts)} " * bool(s.starts)
        + ", ".join(f"{k} {v:.2f}" for k, v in s.starts.items())
    )
    lines.append(f"optimiser: {ended}")
    return "\n".join([*lines, *(q.summary() for q in posteriors)])


def _note(p, name: str, value: float, posterior) -> str:
    if p.info.bounds is not None and p.free:
        lo, hi = p.info.bounds
        if np.isclose(value, lo, rtol=1e-5):
            return f"at its lower bound {lo:g}"
        if np.isclose(value, hi, rtol=1e-5):
            return f"at its upper bound {hi:g}"
    likelihood = posterior.model.likelihood
    if p.name == "likelihood.noise_variance" and isinstance(likelihood, Gaussian):
        little = value < 1e-6 * np.var(posterior.y) and likelihood.error is None and likelihood.slopes is None
        group = "" if likelihood.by is None else likelihood.by.value.labels[_element(name)]
        return ", ".join(filter(None, (group, "almost no noise" if little else "")))
    X = posterior.inputs.values
    if p.name == "kernel.lengthscale" and X.dtype != object:
        kernel = posterior.model.gp.kernel
        if isinstance(kernel, Shared):
            return kernel.names[_element(name)] if kernel.names else ""
        column = _element(name) if "[" in name else None
        spread = np.ptp(X, 0)[column] if column is not None else np.ptp(X, 0).max()
        label = posterior.inputs.names[column] if posterior.inputs.names and column is not None else ""
        if spread > 0 and value > STRAIGHT * spread:
            return f"{label} straight or flat (far longer than the data)".strip()
        return label
    return ""


def _element(name: str) -> int:
    """Which one of a vector: 2 of `kernel.lengthscale[2]`."""
    return int(name.rsplit("[", 1)[1][:-1])
