"""The what-if panel of a report: fitted functions as the page's script evaluates them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from mercer.columns import Columns
from mercer.estimators.reports.shared import titled
from mercer.likelihoods import AbstractNoise, Gaussian
from mercer.posteriors import AbstractPosterior
from mercer.report import Section, Text, WhatIf, live
from mercer.report.live import NotKnown
from mercer.selection.pivoted import pivoted_cholesky

MEAN_ROWS, BAND_ROWS = 2000, 500  # up to which the page computes means, and factors K itself
RANK = 192  # of a stored variance
PROBES = 256  # places at which its error is looked at
MOST_BYTES = 900_000  # of one panel


@dataclasses.dataclass(frozen=True, eq=False)
class Live:
    """One thing that is predicted: its name, the posterior, and the labels of classes."""

    name: str
    posterior: AbstractPosterior
    labels: tuple[str, ...] = ()


def whatif_section(columns: Columns | None, predicted: Sequence[Live], leading: str | None = None) -> Section:
    """The panel, or why there is none. leading: the column that is drawn first."""
    try:
        if columns is None:
            raise NotKnown("the model reads no table")
        part = WhatIf(_data(columns, predicted, leading))
    except NotKnown as why:
        return no_panel(str(why))
    text = (
        "Change the inputs, and the page computes the prediction itself, from the model's own covariances. "
        "The curve is along the input that was changed last."
    )
    return titled("what-if", (Text(text), part))


def no_panel(why: str) -> Section:
    """Why there is no panel."""
    return titled("what-if", (Text(f"There are no sliders here: {why}."),))


def _data(columns: Columns, predicted: Sequence[Live], leading: str | None) -> dict[str, Any]:
    inputs = predicted[0].posterior.inputs.values
    data = live.column_data(columns, inputs)
    functions, about = [], []
    for one in predicted:
        found, said = _function(columns, one)
        functions.append(found)
        about += [] if said in about else [said]
    size = sum(len(cell) for f in functions for cell in f["cells"])
    size += sum(len(one[key] or "") for f in functions for one in f["latents"] for key in _ARRAYS)
    if size > MOST_BYTES:
        raise NotKnown(
            f"the data would take {size / 1e6:.1f} MB of this page, more than {MOST_BYTES / 1e6:g}"
        )
    names = [c["name"] for c in data]
    along = names.index(leading) if leading in names else 0
    return dict(columns=data, functions=functions, about=" ".join(about), along=along, level=95)


_ARRAYS = ("alpha", "precision", "lowRank")


def _function(columns: Columns, one: Live) -> tuple[dict[str, Any], str]:
    posterior: Any = one.posterior
    likelihood = posterior.model.likelihood
    if posterior.averages:
        raise NotKnown("predictions average over many settings of the hyperparameters")
    weights = posterior.state.mean_weights()
    if weights is None or weights.beta is not None:
        raise NotKnown("the posterior mean is not a sum of covariances with the data alone")
    X = posterior.inputs.values if weights.inducing is None else weights.inducing
    if len(X) > MEAN_ROWS:
        raise NotKnown(f"the model has {len(X):,} rows, and the page computes with up to {MEAN_ROWS:,}")
    if weights.inducing is not None and not columns.plain:
        raise NotKnown("the model has inducing inputs, between levels of categories")
    priors = posterior.state.prior if isinstance(posterior.state.prior, tuple) else (posterior.state.prior,)
    latents = np.asarray(weights.weights, float)
    priors = priors * latents.shape[1] if len(priors) == 1 else priors
    answer = live.answer(likelihood, one.labels)
    found: list[dict[str, Any]] = [
        {
            "kernel": live.kernel_data(prior.kernel),
            "mean": live.mean_data(prior.mean),
            "alpha": live.floats(latents[:, j]),
            "precision": None,
            "lowRank": None,
            "pivots": [],
            "jitter": 0.0,
        }
        for j, prior in enumerate(priors)
    ]
    said = _latent_only(likelihood, answer) if len(found) > 1 else _band(posterior, weights, found[0], answer)
    cells = [live.floats(column) for column in live.cells(columns, X)]
    return {"name": one.name, "cells": cells, "latents": found, "answer": answer}, said


def _latent_only(likelihood: Any, answer: dict[str, Any]) -> str:
    return (
        'Probabilities are those at the posterior mean of the functions, predict_proba(X, how="map"): surer '
        "than predict_proba, which averages over what is not known of them."
    )


def _band(posterior: Any, weights: Any, found: dict[str, Any], answer: dict[str, Any]) -> str:
    """Put what a variance needs into `found`; what is said of it."""
    state, likelihood = posterior.state, posterior.model.likelihood
    precision = np.asarray(state.sites.precision, float)
    regular = precision.ndim == 2 and precision.shape[1] == 1 and state.sites.coupling is None
    if not state.exact or weights.inducing is not None or not regular or not np.isfinite(precision).all():
        if answer["kind"] in ("warped", "probit", "logit"):
            raise NotKnown(
                "the variance of the function is not known to the page, and the prediction needs it"
            )
        return "There is no interval: the variance of this approximation is not known to the page."
    if (precision < 0).any():
        raise NotKnown("the posterior has sites of negative precision")
    what = "the noise-free function" if _of_function(likelihood) else "a new observation"
    interval = "" if answer["kind"] in ("probit", "logit") else f" The interval is that of {what}."
    if len(posterior.y) <= BAND_ROWS:
        found |= {"precision": live.floats(precision[:, 0]), "jitter": float(state.jitter)}
        return f"Computed from all {len(posterior.y)} rows, exactly as by predict.{interval}"
    A, pivots, error = low_rank(posterior)
    found |= {"lowRank": live.floats(A[np.tril_indices(len(A))]), "pivots": pivots.tolist()}
    means = "Means are computed from all rows, as by predict." if answer["kind"] == "gaussian" else ""
    return (
        f"{means}{interval} Its variance is stored with rank {len(A)}: at {PROBES} places among the data its "
        f"standard deviation is off by {100 * np.median(error):.2g} % (median) and at most "
        f"{100 * np.max(error):.2g} %."
    ).strip()


def _of_function(likelihood: Any) -> bool:
    """Whether the script's interval leaves out the noise."""
    grouped = isinstance(likelihood, Gaussian) and np.ndim(likelihood.noise_variance) > 0
    return grouped or isinstance(likelihood, AbstractNoise) or not isinstance(likelihood, Gaussian)


