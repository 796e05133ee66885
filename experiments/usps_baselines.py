"""USPS digits, the baselines (GPML §3.7.3-3.7.4, Kuss table 6.2): class frequencies, nearest neighbours, Gaussian classes."""

from __future__ import annotations

import numpy as np
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import SVC

from experiments._table import table
from mercer import datasets, metrics
from mercer.relatives import GaussianClassConditional, ProbabilisticNearestNeighbour


def run(out=None, seeds: int = 3) -> str:
    rows = []
    for name, title, published in (
        ("usps_3v5", "3 against 5", {}),
        ("usps", "ten digits", {"pi": 0.967, "error": 3.0, "bits": 2.98}),
    ):
        train, test = datasets.load(name), datasets.load(name, part="test")
        baseline = metrics.information_baseline(test.y, train.y)
        rows.append(
            [
                f"{title}: class frequencies",
                "",
                "",
                "",
                "",
                "0.9956" if name == "usps_3v5" else "3.27",
                f"{baseline:.4f}",
            ]
        )
        neighbour = ProbabilisticNearestNeighbour().fit(train.X, train.y)
        pi = [published.get("pi", ""), f"{neighbour.pi_:.4f}"]
        rows.append([f"{title}: P1NN", *pi, *scores(neighbour, train, test, published)])
        gaussian = GaussianClassConditional(ridge=0.1).fit(train.X, train.y)
        rows.append(
            [f"{title}: Gaussian classes, shared covariance", "", "", *scores(gaussian, train, test, {})]
        )
    error = support_vectors(train, test)
    rows.append(["ten digits: support vectors, one against the rest", "", "", "2.2", f"{error:.2f}", "", ""])
    header = ["", "pi published", "pi", "error published, %", "error, %", "bits published", "bits"]
    text = [
        "# USPS digits: baselines", "", table(header, rows), "",
        "Bits of the class frequencies are the entropy a classifier can remove (3.76); those of a method are above that baseline.",
        "The row of Gaussian classes is not in the book (ridge 0.1 of each pixel's variance).", "",
        "P1NN on ten digits when the cases farthest from their neighbour are refused:", "",
        table(["refused, %", "error, %", "bits"], refusing(neighbour, train, test)), "",
        f"Threes against fives, all 1540, standardised pixels, ten folds, k from 1 to 15 by five-fold cross-validation: error "
        f"{folds(seeds)} % over {seeds} random assignments of the folds (Kuss table 6.2: 3.12 %).",
    ]  # fmt: skip
    return "\n".join(text)


def support_vectors(train, test) -> float:
    """Error in per cent at the published C = 1 and l = 5, the class of the largest margin."""
    machine = OneVsRestClassifier(SVC(C=1.0, gamma=0.5 / 5.0**2)).fit(train.X, train.y)
    return 100 * metrics.error_rate(test.y, machine.predict(test.X))


def scores(model, train, test, published: dict) -> list:
    error = 100 * metrics.error_rate(test.y, model.predict(test.X))
    bits = metrics.information(test.y, model.predict_proba(test.X), train.y)
    return [str(published.get("error", "")), f"{error:.2f}", str(published.get("bits", "")), f"{bits:.3f}"]


def refusing(model, train, test) -> list[list]:
    """Error and information of what remains, at a few fractions of refused cases."""
    curve = metrics.error_reject_curve(
        test.y, model.predict_proba(test.X), by=-model.distance(test.X), y_train=train.y
    )
    at = np.searchsorted(curve.rejected, [0.0, 0.05, 0.1, 0.2, 0.4])
    return [
        [f"{100 * curve.rejected[i]:.1f}", f"{100 * curve.error[i]:.2f}", f"{curve.information[i]:.3f}"]
        for i in at
    ]


def folds(seeds: int) -> str:
    """Cross-validated error in per cent, least to greatest over the seeds."""
    data = datasets.load("usps_3v5", part="all")
    X = (data.X - data.X.mean(0)) / data.X.std(0)
    errors = []
    for seed in range(seeds):
        part = np.random.default_rng(seed).permutation(np.arange(len(X)) % 10)
        predicted = np.empty_like(data.y)
        for i in range(10):
            model = ProbabilisticNearestNeighbour(range(1, 16), folds=5).fit(X[part != i], data.y[part != i])
            predicted[part == i] = model.predict(X[part == i])
        errors.append(100 * metrics.error_rate(data.y, predicted))
    return f"{min(errors):.2f} to {max(errors):.2f}"
