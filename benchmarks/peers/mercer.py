"""Mercer's own worker: the fit that the peers do, and the measures that concern Mercer alone."""

from __future__ import annotations

import ctypes
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median

import jax
import numpy as np
from scipy.linalg import blas, lapack

import mercer as mc
from benchmarks.peers import Timer, serve, versions
from benchmarks.peers.mercer_large import kiss, sgpr, svgp, svgp_race
from benchmarks.peers.mercer_sampling import draws_of_y, hyperparameters, sampling, sampling_blackjax
from benchmarks.reference import covariance
from mercer import kernels as k


def fit(data: str) -> dict:
    """An ARD squared-exponential fit with learned noise."""
    X, y = load(data)
    with Timer() as timer:
        model = mc.Model(
            mc.GP(k.SE(lengthscale=np.ones(X.shape[1]), variance=1.0)), mc.likelihoods.Gaussian(0.1)
        )
        result = mc.fit(model, X, y, objective="evidence", restarts=0, seed=0)
    learned = result.model.gp.kernel
    return {
        "seconds": timer.seconds,
        "evaluations": result.status.evaluations,
        "lengthscale": np.asarray(learned.lengthscale).tolist(),
        "variance": float(learned.variance),
        "noise_variance": float(result.model.likelihood.noise_variance),
        "converged": bool(result.status.converged),
        "versions": versions("mercer", "jax", "scipy"),
    }


def evidence(data: str, repeats: int) -> dict:
    """Evidence and gradient beside bare potrf + potri at the same n, in turn, in this process."""
    X, y = load(data)
    gp, theta = ard(X.shape[1])
    K = np.asfortranarray(covariance(X, **theta))
    mercer, bare = [], []
    for _ in range(repeats + 1):
        with Timer() as timer:
            value, gradient = mc.log_evidence_and_gradient(gp, X, y, noise_variance=theta["noise_variance"])
            jax.block_until_ready((value, gradient))
        mercer.append(timer.seconds)
        buffer = K.copy(order="F")
        with Timer() as timer:
            factor, info = lapack.dpotrf(buffer, lower=1, clean=0, overwrite_a=1)
            inverse, info_inverse = lapack.dpotri(factor, lower=1, overwrite_c=1)
        assert info == info_inverse == 0 and np.shares_memory(buffer, inverse)
        bare.append(timer.seconds)
    return {
        "first": mercer[0],
        "seconds": mercer[1:],
        "lapack": bare[1:],
        "value": float(value),
        **theta_json(theta),
    }


def evidence_memory(data: str) -> dict:
    """Growth of the resident peak over one evidence and gradient,
    after a small one has warmed everything up.
    """
    X, y = load(data)
    gp, theta = ard(X.shape[1])

    def evaluate(rows: int) -> None:
        jax.block_until_ready(
            mc.log_evidence_and_gradient(gp, X[:rows], y[:rows], noise_variance=theta["noise_variance"])
        )

    evaluate(min(600, len(y)))
    return {"bytes": peak_growth(lambda: evaluate(len(y))), "square": 8 * len(y) ** 2}


def evidence_compilations(data: str, sizes: list[int]) -> dict:
    """Compilations at the first n, and those that each further n adds."""
    X, y = load(data)
    gp, theta = ard(X.shape[1])
    counts = []
    for n in sizes:
        before = compilations()
        jax.block_until_ready(
            mc.log_evidence_and_gradient(gp, X[:n], y[:n], noise_variance=theta["noise_variance"])
        )
        counts.append(compilations() - before)
    return {"sizes": sizes, "counts": counts}


def growth(data: str, start: int, stop: int) -> dict:
    """Compilations of ``GPRegressor().fit`` and ``predict`` at n = start,
    and of all the n after it up to stop.
    """
    X, y = load(data)
    counts = []
    for n in range(start, stop + 1):
        before = compilations()
        mc.GPRegressor().fit(X[:n], y[:n]).predict(X[:n], return_std=True)
        counts.append(compilations() - before)
    return {"first": counts[0], "further": sum(counts[1:]), "counts": counts}


def small(data: str, repeats: int) -> dict:
    """Seconds of ``GPRegressor().fit`` in a warm process."""
    X, y = load(data)
    seconds = []
    for _ in range(repeats + 2):
        with Timer() as timer:
            mc.GPRegressor().fit(X, y)
        seconds.append(timer.seconds)
    return {"first": seconds[0], "seconds": seconds[2:], "median": median(seconds[2:])}


def predict(data: str, rows: int) -> dict:
    """Mean and variance of f at many rows: seconds,
    and the growth of the resident peak beyond the two results.
    """
    X, y = load(data)
    gp, theta = ard(X.shape[1])
    posterior = gp.condition(X, y, noise_variance=theta["noise_variance"])
    Xs = np.random.default_rng(1).standard_normal((rows, X.shape[1]))
    outcome: dict[str, np.ndarray] = {}

    def evaluate(Xs: np.ndarray) -> None:
        outcome["mean"], outcome["variance"] = posterior.latent_moments(Xs)

    evaluate(Xs[: min(rows, 10_000)])
    with Timer() as timer:
        growth = peak_growth(lambda: evaluate(Xs))
    finite = bool(np.isfinite(outcome["mean"]).all() and (outcome["variance"] >= 0).all())
    return {
        "seconds": timer.seconds,
        "bare": bare_solves(covariance(X, **theta), rows),
        "bytes": growth - 16 * rows,
        "rows": rows,
        "finite": finite,
    }


