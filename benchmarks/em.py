"""EM, seconds per iteration: Gaussian mixtures beside scikit-learn, hidden Markov models beside hmmlearn (of
the test extra).

Everything is NumPy, so one process with one thread runs the libraries in turn, from the same parameters; CPU
seconds are compared.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parent.parent


def em(run: Any, outcome: Any, check: Callable) -> None:
    """All problems in one fresh process; the targets hold for the full sizes."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    command = [
        sys.executable,
        "-m",
        "benchmarks.em",
        json.dumps({"quick": run.quick, "repeats": run.repeats}),
    ]
    run.say("EM beside scikit-learn and hmmlearn")
    done = subprocess.run(command, cwd=ROOT, env=os.environ | threads, capture_output=True, text=True)
    if done.returncode:
        outcome.errors.append(done.stderr[-1500:])
        return
    for row in json.loads(done.stdout.splitlines()[-1]):
        least, agree = row.pop("least"), row.pop("agree")
        outcome.rows.append(row)
        outcome.checks.append(
            check(f"{row['what']}: times faster", row["ratio"], least=None if run.quick else least)
        )
        if agree is not None:
            outcome.checks.append(
                check(f"{row['what']}: largest difference of a parameter after a step", agree, most=1e-6)
            )


def measure(quick: bool, repeats: int) -> list[dict]:
    """A row for each problem."""
    small = 50 if quick else 1
    rows = [mixture(1_000_000 // small, 8, 10, repeats), *variational(1_000_000 // small, 8, 10, repeats)]
    for d, least in ((3, 6.0), (1, 6.0)):
        rows.append(chain([100_000 // small], 8, d, repeats, least))
        rows.append(chain([100] * (1000 // small), 8, d, repeats, least))
    return rows


def mixture(n: int, d: int, k: int, repeats: int) -> dict:
    from sklearn.mixture import GaussianMixture as Peer

    from mercer.em import GaussianMixture

    X, rng = groups(n, d, k)
    start = GaussianMixture.around(X[:5000], k, rng)
    peer = Peer(k, reg_covar=0.0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ours = [timed(lambda: start.maximise(start.expect(X))) for _ in range(repeats)]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before

    def step():
        peer.weights_, peer.means_, peer.covariances_ = start.weights, start.means, start.covariances
        peer.precisions_cholesky_ = np.swapaxes(np.linalg.inv(np.linalg.cholesky(start.covariances)), 1, 2)
        peer._m_step(X, peer._e_step(X)[1])
        return peer

    theirs = [timed(step) for _ in range(max(1, repeats // 2))]
    agree = np.abs(ours[-1][1].covariances - peer.covariances_).max()
    return row(f"mixture, n = {n:,}, d = {d}, k = {k}", "scikit-learn", ours, theirs, agree, 4.0) | {
        "added MiB": memory / 1024
    }


def variational(n: int, d: int, k: int, repeats: int) -> list[dict]:
    """Steps of variational Bayes beside EM's own, at most 1.5 times as long, and beside scikit-learn's."""
    from sklearn.mixture import BayesianGaussianMixture as Peer

    from mercer.em import GaussianMixture, NormalInverseWishart, Sticks, VariationalMixture

    X, rng = groups(n, d, k)
    plain = GaussianMixture.around(X[:5000], k, rng)
    prior = NormalInverseWishart(d, np.cov(X.T), X.mean(0), 1.0)
    R = plain.responsibilities(X[:5000]).T
    start = VariationalMixture.assigned(X[:5000], R, Sticks(0.1, np.zeros(k)), prior)
    peer = Peer(n_components=k, reg_covar=0.0, weight_concentration_prior=0.1)
    peer._check_parameters(X)
    at = start.gaussians

    def step():
        precisions = np.linalg.inv(np.linalg.cholesky(at.gaussians.covariances))
        peer._set_parameters(
            (start.weights.concentration, at.weight, at.means, at.dof, at.gaussians.covariances,
             np.swapaxes(precisions, 1, 2))
        )  # fmt: skip
        peer._m_step(X, peer._e_step(X)[1])
        return peer

    ours, own = [], []
    for _ in range(repeats):
        ours.append(timed(lambda: start.maximise(start.expect(X))))
        own.append(timed(lambda: plain.maximise(plain.expect(X))))
    theirs = [timed(step) for _ in range(max(1, repeats // 2))]
    agree = np.abs(ours[-1][1].gaussians.gaussians.covariances - peer.covariances_).max()
    what = f"variational mixture, n = {n:,}, d = {d}, k = {k}"
    return [
        row(what, "EM's step", ours, own, None, 1 / 1.5) | {"added MiB": None},
        row(what, "scikit-learn", ours, theirs, agree, 3.0) | {"added MiB": None},
    ]


def groups(n: int, d: int, k: int) -> tuple[np.ndarray, np.random.Generator]:
    """Rows (n, d) of k groups, and the generator that drew them."""
    rng = np.random.default_rng(0)
    shape = np.eye(d) + 0.2 * rng.normal(size=(d, d))
    return (3 * rng.normal(size=(k, d)))[rng.integers(k, size=n)] + rng.normal(size=(n, d)) @ shape, rng


def chain(lengths: list[int], N: int, d: int, repeats: int, least: float | None) -> dict:
    from hmmlearn.hmm import GaussianHMM

    from mercer.em import HMM, GaussianEmission, Gaussians

    rng = np.random.default_rng(0)
    A = 0.8 * np.eye(N) + 0.2 * rng.dirichlet(np.ones(N), N)
    truth = HMM(
        np.full(N, 1 / N), A, GaussianEmission(Gaussians(2 * rng.normal(size=(N, d)), [np.eye(d)] * N))
    )
    data = [truth.sample(T, rng)[0] for T in lengths]
    start = HMM(
        truth.initial,
        np.full((N, N), 0.05) + 0.6 * np.eye(N),
        GaussianEmission(Gaussians(truth.emission.gaussians.means + 0.2, [1.5 * np.eye(d)] * N)),
    )
    prepared = start.prepare(data)
    rows = np.concatenate(data)
    peer = GaussianHMM(
        N,
        "full",
        n_iter=1,
        tol=-np.inf,
        init_params="",
        covars_prior=0.0,
        covars_weight=float(d),
        min_covar=0.0,
        implementation="scaling",
    )

    def step():
        gaussians = start.emission.gaussians
        peer.startprob_, peer.transmat_, peer.means_, peer.covars_ = (
            start.initial,
            start.transition,
            gaussians.means,
            gaussians.covariances,
        )
        return peer.fit(rows, lengths)

    ours, theirs = [], []
    for _ in range(4 * repeats):
        ours.append(timed(lambda: start.maximise(start.expect(prepared))))
        theirs.append(timed(step))
    agree = max(
        np.abs(ours[-1][1].transition - peer.transmat_).max(),
        np.abs(ours[-1][1].emission.gaussians.covariances - peer.covars_).max(),
    )
    what = f"T = {lengths[0]:,}" if len(lengths) == 1 else f"{len(lengths):,} sequences of {lengths[0]}"
    return row(f"HMM, {what}, N = {N}, d = {d}", "hmmlearn, scaling", ours, theirs, agree, least) | {
        "added MiB": None
    }


def row(what: str, peer: str, ours: list, theirs: list, agree: float | None, least: float | None) -> dict:
    a, b = (min(seconds for seconds, _ in times) for times in (ours, theirs))
    return {
        "what": what,
        "peer": peer,
        "CPU s": a,
        "peer CPU s": b,
        "ratio": b / a,
        "agree": None if agree is None else float(agree),
        "least": least,
    }


def timed(action: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = action()
    return time.process_time() - start, result


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        print(json.dumps(measure(**json.loads(sys.argv[1]))))
