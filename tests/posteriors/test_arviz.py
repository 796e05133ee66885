"""Draws as ArviZ takes them: the numbers are ours, and so are its diagnostics. With ArviZ before 1.0 an
InferenceData, with later ones, or arviz-base, a DataTree.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pytest

import mercer as mc
from mercer import inference, kernels, likelihoods

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # on its own coming changes
    try:
        import arviz
    except ImportError:
        arviz = pytest.importorskip("arviz_base", reason="needs ArviZ: pip install arviz")

pytestmark = pytest.mark.filterwarnings("ignore:.*:FutureWarning", "ignore:.*:DeprecationWarning")


@pytest.fixture(scope="module")
def sampled():
    X = np.linspace(0, 1, 8)[:, None]
    model = mc.Model(mc.GP(kernels.SE(0.3, 4.0)), likelihoods.Bernoulli())
    rule = inference.MCMC(draws=50, tune=50, chains=2, progress=False, sampler="elliptical")
    return model.condition(X, X[:, 0] > 0.5, rule)


def test_groups_and_numbers(sampled):
    tree = sampled.to_arviz()
    posterior = tree["posterior"]
    assert posterior["f"].dims == ("chain", "draw", "row") and posterior["f"].shape == (2, 50, 8)
    assert np.array_equal(posterior["f"].values, sampled.draws["f"])
    assert np.array_equal(tree["observed_data"]["y"].values, sampled.y)
    assert tree["sample_stats"]["lp"].shape == (2, 50)
    logs = tree["log_likelihood"]["y"].values
    expected = [sampled.model.likelihood.log_prob(f, sampled.y) for f in sampled.draws["f"][1]]
    np.testing.assert_allclose(logs[1], np.array(expected), rtol=1e-9)


def test_hyperparameters_by_column():
    X = {"a": np.linspace(0, 1, 10), "b": np.linspace(1, 0, 10) ** 2}
    model = mc.Model(mc.GP(kernels.SE([0.3, 0.5])), likelihoods.Gaussian(0.1))
    rule = inference.MCMC(draws=20, tune=20, chains=2, progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = mc.fit(model, X, np.sin(6 * X["a"]), inference=rule, progress=False)
    tree = found.posterior.to_arviz()
    drawn = tree["posterior"]["kernel.lengthscale"]
    assert drawn.dims == ("chain", "draw", "column") and drawn["column"].values.tolist() == ["a", "b"]
    assert np.array_equal(drawn.sel(column="b").values, found.posterior.draws["kernel.lengthscale[1]"])
    assert (
        "log_likelihood" not in tree.children
        if hasattr(tree, "children")
        else "log_likelihood" not in tree.groups()
    )


def test_the_kind_that_is_installed(sampled):
    tree = sampled.to_arviz()
    newer = arviz.__name__ == "arviz_base" or int(arviz.__version__.split(".")[0]) >= 1
    assert type(tree).__name__ == ("DataTree" if newer else "InferenceData")


def test_what_it_finds_is_what_we_find(sampled):
    if not hasattr(arviz, "rhat"):
        pytest.skip("arviz-base holds draws and no diagnostics")
    found = arviz.rhat(sampled.to_arviz(), var_names=["f"])
    theirs = (found if "f" in found else found["posterior"])["f"].values
    np.testing.assert_allclose(theirs, sampled.diagnostics.r_hat[: theirs.size], rtol=1e-8)


def test_chains_of_any_density(sampled):
    tree = sampled.chains.to_arviz("z")
    assert np.array_equal(tree["posterior"]["z"].values, sampled.chains.draws)


def test_as_a_tree_of_arviz_from_1_on(sampled, monkeypatch):
    pytest.importorskip("arviz_base", reason="needs arviz-base, which ArviZ 1.0 is made of")
    monkeypatch.setitem(sys.modules, "arviz", None)  # as if there were no earlier one
    tree = sampled.to_arviz()
    assert type(tree).__name__ == "DataTree"
    assert set(tree.children) == {"posterior", "sample_stats", "observed_data", "log_likelihood"}
    assert np.array_equal(tree["posterior"]["f"].values, sampled.draws["f"])
    assert tree["posterior"]["f"].dims == ("chain", "draw", "row")
