"""Warps of the target: the textbook's transforms, their inverses and slopes."""

import jax
import numpy as np
import pytest
import scipy.stats as st
from sklearn.preprocessing import PowerTransformer

from mercer import warps
from mercer.inputs import InputError
from mercer.params import ParameterError, fixed
from mercer.persist import from_json, to_json

Y = np.random.default_rng(0).gamma(2.0, 3.0, 30)
CASES = {
    "log": warps.Log(lower=-0.5),
    "logit": warps.Logit(-1.0, 40.0),
    "box-cox": warps.BoxCox(0.3, lower=-1.0, unit=2.0),
    "box-cox, power 0": warps.BoxCox(fixed(0.0)),
    "yeo-johnson": warps.YeoJohnson(1.6, centre=5.0, unit=3.0),
    "tanh": warps.Tanh([0.5, 3.0], [2.0, 30.0], [0.0, 1.0], centre=4.0, unit=3.0),
}


@pytest.mark.parametrize("warp", CASES.values(), ids=CASES)
def test_inverse_and_slope(warp):
    z = np.asarray(warp.forward(Y))
    np.testing.assert_allclose(warp.inverse(z), Y, rtol=1e-11, atol=1e-10)
    assert np.all(np.diff(warp.forward(np.sort(Y))) > 0)
    slopes = jax.vmap(jax.grad(warp.forward))(Y)
    np.testing.assert_allclose(warp.log_slope(Y), np.log(slopes), rtol=1e-8, atol=1e-10)
    assert np.all(warp.inside(warp.inverse(np.linspace(-3, 3, 7))))
    again = from_json(to_json(warp))
    np.testing.assert_array_equal(again.forward(Y), z)


@pytest.mark.parametrize("power", [0.0, 1e-9, 0.3, 1.0, 1.7])
def test_powers_are_those_of_scipy_and_scikit_learn(power):
    np.testing.assert_allclose(warps.BoxCox(power).forward(Y), st.boxcox(Y, power), rtol=1e-12, atol=1e-8)
    signed = Y - 6.0
    ours = np.asarray(warps.YeoJohnson(power).forward(signed))
    np.testing.assert_allclose(ours, st.yeojohnson(signed, power), rtol=1e-12, atol=1e-8)
    theirs = PowerTransformer("yeo-johnson", standardize=False).fit(signed[:, None])
    theirs.lambdas_ = np.array([power])
    np.testing.assert_allclose(ours, theirs.transform(signed[:, None])[:, 0], rtol=1e-12, atol=1e-8)


def test_the_inverse_of_steep_bends():
    warp = warps.Tanh([0.5, 3.0], [2.0, 300.0], [0.0, 1.0])
    z = np.linspace(-20, 20, 1001)
    np.testing.assert_allclose(warp.forward(warp.inverse(z)), z, atol=1e-9)


def test_beyond_the_range_is_the_end():
    assert warps.BoxCox(0.5).inverse(np.array([-5.0]))[0] == 0.0
    assert warps.BoxCox(0.5, lower=3.0).inverse(np.array([-5.0]))[0] == 3.0


def test_suited_to_targets():
    """The start of a power is the likeliest one for independent normal numbers."""
    z = st.norm.ppf((np.arange(400) + 0.5) / 400)
    assert warps.BoxCox().suited((1.0 + 0.3 * z) ** 2).power == pytest.approx(0.5, abs=0.06)
    assert warps.YeoJohnson().suited(7.0 + 2.0 * z).power == pytest.approx(1.0, abs=0.06)


def test_what_cannot_be():
    with pytest.raises(InputError, match=r"Log takes y above 0: 2 of 3 do not fit.*0 in row 1.*yeo-johnson"):
        warps.Log().check(np.array([1.0, 0.0, -1.0]))
    with pytest.raises(InputError, match=r"Logit takes y strictly between 0 and 1.*ends of your scale"):
        warps.Logit().check(np.array([0.5, 1.0]))
    with pytest.raises(InputError, match="BoxCox takes y above 0"):
        warps.BoxCox().suited(np.array([1.0, -2.0]))
    with pytest.raises(ParameterError, match="between 0 and 2"):
        warps.BoxCox(-0.5)
    with pytest.raises(ParameterError, match="lower 1 must be below upper 0"):
        warps.Logit(1.0, 0.0)
    with pytest.raises(ParameterError, match="lists of one length"):
        warps.Tanh([0.1], [1.0, 2.0], [0.0])
    with pytest.raises(ValueError, match="did you mean 'box-cox'"):
        warps.by_name("boxcox")
