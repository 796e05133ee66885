"""The playground says what the library says, and compiles nothing while someone plays."""

import jax.monitoring
import numpy as np
import pytest

import mercer as mc
from mercer import kernels, likelihoods
from mercer.app.studio.playground import FAMILIES, Asked, Playground
from mercer.kernels import KernelSyntaxError
from mercer.params import ParameterError

rng = np.random.default_rng(3)
x = np.sort(rng.uniform(-4, 4, 9))
POINTS = [(float(a), float(b)) for a, b in zip(x, np.sin(x) + 0.1 * rng.normal(size=9), strict=True)]
FORMULA = "2 * SE(l=1.2) * Periodic(period=3, l=1) + Linear()"


@pytest.fixture(scope="module")
def playground():
    return Playground()


def direct(likelihood, y):
    """Posterior of the same model by the library's own way, and its grid."""
    model = mc.Model(mc.GP(kernels.parse(FORMULA)), likelihood)
    return model.condition(x[:, None], y), np.linspace(-5, 5, 201)[:, None]


def test_regression(playground):
    told = playground.answer(Asked(points=POINTS, kernel=FORMULA, likelihood={"noise_variance": 0.09}))
    post, grid = direct(likelihoods.Gaussian(0.09), [b for _, b in POINTS])
    mean, std = post.mean_and_std(grid, latent=True)
    half = 1.959963984540054 * std
    for name, expected in [("mean", mean), ("lower", mean - half), ("upper", mean + half)]:
        np.testing.assert_allclose(told[name], expected, rtol=1e-5, atol=1e-5)
    lower, upper = post.quantile(grid, [0.025, 0.975]).T
    np.testing.assert_allclose(told["y_lower"], lower, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(told["y_upper"], upper, rtol=1e-5, atol=1e-5)
    terms = post.evidence_terms()
    assert told["evidence"]["total"] == pytest.approx(post.log_evidence, rel=1e-9)
    assert told["evidence"]["data_fit"] == pytest.approx(terms.data_fit, rel=1e-9)
    assert told["evidence"]["complexity"] == pytest.approx(terms.complexity, rel=1e-9)


def test_robust(playground):
    told = playground.answer(Asked(task="robust", points=POINTS, kernel=FORMULA))
    post, grid = direct(likelihoods.StudentT(scale=0.2, dof=4.0), [b for _, b in POINTS])
    assert told["evidence"]["total"] == pytest.approx(post.log_evidence, rel=1e-6)
    np.testing.assert_allclose(told["mean"], post.mean(grid), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(told["y_upper"], post.quantile(grid, 0.975), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(told["outliers"], post.outlier_score(), rtol=1e-4, atol=1e-6)


def test_classification(playground):
    told = playground.answer(Asked(task="classification", points=POINTS, kernel=FORMULA, draws=2))
    post, grid = direct(likelihoods.Bernoulli(), [float(b > 0) for _, b in POINTS])
    assert told["evidence"]["total"] == pytest.approx(post.log_evidence, rel=1e-6)
    np.testing.assert_allclose(told["mean"], post.probability(grid), rtol=1e-4, atol=1e-5)
    assert np.all((np.array(told["draws"]) >= 0) & (np.array(told["draws"]) <= 1))
    assert "y_lower" not in told


def test_without_points_it_is_the_prior(playground):
    told = playground.answer(Asked(kernel="4 * SE(l=1)", likelihood={"noise_variance": 5.0}))
    np.testing.assert_allclose(told["upper"], 2 * 1.959963984540054, rtol=1e-5)
    np.testing.assert_allclose(told["y_upper"], 3 * 1.959963984540054, rtol=1e-5)
    assert told["evidence"] is None


def test_draws_move_gently_with_a_slider(playground):
    near = [
        np.array(playground.answer(Asked(points=POINTS, kernel=f"SE(l={l})", draws=3, of=of))["draws"])
        for of in ("prior", "posterior")
        for l in (1.0, 1.002)
    ]
    assert np.abs(near[0] - near[1]).max() < 0.05 and np.abs(near[2] - near[3]).max() < 0.05
    assert np.abs(near[0] - near[2]).max() > 0.5


def test_sliders_have_the_names_that_they_are_set_by(playground):
    told = playground.answer(Asked(points=POINTS, kernel=FORMULA))
    sliders = [s for term in told["terms"] for factor in term for s in factor["sliders"]] + told["noise"]
    assert [s["label"] for s in sliders] == [
        "length-scale", "variance", "period", "length-scale", "variance", "noise variance"
    ]  # fmt: skip
    assert all(s["low"] <= s["value"] <= s["high"] for s in sliders)
    values = {s["name"]: 1.25 * s["value"] for s in sliders}
    after = playground.answer(Asked(points=POINTS, kernel=told["kernel"], values=values))
    assert after["kernel"] == "2.5 * SE(l=1.5) * Periodic(period=3.75, l=1.25) + 1.25 * Linear()"
    assert after["likelihood"] == {"noise_variance": 0.05}
    joined = " + ".join(" * ".join(f["formula"] for f in term) for term in after["terms"])
    assert kernels.parse(joined).formula() == kernels.parse(after["kernel"]).formula()


def test_what_is_fixed_stays_so(playground):
    told = playground.answer(
        Asked(points=POINTS, kernel="SE(l=fixed(1.23456)) + (Linear() + SE(l=2)) * SE()")
    )
    assert told["kernel"].startswith("SE(l=fixed(1.235)) + (Linear() + SE(l=2)) * SE(l=1)")
    assert [s["label"] for s in told["terms"][0][0]["sliders"]] == ["variance"]


def test_learning_is_that_of_fit(playground, monkeypatch):
    monkeypatch.setattr("mercer.app.studio.playground.PATIENCE", "300s")  # machines are busy at times
    told = playground.learn(Asked(points=POINTS, kernel="SE(l=1)"))
    y = [b for _, b in POINTS]
    found = mc.fit(mc.Model(mc.GP(kernels.SE()), likelihoods.Gaussian(0.04)), x[:, None], y, progress=False)
    assert told["evidence"]["total"] == pytest.approx(found.value, abs=1e-3)
    assert float(found.model.gp.kernel.lengthscale) == pytest.approx(
        float(kernels.parse(told["kernel"]).lengthscale), rel=1e-3
    )


def test_nothing_is_compiled_for_another_kernel_or_number_of_points(playground):
    playground.answer(Asked(points=POINTS, kernel="SE() * Periodic() + Linear()", draws=1))
    compiled = []

    def listen(event, duration, **_):
        if event.endswith("backend_compile_duration"):
            compiled.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        for n, formula in [(5, "SE(l=2) + Periodic()"), (9, "Linear() * SE() * Periodic()"), (1, "SE()")]:
            playground.answer(Asked(points=POINTS[:n], kernel=formula, draws=1))
        assert not compiled
        jax.jit(lambda v: v * 1.2345)(x)  # what is compiled is heard
        assert compiled
    finally:
        jax.monitoring.clear_event_listeners()


@pytest.mark.parametrize(
    ("kernel", "error", "says"),
    [
        ("SE(l=", KernelSyntaxError, "cannot read"),
        ("__import__('os')", KernelSyntaxError, "unknown kernel"),
        ("SE(l=-1)", KernelSyntaxError, "must be positive"),
        ("SE().on(3)", Exception, "column"),
        ("BagOfWords()", ValueError, "numbers"),
        ("SE() + White(0.1)", ParameterError, "noise"),
    ],
)
def test_errors_say_what_is_wrong(playground, kernel, error, says):
    with pytest.raises(error, match=says):
        playground.answer(Asked(points=POINTS, kernel=kernel))


def test_one_point_is_too_few_to_learn_from(playground):
    with pytest.raises(ValueError, match="two points"):
        playground.learn(Asked(points=POINTS[:1]))


def test_families_can_be_read():
    for _, formula, _ in FAMILIES:
        assert kernels.parse(formula).bind(1).formula()