def low_rank(posterior: Any, rank: int = RANK) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A (k, k) and the rows Z (k,) with which k(x, x) - k(x, Z) A k(Z, x) is close to the posterior variance
    of f, and the relative errors of its root, of a new observation's where noise is Gaussian, at places among
    the data.

    k(x, X) is seen through Z, k(x, Z) K_ZZ^-1 K_ZX, so that A = K_ZZ^-1 K_ZX R K_XZ K_ZZ^-1. With G G' the
    pivoted Cholesky factor of K, K_XZ K_ZZ^-1 = G G_Z^-1.
    """
    state, X = posterior.state, posterior.inputs.values
    kernel = state.prior.kernel
    G, pivots, _ = pivoted_cholesky(kernel, X, rank, tol=1e-10)
    inner = G.T @ state.apply(G)
    inverse = np.linalg.inv(G[pivots])
    A = inverse.T @ (0.5 * (inner + inner.T)) @ inverse
    rng = np.random.default_rng(0)
    rows = X[rng.integers(0, len(X), (2, PROBES))]
    places = np.where(rng.random((PROBES, 1)) < 0.5, rows[0], 0.5 * (rows[0] + rows[1]))
    cross = np.asarray(kernel(places, X[pivots]))
    about = np.asarray(kernel.diag(kernel.encode(places))) - np.einsum("mi,ij,mj->m", cross, A, cross)
    _, exact = posterior.latent_moments(places)
    likelihood = posterior.model.likelihood
    noise = 0.0 if _of_function(likelihood) else float(np.asarray(likelihood.noise_variance))
    stds = [np.sqrt(np.maximum(v, 0.0) + noise) for v in (about, np.ravel(exact))]
    return A, pivots, np.abs(stds[0] - stds[1]) / np.maximum(stds[1], 1e-300)
