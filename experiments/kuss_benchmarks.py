"""Binary benchmarks by ten-fold cross-validation (Kuss tables 6.1 and 6.2): Laplace, EP and label regression."""

from __future__ import annotations

import warnings

import numpy as np
from scipy.special import ndtr

from experiments._table import table
from mercer import GP, Model, datasets, fit, kernels, metrics
from mercer.learning import FitWarning
from mercer.likelihoods import Bernoulli, Gaussian

PUBLISHED = {  # error of Laplace, EP, label regression; information of Laplace, EP; length of the posterior mean of Laplace, EP
    "ionosphere": (8.84, 7.99, 10.54, 0.649, 0.719, 49.96, 124.94),
    "wisconsin": (3.21, 3.21, 4.23, 0.870, 0.871, 62.62, 84.95),
    "pima": (22.77, 22.63, 22.87, 0.319, 0.320, 29.05, 47.49),
    "crabs": (2.0, 2.0, 2.0, 0.682, 0.908, 112.34, 2552.97),
    "sonar": (15.36, 13.85, 11.29, 0.443, 0.541, 26.86, 15678.55),
    "usps_3v5": (2.27, 2.21, 1.23, 0.852, 0.905, 163.05, 22011.70),
}


def run(out=None, names=tuple(PUBLISHED), folds: int = 10, seeds=(0,)) -> str:
    rows, notes = [], []
    for name in names:
        X, y = standardised(name)
        published = dict(zip(("laplace", "ep", "label"), PUBLISHED[name][:3], strict=True))
        bits = dict(zip(("laplace", "ep"), PUBLISHED[name][3:5], strict=True))
        length = dict(zip(("laplace", "ep"), PUBLISHED[name][5:], strict=True))
        for method in ("laplace", "ep", "label"):
            error, information, norm = map(
                np.array, zip(*(cross_validate(X, y, method, folds, seed) for seed in seeds), strict=True)
            )
            spread = np.concatenate(error).std() / np.sqrt(error.size)
            rows.append([
                f"{name} ({len(y)} x {X.shape[1]})", {"label": "label regression", "laplace": "Laplace", "ep": "EP"}[method],
                f"{published[method]:.2f}", f"{100 * error.mean():.2f} ± {100 * spread:.2f}", f"{bits[method]:.3f}" if method in bits else "",
                f"{information.mean():.3f}", f"{length[method]:.4g}" if method in length else "", f"{norm.mean():.4g}",
            ])  # fmt: skip
            off = (100 * error.mean() - published[method]) / max(100 * spread, 1e-9)
            if abs(off) > 2:
                notes.append(
                    f"- {name}, {rows[-1][1]}: our error is {abs(off):.1f} standard errors {'above' if off > 0 else 'below'} the published one."
                )
            print(rows[-1], flush=True)
    return "\n".join([
        "# Binary benchmarks", "",
        f"Inputs standardised, isotropic SE, ML-II, {folds} random folds, {len(seeds)} assignment{'s' * (len(seeds) > 1)} of the folds "
        "(published: 10 folds, one assignment, which is not printed). ± is the standard error over folds.", "",
        table(["data", "method", "error published, %", "error, %", "bits published", "bits", "length of mean, published", "length"], rows), "",
        *(["Outside twice that standard error:", "", *notes, ""] if notes else ["No error rate differs by more than twice its standard error.", ""]),
        "Bits are (6.12). The length of the posterior mean of the latent values at the training data is not determined where the evidence is flat "
        "in the signal variance (crabs, sonar, digits by EP): it says how far an optimiser went along the ridge.",
    ])  # fmt: skip


def standardised(name: str):
    data = datasets.load(name, part="all") if name == "usps_3v5" else datasets.load(name)
    X, labels = np.asarray(data.X, float), np.asarray(data.y)
    spread = X.std(0)
    X = (X - X.mean(0)) / np.where(spread > 0, spread, 1.0)
    return X, np.where(labels == np.unique(labels)[1], 1.0, -1.0)


def cross_validate(X, y, method: str, folds: int, seed: int):
    """Error, information and length of the posterior mean, each an array over folds."""
    part = np.random.default_rng(seed).permutation(np.arange(len(y)) % folds)
    out = []
    for i in range(folds):
        train, test = part != i, part == i
        p, length = predict(X[train], y[train], X[test], method)
        right = np.clip(np.where(y[test] > 0, p, 1 - p), 1e-300, None)
        out.append((metrics.error_rate(y[test] > 0, p > 0.5), 1.0 + np.mean(np.log2(right)), length))
    return tuple(map(np.array, zip(*out, strict=True)))


def predict(X, y, Xs, method: str):
    likelihood = Gaussian(0.1) if method == "label" else Bernoulli("probit")
    model = Model(GP(kernels.SE(np.sqrt(X.shape[1]), 4.0)), likelihood)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # on a flat ridge there is nothing to converge to
        found = fit(model, X, y, inference="exact" if method == "label" else method)
    post = found.posterior
    length = float(np.linalg.norm(post.state.mean()))
    if method == "label":
        mean, std = post.mean_and_std(Xs)
        return ndtr(mean / std), length
    return post.probability(Xs), length
