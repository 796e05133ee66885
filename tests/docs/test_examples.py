"""The names people type most have an example in their docstring, and it runs."""

import doctest
import inspect
import pkgutil

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import mercer

NAMES = {
    "": "GP GP.condition Model Model.condition fit compare assess log_evidence log_evidence_and_gradient "
    "param fixed save load search GPRegressor GPClassifier GPTimeSeries GPMixture HMM GaussianMixture",
    "kernels": "AbstractKernel SE Matern Periodic RationalQuadratic Linear Constant",
    "likelihoods": "Gaussian Bernoulli StudentT Poisson Softmax MultinomialProbit Laplace",
    "inference": "Laplace EP MCMC SVGP",
    "solvers": "Dense VFE Markov Vecchia",
    "posteriors": "AbstractPosterior GaussianPosterior LeaveOneOut",
    "explain": "Importance importance sobol_indices Attributions attributions shapley_values influences",
    "viz": "posterior prior forecast components kernel calibration importance explain outliers",
}


def surroundings(value) -> dict:
    """What an example may lean on: the package, its rooms and names, its own module, and small data."""
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(-3, 3, (30, 1)), 0)
    y = np.sin(2 * X[:, 0]) + 0.2 * rng.standard_normal(30)
    Xs = np.linspace(-3, 3, 7)[:, None]
    names = {name: getattr(mercer, name) for name in mercer.__all__} | vars(inspect.getmodule(value))
    df = pd.DataFrame({"a": X[:, 0], "b": rng.standard_normal(30), "c": rng.standard_normal(30), "y": y})
    df["species"] = np.where(y > 0.3, "ill", "well")
    df["instrument"] = np.resize(["old", "new"], 30)
    gp = mercer.GP(mercer.kernels.SE())
    given = {
        "__name__": "example", "mercer": mercer, "mc": mercer, "np": np,
        "X": X, "y": y, "Xs": Xs, "errors": np.full(30, 0.1), "counts": rng.poisson(np.exp(y)),
        "gp": gp, "post": gp.condition(X, y, noise_variance=0.04), "model": mercer.GPRegressor().fit(X, y),
        "df": df, "new": df[:5], "O1": rng.standard_normal((20, 2)), "O2": rng.standard_normal((9, 2)),
        "series": pd.Series(y, pd.date_range("2024-01-01", periods=30)),
        "new_series": pd.Series(y[:2], pd.date_range("2024-01-31", periods=2)),
    }  # fmt: skip
    return names | given


@pytest.mark.slow
@pytest.mark.parametrize(("room", "name"), [(room, name) for room in NAMES for name in NAMES[room].split()])
def test_the_example_runs(room, name, tmp_path, monkeypatch):
    value = pkgutil.resolve_name(f"mercer.{room}:{name}" if room else f"mercer:{name}")
    examples = doctest.DocTestParser().get_examples(inspect.getdoc(value))
    assert examples, "no example"
    monkeypatch.chdir(tmp_path)
    names = surroundings(value)
    for example in examples:
        exec(compile(example.source, f"example of {room}.{name}", "exec"), names)
    plt.close("all")
