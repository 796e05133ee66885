"""Evidences, Bayes factors and probabilities of models (Kuss 2.8-2.9)."""

import itertools

import numpy as np
import pytest
from scipy import stats

import mercer as mc
from mercer import kernels as k
from mercer.likelihoods import Bernoulli, Gaussian

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 1))
Y = 1.5 * X[:, 0] + 0.3 * RNG.normal(size=12)


def test_linear_gaussian_models_analytically():
    models = {
        "line": mc.Model(mc.GP(k.Linear(2.0)), Gaussian(0.09)),
        "constant": mc.Model(mc.GP(k.Constant(2.0)), Gaussian(0.09)),
    }
    found = mc.compare(models, X, Y)
    for i, K in enumerate((2.0 * X @ X.T, np.full((12, 12), 2.0))):
        exact = stats.multivariate_normal(np.zeros(12), K + 0.09 * np.eye(12)).logpdf(Y)
        assert found.log_evidence[i] == pytest.approx(exact, rel=1e-10)
    odds = np.exp(found.log_evidence[0] - found.log_evidence[1])
    assert found.probability[0] == pytest.approx(
        odds / (1 + odds)
    ) and found.probability.sum() == pytest.approx(1.0)
    assert found.best == "line" and found.log_bayes_factor[0] == 0.0
    weighted = mc.compare(models, X, Y, prior=[0.0, 1.0])
    assert weighted.best == "constant" and weighted.probability[0] == 0.0
    text = str(found)
    assert "line" in text and "Exact" in text and "log10" in text and "do not decide" not in text


def test_methods_side_by_side_and_undecided():
    y = np.where(Y > 0, 1.0, -1.0)
    model = mc.Model(mc.GP(k.SE(1.0, 4.0)), Bernoulli())
    found = mc.compare(
        {"a": model, "b": model, "c": model}, X, y, inference={"a": "laplace", "b": "ep", "c": "kl"}
    )
    assert found.methods == ("Laplace", "EP", "KL")
    assert found.log_evidence[2] < found.log_evidence[1]
    assert "do not decide" in str(found) and "lower bound" in str(found)
    assert mc.compare([model], X, y).names == ("model 1",)


def test_evidence_of_a_model_sums_to_one_over_all_data_sets():
    """Occam: a model spreads probability one over the possible labels,
    exactly for one datum and nearly so by EP for three.
    """
    model = mc.Model(mc.GP(k.SE(1.0, 4.0)), Bernoulli())
    one = [mc.log_evidence(model, X[:1], [s], inference="ep") for s in (-1.0, 1.0)]
    assert np.exp(one).sum() == pytest.approx(1.0, abs=1e-10)
    three = [
        mc.log_evidence(model, X[:3], labels, inference="ep")
        for labels in itertools.product((-1.0, 1.0), repeat=3)
    ]
    assert np.exp(three).sum() == pytest.approx(1.0, abs=0.015)  # 0.990: the error of EP itself


def test_bad_input():
    model = mc.Model(mc.GP(k.SE()))
    with pytest.raises(ValueError, match="no model"):
        mc.compare([], X, Y)
    with pytest.raises(ValueError, match="each of the 1 models"):
        mc.compare([model], X, Y, prior=[0.5, 0.5])


def test_what_is_said_of_an_evidence_is_a_fact_of_its_rule():
    rules = {"a": "scale-mixture", "b": mc.inference.AIS(steps=20, runs=2, reverse=False, progress=False)}
    model = mc.Model(mc.GP(k.SE()), mc.likelihoods.StudentT())
    found = mc.compare({"a": model, "b": model}, X[:5], Y[:5], inference=rules)
    assert found.methods == ("ScaleMixture", "AIS") and found.notes == (
        ("its evidence is a lower bound",),
        (),
    )
    assert found.standard_error[0] == 0.0 < found.standard_error[1]
