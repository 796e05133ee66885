"""C.GP7: preprocessing and its inverse, against scikit-learn and by what must not change."""

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression
from sklearn.preprocessing import StandardScaler

import mercer as mc
from mercer import kernels as k
from mercer.relatives import Preprocessor

RNG = np.random.default_rng(4)
X = RNG.normal(size=(30, 4)) @ RNG.normal(size=(4, 4)) * [1.0, 10.0, 0.1, 5.0] + [0.0, 3.0, -2.0, 100.0]
Y = 3.0 + 0.2 * X[:, 1] - 0.05 * X[:, 3] + np.sin(X[:, 0])
XS = X[:5] + 0.1


def test_principal_components_are_those_of_scikit_learn():
    prepared = Preprocessor(n_components=2).fit(X)
    standard = StandardScaler().fit(X)
    pca = PCA(2).fit(standard.transform(X))
    Z = prepared.transform(XS)
    theirs = pca.transform(standard.transform(XS))
    np.testing.assert_allclose(np.abs(Z), np.abs(theirs), rtol=1e-9)
    back = standard.inverse_transform(pca.inverse_transform(theirs))
    np.testing.assert_allclose(prepared.inverse_transform(Z), back, rtol=1e-9)
    whole = Preprocessor(n_components=4).fit(X)
    np.testing.assert_allclose(whole.inverse_transform(whole.transform(XS)), XS, rtol=1e-10)


def test_the_linear_model_is_subtracted_and_added():
    prepared = Preprocessor(linear=True).fit(X, Y)
    least = LinearRegression().fit(X, Y)
    t = prepared.transform_targets(X, Y)
    np.testing.assert_allclose(t * prepared.target_scale_, Y - least.predict(X), atol=1e-9)
    assert t.std() == pytest.approx(1.0) and abs(np.corrcoef(t, X[:, 1])[0, 1]) < 1e-9
    mean, std = prepared.inverse_targets(XS, np.zeros(5), np.ones(5))
    np.testing.assert_allclose(mean, least.predict(XS), rtol=1e-9)
    np.testing.assert_allclose(std, prepared.target_scale_)
    np.testing.assert_allclose(prepared.inverse_targets(X, t), Y, rtol=1e-10)


def test_predictions_do_not_know_units():
    """A GP on standardised data, put back, is the GP in the data's units; NLP_original = NLP_standardised +
    ln sd(y).
    """
    prepared = Preprocessor().fit(X, Y)
    ours = mc.GP(k.SE(1.3, 0.8)).condition(prepared.transform(X), prepared.transform_targets(X, Y), 0.1)
    s = prepared.target_scale_
    plain = mc.GP(k.SE(1.3 * prepared.scale_, 0.8 * s**2), Y.mean()).condition(X, Y, 0.1 * s**2)
    mean, std = prepared.inverse_targets(XS, *ours.mean_and_std(prepared.transform(XS)))
    np.testing.assert_allclose(mean, plain.mean(XS), rtol=1e-9)
    np.testing.assert_allclose(std, plain.std(XS), rtol=1e-9)
    there = prepared.transform_targets(XS, Y[:5])
    density = prepared.inverse_log_density(ours.log_density(prepared.transform(XS), there))
    np.testing.assert_allclose(density, plain.log_density(XS, Y[:5]), rtol=1e-8)


def test_constant_columns_and_bad_numbers():
    constant = np.column_stack([X, np.full(30, 7.0)])
    prepared = Preprocessor().fit(constant, np.full(30, 2.0))
    assert np.all(prepared.transform(constant)[:, 4] == 0) and prepared.target_scale_ == 1.0
    with pytest.raises(ValueError, match="from 1 to 4"):
        Preprocessor(n_components=5).fit(X)
