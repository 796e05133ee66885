"""Markov equals dense to 1e-8 over random times, values and expressions of exact kernels: evidence, gradient,
marginals.
"""

import os

import numpy as np
import pytest

import mercer as mc
from mercer import jax_settings, likelihoods
from mercer import kernels as k
from mercer.inputs import InputError
from mercer.solvers import Dense

N, DRAWS = 24, 3

# expressions of positive numbers v; between them every exact kernel
EXPRESSIONS = {
    "matern + oscillator": lambda v: k.Matern(v[0], v[1], nu=1.5) + k.Oscillator(v[2], v[3], v[4]),
    "scale * (wiener + constant)": lambda v: v[0] * (k.Wiener(v[1]) + k.Constant(v[2])),
    "linear * matern": lambda v: k.Linear(v[0]) * k.Matern(v[1], mc.fixed(1.0), nu=2.5),
    "cosine * ou + polynomial": lambda v: (
        k.Cosine(v[0], v[1]) * k.OrnsteinUhlenbeck(v[2], mc.fixed(1.0)) + k.Polynomial(2, v[3], v[4])
    ),
    "ar(3) + ou": lambda v: k.ContinuousAR(v[:3], v[3]) + k.OrnsteinUhlenbeck(v[4], v[5]),
    "oscillator * ou": lambda v: k.Oscillator(v[0], v[1], v[2]) * k.OrnsteinUhlenbeck(v[3], mc.fixed(1.0)),
    "trend + season * ou": lambda v: (
        k.LocalLinear(v[0], v[1], v[2])
        + k.Seasonal(v[3], v[4], v[5], harmonics=1) * k.OrnsteinUhlenbeck(v[6], mc.fixed(1.0))
    ),
    "spline + bridge": lambda v: k.IntegratedWiener(1, v[0]) + k.BrownianBridge(9.0, v[1]),
    "(matern + linear covariance)^2": lambda v: (
        (k.Matern(v[0], v[1], nu=0.5) + k.LinearCovariance([[v[2]]], v[3])) ** 2
    ),
}
RARE = {"cosine * ou + polynomial", "oscillator * ou", "spline + bridge", "(matern + linear covariance)^2"}
each = pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name in RARE else ()) for name in EXPRESSIONS],
    ids=list(EXPRESSIONS),
)


def drawn(name, rng):
    """A model, unsorted times with repetitions and near coincidences, and values."""
    t = rng.uniform(0.0, 8.0, N)
    t[3], t[11], t[17] = t[9], t[9], t[5] + 1e-7
    model = mc.Model(
        mc.GP(EXPRESSIONS[name](np.exp(0.5 * rng.normal(size=7)))),
        likelihoods.Gaussian(rng.uniform(0.02, 0.3)),
    )
    return model, t[:, None], np.sin(t) + 0.3 * rng.normal(size=N)


@pytest.mark.representative("scale", "linear")
@each
def test_markov_is_dense(name):
    rng = np.random.default_rng(sum(map(ord, name)))
    for _ in range(DRAWS):
        model, t, y = drawn(name, rng)
        (value, gradient), (expected, slopes) = (
            mc.log_evidence_and_gradient(model, t, y, solver=solver) for solver in ("markov", Dense("lapack"))
        )
        assert value == pytest.approx(expected, rel=1e-8, abs=1e-8)
        assert sorted(gradient) == sorted(slopes)
        scale = max(np.abs(slope).max() for slope in slopes.values())
        for at, slope in slopes.items():
            np.testing.assert_allclose(gradient[at], slope, rtol=1e-8, atol=1e-8 * scale, err_msg=at)
        found, dense = (model.condition(t, y, solver=solver).state for solver in ("markov", Dense("lapack")))
        for a, b in zip(found.marginals(), dense.marginals(), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8 * np.abs(b).max())


@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_series_of_few_data(n):
    """Series of a few unsorted, repeated times that share a noise variance:
    the same one is learned as by dense.
    """
    rng = np.random.default_rng(n)
    model = mc.Model(mc.GP(k.Matern(mc.fixed(0.8), mc.fixed(1.3), nu=1.5)), likelihoods.Gaussian(1.0))
    t = [rng.integers(0, 3, (m, 1)).astype(float) for m in (n, 1, 2)]
    y = [3.0 * rng.normal(size=len(a)) for a in t]
    markov, dense = (mc.fit(model, t, y, solver=solver) for solver in ("markov", None))
    assert markov.value == pytest.approx(dense.value, rel=1e-8)
    assert float(markov.model.likelihood.noise_variance) == pytest.approx(
        float(dense.model.likelihood.noise_variance), rel=1e-4
    )


def test_missing_values_are_named():
    """NaN among the values or the times is one clear error;
    a fit of what is left is what GPTimeSeries does.
    """
    t, gp = np.arange(4.0)[:, None], mc.GP(k.Matern(nu=1.5))
    with pytest.raises(InputError, match=r"y contains NaN.*row 1.*Remove or impute"):
        gp.condition(t, [0.1, np.nan, 0.3, 0.2], 0.1, solver="markov")
    with pytest.raises(InputError, match=r"contains NaN.*row 2"):
        gp.condition(np.where(t == 2, np.nan, t), np.zeros(4), 0.1, solver="markov")


def test_options_of_xla(monkeypatch):
    """Options that compile small loops as a whole, and sooner, join those of the user, who may switch them
    off or set the same himself; to versions of XLA that may not know them they are not given. One against
    wrong numbers stays.
    """
    right = "--xla_cpu_experimental_ynn_fusion_type="
    loops = "--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=8192"
    sooner = "--xla_cpu_use_fusion_emitters=false"
    other = "--xla_backend_extra_options=other=1"
    for given, switch, version, expected in [
        ("", "1", "0.10.2", f"{right} {loops} {sooner}"),
        (
            "--xla_cpu_enable_fast_math=false",
            "1",
            "0.7.2",
            f"--xla_cpu_enable_fast_math=false {loops} {sooner}",
        ),
        (other, "1", "0.10.2", f"{other} {right} {sooner}"),
        ("", "0", "0.10.2", right),
        ("", "1", "0.11.0", ""),
    ]:
        monkeypatch.setattr("jaxlib.__version__", version)
        monkeypatch.setenv("XLA_FLAGS", given)
        monkeypatch.setenv("MERCER_XLA", switch)
        jax_settings._add_xla_options()
        assert os.environ["XLA_FLAGS"] == expected