def bare_solves(K: np.ndarray, rows: int, block: int = 1024) -> float:
    """Seconds of as many triangular solutions with the factor of K, by bare dtrsm in blocks; every tenth of
    them is made.
    """
    L = np.asfortranarray(np.linalg.cholesky(K))
    B = np.asfortranarray(np.random.default_rng(2).standard_normal((len(K), min(block, rows))))
    seconds, blocks = 0.0, max(1, rows // (10 * B.shape[1]))
    for _ in range(blocks):
        right = B.copy(order="F")
        with Timer() as timer:
            blas.dtrsm(1.0, L, right, lower=1, overwrite_b=1)
        seconds += timer.seconds
    return seconds * rows / (blocks * B.shape[1])


def laplace_fit(data: str) -> dict:
    """A binary ARD fit; the likelihood is the logit, inference Laplace's."""
    X, y = load(data)
    with Timer() as timer:
        model = mc.Model(
            mc.GP(k.SE(lengthscale=np.ones(X.shape[1]), variance=1.0)), mc.likelihoods.Bernoulli("logit")
        )
        result = mc.fit(model, X, y, inference="laplace", restarts=0, seed=0)
    learned = result.model.gp.kernel
    return {
        "seconds": timer.seconds,
        "lengthscale": np.asarray(learned.lengthscale).tolist(),
        "variance": float(learned.variance),
        "evaluations": result.status.evaluations,
        "versions": versions("mercer", "jax", "scipy"),
    }


def ep(data: str, lengthscale: float, variance: float) -> dict:
    """Expectation propagation at fixed hyperparameters, probit."""
    X, y = load(data)
    with Timer() as timer:
        model = mc.Model(mc.GP(k.SE(lengthscale, variance)), mc.likelihoods.Bernoulli("probit"))
        post = model.condition(X, y, mc.inference.EP(tol=1e-6))
    return {"seconds": timer.seconds, "evidence": post.log_evidence, "sweeps": post.status.iterations}


def digits(n: int) -> dict:
    """Softmax Laplace on ten digits: seconds beside as many bare potrf and potri;
    accuracy and log loss on the rest.
    """
    from sklearn.datasets import load_digits

    images = load_digits()
    X, y = images.data / 16.0, images.target
    model = mc.Model(mc.GP(k.SE(2.0, 25.0)), mc.likelihoods.Softmax(10))
    found: dict = {}

    def evaluate() -> None:
        found["post"] = model.condition(X[:n], y[:n], "laplace")

    model.condition(X[:50], y[:50], "laplace")
    evaluate()
    found.clear()
    bytes_used = peak_growth(evaluate)
    found.clear()
    with Timer() as timer:
        evaluate()
    post = found["post"]
    steps = post.status.iterations
    with Timer() as both:
        mc.log_evidence_and_gradient(model, X[:n], y[:n], inference="laplace")
    B = np.eye(n) + 0.5 * np.asarray(model.gp.kernel(X[:n])) / 25.0
    with Timer() as bare:
        for _ in range(steps):
            for _ in range(10):
                factor, _ = lapack.dpotrf(B.copy(order="F"), lower=1, clean=0, overwrite_a=1)
                lapack.dpotri(factor, lower=1, overwrite_c=1)
            lapack.dpotrf(B.copy(order="F"), lower=1, clean=0, overwrite_a=1)
    p = post.probability(X[1000:])
    right = p[np.arange(len(p)), y[1000:]]
    return {
        "seconds": timer.seconds,
        "with_gradient": both.seconds,
        "lapack": bare.seconds,
        "steps": steps,
        "bytes": bytes_used,
        "evidence": post.log_evidence,
        "accuracy": float(np.mean(p.argmax(1) == y[1000:])),
        "log_loss": float(-np.mean(np.log(right))),
    }


def load(data: str) -> tuple[np.ndarray, np.ndarray]:
    arrays = np.load(data)
    return arrays["X"], arrays["y"]


def ard(d: int) -> tuple[mc.GP, dict]:
    """The GP whose evidence is timed, and its numbers."""
    theta = {"lengthscale": np.full(d, 2.0), "variance": 1.5, "noise_variance": 0.1}
    return mc.GP(k.SE(lengthscale=theta["lengthscale"], variance=theta["variance"])), theta


def theta_json(theta: dict) -> dict:
    return {name: np.asarray(value).tolist() for name, value in theta.items()}


_compilations = 0


def compilations() -> int:
    """How many programs XLA was asked for since this process began;
    one fetched from the cache on disk counts.
    """
    return _compilations


def _listen(event: str, *_: object, **__: object) -> None:
    global _compilations
    _compilations += event == "/jax/core/compile/backend_compile_duration"


jax.monitoring.register_event_duration_secs_listener(_listen)


def peak_growth(action: Callable[[], None]) -> int:
    """Bytes by which the resident peak during the action exceeds what was resident before it."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
        before = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, AttributeError):
        before = resident_peak()
    action()
    return resident_peak() - before


def resident_peak() -> int:
    """The peak resident set in bytes (Linux counts it in KiB, macOS in bytes)."""
    status = Path("/proc/self/status")
    if status.exists():
        return 1024 * next(
            int(line.split()[1]) for line in status.read_text().splitlines() if "VmHWM" in line
        )
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


if __name__ == "__main__":
    serve(
        fit,
        evidence,
        evidence_memory,
        evidence_compilations,
        growth,
        small,
        predict,
        laplace_fit,
        ep,
        digits,
        sampling,
        sampling_blackjax,
        hyperparameters,
        draws_of_y,
        sgpr,
        kiss,
        svgp,
        svgp_race,
    )
