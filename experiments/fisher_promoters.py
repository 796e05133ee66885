"""Promoters by kernels from generative models: leave-one-out errors of Fisher and TOP kernels, beside string kernels."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import numpy as np

import mercer as mc
from experiments._table import table
from experiments.promoters import relatives
from mercer import datasets
from mercer import kernels as k
from mercer.em import HMM, MarkovChain

DNA = "acgt"
Maker = Callable[[list[str], np.ndarray], k.AbstractKernel]


def chain(X: list[str], order: int) -> MarkovChain:
    return MarkovChain.of(X, order=order, alphabet=DNA)


class Places:
    """Letters that depend on the place alone: log p(x) = Σ_t log θ(t, x_t), fitted with a pseudo-count of one.

    A model of one's own: all that kernels need are the scores (here by logits, 1[x_t = a] − θ(t, a)) and the log-likelihood.
    """

    def __init__(self, X: list[str]):
        counts = 1.0 + sum(np.eye(4)[codes(x)] for x in X)
        self.theta = counts / counts.sum(1, keepdims=True)

    def scores(self, sequences) -> np.ndarray:
        return np.stack([(np.eye(4)[x] - self.theta).ravel() for x in sequences])

    def log_likelihood(self, sequences) -> np.ndarray:
        return np.array([np.log(self.theta[np.arange(len(x)), x]).sum() for x in sequences])


def hidden(X: list[str], states: int = 4) -> HMM:
    """A hidden Markov model by EM, 30 steps from one start."""
    model = mc.HMM(
        states,
        "categorical",
        n_symbols=4,
        pseudo_count=0.5,
        restarts=0,
        max_evaluations=30,
        tol=0.0,
        random_state=0,
    )
    return model.fit([codes(x) for x in X]).model_


def fisher(model: Callable, **settings) -> Maker:
    """From a model of the promoters among the training strings."""
    return lambda X, y: k.Fisher(model(_of(X, y > 0)), alphabet=DNA, **settings)


def scaled(model: Callable, **settings) -> Maker:
    """The same, each score divided by its root mean square over the training strings."""
    return lambda X, y: k.Fisher(
        model(_of(X, y > 0)), alphabet=DNA, information="diagonal", data=X, **settings
    )


def top(model: Callable) -> Maker:
    """From a model of each class, with the log-odds as first feature."""
    return lambda X, y: k.TOP(
        model(_of(X, y > 0)),
        model(_of(X, y < 0)),
        alphabet=DNA,
        log_odds=True,
        information="diagonal",
        data=X,
    )


def kernels() -> dict[str, Maker]:
    return {
        "Fisher, Markov chain of order 2, exact information": lambda X, y: k.Fisher(
            chain(_of(X, y > 0), 2), information="exact", length=len(X[0]), parameters="transition"
        ),
        "Fisher, hidden Markov model of 4 states": scaled(hidden),
        "Fisher, letters by place": fisher(Places),
        "TOP, Markov chains of order 2": top(lambda X: chain(X, 2)),
        "TOP, hidden Markov models of 4 states": top(hidden),
        "TOP, letters by place": top(Places),
        "3-spectrum": lambda X, y: k.Spectrum(3, alphabet=DNA, normalise=True),
        "5-spectrum": lambda X, y: k.Spectrum(5, alphabet=DNA, normalise=True),
    }


def left_out(make: Maker, X: list[str], y: np.ndarray, related: np.ndarray) -> np.ndarray:
    """Predicted mean and log density (n, 2) of each label by all strings but those related to it; all is fitted anew each time."""
    return np.array([predict(make, X, y, i, np.flatnonzero(~row)) for i, row in enumerate(related)])


def predict(make: Maker, X: list[str], y: np.ndarray, i: int, rest: np.ndarray) -> tuple[float, float]:
    """Mean and log density of label i, everything learned from the strings `rest`."""
    train = [X[j] for j in rest]
    model = mc.Model(mc.GP(make(train, y[rest]) + k.Constant()), mc.likelihoods.Gaussian(0.3))
    posterior = mc.fit(model, train, y[rest], max_evaluations=100).posterior
    return float(posterior.mean([X[i]])[0]), float(posterior.log_density([X[i]], y[[i]])[0])


def run(out=None) -> str:
    data = datasets.load("promoters")
    X, y = list(data.X), np.where(data.y == "+", 1.0, -1.0)
    related = relatives(X)
    some = np.flatnonzero(related.sum(1) > 1)
    rows = []
    for name, make in kernels().items():
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = {"one": left_out(make, X, y, np.eye(len(y), dtype=bool))}
            found["relatives"] = found["one"].copy()
            found["relatives"][some] = [predict(make, X, y, i, np.flatnonzero(~related[i])) for i in some]
        wrong = {fold: int(np.sum(np.sign(f[:, 0]) != y)) for fold, f in found.items()}
        rows.append(
            [
                name,
                f"{wrong['one']}",
                f"{1 - wrong['one'] / len(y):.3f}",
                float(np.mean(found["one"][:, 1])),
                f"{wrong['relatives']}",
                f"{1 - wrong['relatives'] / len(y):.3f}",
                float(np.mean(found["relatives"][:, 1])),
                f"{time.perf_counter() - start:.0f}",
            ]
        )
        print(rows[-1], flush=True)
    return report(rows, len(y))


def report(rows: list[list], n: int) -> str:
    header = [
        "kernel",
        "LOO errors",
        "accuracy",
        "log density",
        "errors without relatives",
        "accuracy",
        "log density",
        "seconds",
    ]
    return "\n".join(
        [
            "# Promoters by Fisher and TOP kernels",
            "",
            f"Labels +1 and -1 of {n} strings as regression targets of a GP with Gaussian noise. Each string is predicted from the "
            f"other {n - 1}: in every one of the {n} folds the generative model (pseudo-count 1, hidden Markov models 0.5), the "
            "information and the GP's variance, offset and noise are learned from the training strings alone, so nothing has seen the "
            "string that is left out. A second time, the strings that share 12 letters in a row with it are left out too (the strings "
            "are not independent, see promoters.md). Fisher kernels use a model of the promoters; TOP kernels a model of each class, "
            "and the log-odds as first feature; a constant is added to each kernel. Every fold is run once; starts are seeded.",
            "",
            table(header, rows),
            "",
            "String kernels stand in the same protocol (promoters.md learns their hyperparameters once, from all strings). The texts "
            "print no numbers for these data.",
            "",
            "The constant was added after a first run of the two chain kernels (orders 2 and 3) without it, seen on these same folds: under "
            "the model of the promoters their scores lie about the origin, and a linear function through it made many more errors. "
            "Order 3 was not run again. Kernels were otherwise not chosen by these errors.",
        ]
    )


def codes(x: str) -> np.ndarray:
    return np.array([DNA.index(letter) for letter in x])


def _of(X: list[str], chosen: np.ndarray) -> list[str]:
    return [x for x, c in zip(X, chosen, strict=True) if c]
