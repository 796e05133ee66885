"""Mercer's part of the large-data task."""

from __future__ import annotations

import time

import numpy as np
from scipy.linalg import blas

import mercer as mc
from benchmarks.peers import Timer, versions
from mercer import kernels as k
from mercer.solvers import KISS, VFE


def sgpr(data: str, repeats: int) -> dict:
    """The bound and its gradient at fixed hyperparameters, and its products alone: trsm and syrk forward,
    two gemms backward.
    """
    arrays = np.load(data)
    X, y, Z = arrays["X"], arrays["y"], arrays["Z"]
    (n, d), m = X.shape, Z.shape[0]
    model = mc.Model(mc.GP(k.SE(lengthscale=np.full(d, 2.0), variance=1.0)), mc.likelihoods.Gaussian(0.1))
    seconds, bare = [], []
    rng = np.random.default_rng(0)
    L = np.asfortranarray(np.tril(rng.normal(size=(m, m))) / m + 2 * np.eye(m))
    Psi = np.asfortranarray(rng.normal(size=(m, n)))
    for _ in range(repeats + 1):
        with Timer() as timer:
            value, _ = mc.log_evidence_and_gradient(model, X, y, solver=VFE(inducing=Z))
        seconds.append(timer.seconds)
        with Timer() as timer:
            V = blas.dtrsm(1.0, L, Psi, lower=1, overwrite_b=0)
            blas.dsyrk(1.0, V)
            blas.dgemm(1.0, L, V)
            blas.dgemm(1.0, L, V)
        bare.append(timer.seconds)
    return {
        "seconds": seconds[1:],
        "bare": bare[1:],
        "evidence": float(value),
        "versions": versions("mercer", "jax"),
    }


def kiss(data: str, grid: int, lengthscale: float, noise_variance: float, repeats: int) -> dict:
    """The estimated log evidence and its gradient at fixed hyperparameters, nothing kept between them."""
    arrays = np.load(data)
    X, y = arrays["X"], arrays["y"]
    kernel = k.SE(lengthscale=np.full(X.shape[1], lengthscale), variance=1.0)
    model = mc.Model(mc.GP(kernel), mc.likelihoods.Gaussian(noise_variance))
    seconds = []
    for _ in range(repeats + 1):
        with Timer() as timer:
            value, _ = mc.log_evidence_and_gradient(model, X, y, solver=KISS(grid=grid))
        seconds.append(timer.seconds)
    return {"seconds": seconds[1:], "evidence": float(value), "versions": versions("mercer", "jax")}


def svgp(data: str, m: int, batch: int, epochs: int) -> dict:
    """SVGP; `course` holds (seconds, held-out NLPD) of whole fits with one and with three epochs."""
    arrays = np.load(data)
    X, y, Xs, ys = (arrays[name] for name in ("X", "y", "Xs", "ys"))
    model = mc.Model(mc.GP(k.SE(lengthscale=np.ones(X.shape[1]), variance=1.0)), mc.likelihoods.Gaussian(0.1))
    course = []
    for e in (1, 3):
        with Timer() as timer:
            found = mc.fit(model, X, y, inference=mc.inference.SVGP(m=m, batch=batch, epochs=min(e, epochs)))
            nlpd = -float(np.mean(found.posterior.log_density(Xs, ys)))
        course.append((timer.seconds, nlpd))
    return {
        "seconds": course[-1][0],
        "nlpd": course[-1][1],
        "course": course,
        "versions": versions("mercer", "jax"),
    }


def svgp_race(data: str, m: int, batch: int, epochs: list[int], seed: int, classes: bool) -> dict:
    """`course`: processor seconds of whole fits with so many epochs, start and posterior included, and the
    NLPD of held-out data, after a fit of a few batches, which compiles.
    """
    arrays = np.load(data)
    X, y, Xs, ys = (arrays[name] for name in ("X", "y", "Xs", "ys"))
    likelihood = mc.likelihoods.Bernoulli("probit") if classes else mc.likelihoods.Gaussian(0.1)
    model = mc.Model(mc.GP(k.SE(lengthscale=np.ones(X.shape[1]), variance=1.0)), likelihood)
    few, course = 10 * batch, []
    for rows, e in ((few, 1), *((len(y), e) for e in epochs)):
        began = time.process_time()
        rule = mc.inference.SVGP(m=m, batch=batch, epochs=e, seed=seed)
        post = mc.fit(model, X[:rows], y[:rows], inference=rule, progress=False).posterior
        seconds = time.process_time() - began
        course.append((seconds, -float(np.mean(post.log_density(Xs, ys))), e))
    return {"course": course[1:], "versions": versions("mercer", "jax")}
