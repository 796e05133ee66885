"""`fit`: golden values, starts, priors, pooled data, interruption."""

import collections

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.ndimage import maximum_filter

import mercer as mc
from mercer import datasets
from mercer import kernels as k
from mercer.hyperpriors import LogNormal
from mercer.learning import FitWarning, model_evidence, model_posterior, overall_scale


def _ebden():
    data = datasets.ebden()
    return data.X, data.y - data.y.mean()


def _toy(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n, 1))
    return X, np.sin(2 * X[:, 0]) + 0.2 * rng.standard_normal(n)


def test_ebden_by_evidence():
    """T-EB2: l = 0.990308, sigma_f = 1.267896, log evidence -4.209776 with the noise fixed."""
    X, y = _ebden()
    fit = mc.fit(mc.Model(mc.GP(k.SE()), mc.likelihoods.Gaussian(mc.fixed(0.09))), X, y)
    assert float(fit.model.gp.kernel.lengthscale) == pytest.approx(0.990308, abs=2e-3)
    assert float(np.sqrt(fit.model.gp.kernel.variance)) == pytest.approx(1.267896, abs=2e-3)
    assert fit.posterior.log_evidence == pytest.approx(-4.209776, abs=1e-5)
    assert float(fit.model.likelihood.noise_variance) == 0.09


def test_ebden_all_free():
    """T-EB7: centred and raw targets with three free hyperparameters."""
    X, y = _ebden()
    for targets, expected in ((y, -2.505282), (datasets.ebden().y, -2.550222)):
        fit = mc.fit(mc.Model(mc.GP(k.SE()), mc.likelihoods.Gaussian()), X, targets, restarts=1)
        assert fit.posterior.log_evidence == pytest.approx(expected, abs=2e-4)


def test_best_start_is_kept_and_seed_decides():
    X, y = _toy()
    model = mc.Model(mc.GP(k.SE(50.0, variance=1e-3)), mc.likelihoods.Gaussian(5.0))
    a, b = (mc.fit(model, X, y, restarts=2, seed=3) for _ in range(2))
    assert set(a.status.starts) == {"given", "data-driven", "random 1", "random 2"}
    assert a.value == max(a.status.starts.values()) == b.value
    assert a.status.converged and a.status.evaluations == len(a.history)
    assert [h.value for h in a.history] == [h.value for h in b.history]


def test_several_optima_are_found():
    """A.M4, D.SL8: seven points that two explanations fit, a short length-scale with little noise and a long
    one with much; different starts end in each, and the better is kept. The optima are those of a grid.
    """
    rng = np.random.default_rng(6)
    X = np.sort(rng.uniform(-5, 5, 7))[:, None]
    y = mc.GP(k.SE()).sample(X, 1, seed=6)[0] + np.sqrt(0.1) * rng.standard_normal(7)
    l, noise = np.meshgrid(np.geomspace(1e-2, 1e2, 120), np.geomspace(1e-6, 1e2, 120), indexing="ij")
    K = np.exp(-0.5 * ((X - X.T) / l[..., None, None]) ** 2) + noise[..., None, None] * np.eye(7)
    fit_term = np.einsum("i,abij,j->ab", y, np.linalg.inv(K), y)
    evidence = -0.5 * (fit_term + np.linalg.slogdet(K)[1] + 7 * np.log(2 * np.pi))
    tops = np.argwhere((evidence == maximum_filter(evidence, 5)) & (l > 0.1))
    (high, low) = sorted((evidence[i, j] for i, j in tops), reverse=True)
    model = mc.Model(
        mc.GP(k.SE(mc.param(1.0, bounds=(1e-2, 1e2)), variance=mc.fixed(1.0))),
        mc.likelihoods.Gaussian(mc.param(0.1, bounds=(1e-6, 1e2))),
    )
    fit = mc.fit(model, X, y, restarts=4, seed=6)
    ends = np.array(list(fit.status.starts.values()))
    near = np.isclose(ends, high, atol=0.01), np.isclose(ends, low, atol=0.01)
    assert near[0].any() and near[1].any() and np.all(near[0] | near[1])
    assert fit.value == pytest.approx(high, abs=0.01)
    best = tuple(tops[np.argmax([evidence[i, j] for i, j in tops])])
    assert float(fit.model.gp.kernel.lengthscale) == pytest.approx(l[best], rel=0.1)
    assert float(fit.model.likelihood.noise_variance) == pytest.approx(noise[best], rel=0.2)


def test_prior_moves_the_estimate_and_evidence_stays_without_it():
    """C.BAY8: MAP-II; the reported evidence is that of the data alone."""
    X, y = _toy(20)
    free = mc.fit(mc.Model(mc.GP(k.SE()), mc.likelihoods.Gaussian()), X, y)
    tight = mc.param(1.0, prior=LogNormal(np.log(3.0), 0.05))
    mapped = mc.fit(mc.Model(mc.GP(k.SE(tight)), mc.likelihoods.Gaussian()), X, y)
    assert abs(np.log(mapped.model.gp.kernel.lengthscale / 3.0)) < abs(
        np.log(free.model.gp.kernel.lengthscale / 3.0)
    )
    assert mapped.value == pytest.approx(mc.log_evidence(mapped.model, X, y), rel=1e-10)
    assert mapped.log_prior != 0.0


def test_map_depends_on_the_jacobian_and_maximum_likelihood_does_not():
    """C.BAY3 through learning."""
    X, y = _toy(15)
    wide = mc.param(1.0, prior=LogNormal(0.0, 1.0))
    model = mc.Model(mc.GP(k.SE(wide)), mc.likelihoods.Gaussian(mc.fixed(0.04)))
    a, b = (float(mc.fit(model, X, y, jacobian=j).model.gp.kernel.lengthscale) for j in (False, True))
    assert a < b
    plain = mc.Model(mc.GP(k.SE()), mc.likelihoods.Gaussian(mc.fixed(0.04)))
    c, d = (float(mc.fit(plain, X, y, jacobian=j).model.gp.kernel.lengthscale) for j in (False, True))
    assert c == d


def test_bounds_and_ties_hold():
    X, y = _toy()
    held = mc.Model(mc.GP(k.SE(mc.param(3.0, bounds=(2.0, 5.0)))), mc.likelihoods.Gaussian())
    with pytest.warns(FitWarning, match="kernel.lengthscale is at its lower bound 2"):
        fit = mc.fit(held, X, y)
    assert float(fit.model.gp.kernel.lengthscale) == pytest.approx(2.0, rel=1e-6)
    assert "at its lower bound" in fit.summary() and fit.status.converged
    tied = k.SE(mc.param(1.0, tie="l")) + k.Matern(nu=1.5, lengthscale=mc.param(1.0, tie="l"))
    kernel = mc.fit(mc.Model(mc.GP(tied), mc.likelihoods.Gaussian()), X, y).model.gp.kernel
    assert kernel.terms[0].lengthscale == kernel.terms[1].lengthscale != 1.0


def test_pooled_data():
    """A.M6: objectives add. Two data sets of one function, shifted apart so that nothing connects them: the
    pooled optimum is that of the sum, above each one's own; their union by one model gives the same, because
    its covariance between them is zero.
    """
    (X1, y1), (X2, y2) = _toy(25), _toy(40, seed=1)
    model = mc.Model(mc.GP(k.SE()), mc.likelihoods.Gaussian())
    pooled = mc.fit(model, [X1, X2], [y1, y2])

    def total(m):
        return mc.log_evidence(m, X1, y1) + mc.log_evidence(m, X2, y2)

    assert pooled.value == pytest.approx(total(pooled.model), rel=1e-12)
    assert [p.log_evidence for p in pooled.posterior] == pytest.approx(
        [mc.log_evidence(pooled.model, X1, y1), mc.log_evidence(pooled.model, X2, y2)], rel=1e-12
    )
    for X, y in ((X1, y1), (X2, y2)):
        assert total(mc.fit(model, X, y).model) < pooled.value - 0.01
    far = np.concatenate([X1, X2 + 1e3]), np.concatenate([y1, y2])
    union = mc.fit(pooled.model, *far)
    assert union.value == pytest.approx(pooled.value, abs=1e-4)
    assert float(union.model.gp.kernel.lengthscale) == pytest.approx(
        float(pooled.model.gp.kernel.lengthscale), rel=5e-3
    )
    with pytest.raises(ValueError, match="as many X as y"):
        mc.fit(model, [X1], [y1, y2])


def test_once_each(monkeypatch):
    """Starting values are computed, and targets checked, once in a fit, also through an estimator."""
    from mercer.inputs import arrays
    from mercer.learning import starts

    counts = collections.Counter()

    def count(module, name):
        original = getattr(module, name)

        def counted(*args, **kwargs):
            counts[(name, *(a for a in args if isinstance(a, str)))[:2]] += 1
            return original(*args, **kwargs)

        monkeypatch.setattr(module, name, counted)

    count(starts, "data_driven")
    count(arrays, "_float")
    X, y = _toy(20)
    mc.fit(mc.Model(mc.GP(k.SE()), mc.likelihoods.Gaussian()), X, y)
    assert counts == {("data_driven",): 1, ("_float", "X"): 1, ("_float", "y"): 1}
    for estimator, targets in (
        (mc.GPRegressor(), y),
        (mc.GPRegressor(likelihood="student-t"), y),
        (mc.GPClassifier(), y > 0),
    ):
        counts.clear()
        estimator.fit(X, targets)
        assert counts["data_driven",] == 1 and counts["_float", "y"] <= 1


def test_interruption_returns_the_best_so_far(monkeypatch):
    from mercer.learning.problem import LearningProblem

    X, y = _toy()
    count = 0
    original = LearningProblem.value_and_gradient

    def sometimes(self, vector):
        nonlocal count
        count += 1
        if count == 6:
            raise KeyboardInterrupt
        return original(self, vector)

    monkeypatch.setattr(LearningProblem, "value_and_gradient", sometimes)
    model = mc.Model(mc.GP(k.SE(5.0)), mc.likelihoods.Gaussian(1.0))
    with pytest.warns(FitWarning, match="interrupted"):
        fit = mc.fit(model, X, y)
    assert fit.status.interrupted and not fit.status.converged
    assert fit.value == max(h.value for h in fit.history) > mc.log_evidence(model, X, y)
    assert fit.value == pytest.approx(fit.posterior.log_evidence, rel=1e-12)


def test_coarse_to_fine_reaches_the_same_optimum(monkeypatch):
    from mercer.learning import climb as optimise

    rng = np.random.default_rng(0)
    X = rng.normal(size=(260, 3))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(260)
    model = mc.Model(mc.GP(k.SE(np.ones(3))), mc.likelihoods.Gaussian())
    direct = mc.fit(model, X, y)
    monkeypatch.setattr(optimise, "COARSE_FROM", 200)
    monkeypatch.setattr(optimise, "COARSE_SIZE", 120)
    coarse = mc.fit(model, X, y)
    assert {h.size for h in coarse.history} == {120, 260}
    assert coarse.value == pytest.approx(direct.value, abs=0.05)


def test_irrelevant_inputs_get_long_lengthscales():
    """D.SL9, A.K13: automatic relevance determination."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.05 * rng.standard_normal(60)
    l = mc.fit(mc.Model(mc.GP(k.SE(np.ones(3))), mc.likelihoods.Gaussian()), X, y).model.gp.kernel.lengthscale
    assert l[2] > 20 * max(l[0], l[1])


def test_many_columns_are_searched_from_several_scales():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (700, 103))
    f = np.sin(2 * np.pi * X[:, 0]) + X[:, 1] ** 2 + X[:, 2]
    y = f + 0.1 * rng.normal(size=700)
    model = mc.GPRegressor().fit(X[:200], y[:200])  # from d^1/4 alone: evidence -220, error .76
    assert model.log_marginal_likelihood_ > -115
    assert np.std(model.predict(X[200:]) - f[200:]) < 0.4 * np.std(f)
    assert len(model.fit_.status.starts) == 1


def test_few_columns_are_searched_from_one_scale():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (30, 5))
    model = mc.GPRegressor().fit(X, X.sum(1) + 0.1 * rng.normal(size=30))
    assert {e.start for e in model.fit_.history} == {"given"}


def test_known_noise_of_many_data():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (810, 1))
    y = np.sin(6 * X[:, 0]) + 0.1 * rng.normal(size=810)
    model = mc.Model(mc.GP(k.SE(0.3)), mc.likelihoods.Gaussian(np.full(810, 0.01)))
    assert mc.fit(model, X, y).status.converged


def test_short_lengthscale_drives_the_noise_down_and_a_long_one_up():
    """A.R9, A.P3, D.SL6, T-SL1: figure 2.5's pattern on a fresh draw from (1, 1, 0.1)."""
    noise = {0.3: [], 1.0: [], 3.0: []}
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = np.sort(rng.uniform(-7, 7, 20))[:, None]
        y = mc.GP(k.SE()).sample(X, 1, seed=seed)[0] + 0.1 * rng.standard_normal(20)
        for l in noise:
            likelihood = mc.likelihoods.Gaussian(mc.param(0.01, bounds=(1e-9, 10.0)))
            fit = mc.fit(mc.Model(mc.GP(k.SE(mc.fixed(l))), likelihood), X, y, restarts=1)
            noise[l].append((float(np.sqrt(fit.model.likelihood.noise_variance)), fit.value))
    median = {l: np.median(np.array(v), 0) for l, v in noise.items()}
    assert median[0.3][0] < median[1.0][0] < median[3.0][0] and 0.05 < median[1.0][0] < 0.2 < median[3.0][0]
    assert min(v[0] for v in noise[0.3]) < 0.01
    assert median[1.0][1] > max(median[0.3][1], median[3.0][1])


@pytest.mark.slow
def test_denser_data_do_not_teach_what_wider_data_do():
    """A.M5: the length-scale of an OU process on a fixed interval stays uncertain as the data grow denser;
    on a growing one it is learned.
    """
    from experiments.asymptotics import spread

    fixed, growing = spread([16, 120], draws=12, growing=False), spread([16, 120], draws=12, growing=True)
    assert growing[1] < 0.5 * growing[0]
    assert growing[1] < 0.5 * fixed[1]


def test_overall_scale_maximises_the_evidence():
    """A.M11: theta0 = y'K^-1 y / n."""
    X, y = _toy(20)
    model = mc.Model(mc.GP(k.SE(0.8, variance=2.0)), mc.likelihoods.Gaussian(0.3))
    theta = overall_scale(model, X, y)

    def evidence(c):
        return mc.log_evidence(mc.GP(k.SE(0.8, variance=2.0 * c)), X, y, noise_variance=0.3 * c)

    assert evidence(theta) > max(evidence(theta * 1.01), evidence(theta / 1.01))
    assert (evidence(theta * 1.0001) - evidence(theta / 1.0001)) / 2e-4 == pytest.approx(0.0, abs=1e-3)


def test_model_evidence_against_quadrature():
    """A.M1: Laplace over one hyperparameter, against the integral."""
    X, y = _toy(60)
    prior = LogNormal(0.0, 1.0)

    def model(l):
        return mc.Model(mc.GP(k.SE(l, variance=mc.fixed(1.0))), mc.likelihoods.Gaussian(mc.fixed(0.04)))

    fit = mc.fit(model(mc.param(1.0, prior=prior)), X, y)
    result = model_evidence(fit)
    peak = fit.posterior.log_evidence

    def density(u):
        return np.exp(
            mc.log_evidence(model(mc.fixed(np.exp(u))), X, y) - peak + prior.log_prob(np.exp(u)) + u
        )

    centre = float(np.log(fit.model.gp.kernel.lengthscale))
    integral, _ = quad(density, centre - 1, centre + 1, epsrel=1e-6)
    # the difference is Laplace's own error: the posterior of log l is slightly skew
    assert result.log_evidence == pytest.approx(peak + np.log(integral), abs=0.1)
    assert result.sd.shape == (1,)
    with pytest.raises(ValueError, match="proper prior"):
        model_evidence(mc.fit(model(1.0), X, y))


def test_model_posterior():
    np.testing.assert_allclose(model_posterior([-1000.0, -1000.0 + np.log(3)]), [0.25, 0.75])
    np.testing.assert_allclose(model_posterior([0.0, 0.0], prior=[0.9, 0.1]), [0.9, 0.1])


def test_evidence_terms_and_their_trade():
    """A.M2, figure 5.3: the data fit falls and the complexity term rises with the length-scale;
    the sum peaks near the truth.
    """
    X = np.linspace(-5, 5, 40)[:, None]
    y = mc.GP(k.SE()).sample(X, 1, seed=1)[0] + 0.1 * np.random.default_rng(1).standard_normal(40)
    scales = np.geomspace(0.2, 6, 15)
    terms = [mc.GP(k.SE(l)).condition(X, y, noise_variance=0.01).evidence_terms() for l in scales]
    fit, complexity = np.array([t.data_fit for t in terms]), np.array([t.complexity for t in terms])
    assert np.all(np.diff(complexity) > 0) and fit[0] > fit[-1]
    total = np.array([t.total for t in terms])
    assert 0.5 < scales[np.argmax(total)] < 2.0


def test_nothing_free_is_not_an_error():
    X, y = _toy(10)
    fit = mc.fit(
        mc.Model(mc.GP(k.SE(mc.fixed(1.0), variance=mc.fixed(1.0))), mc.likelihoods.Gaussian(mc.fixed(0.1))),
        X,
        y,
    )
    assert fit.status.converged and fit.status.message == "nothing to learn"


def test_summary_lists_everything():
    X, y = _toy(30)
    text = mc.fit(
        mc.Model(mc.GP(2.0 * k.SE() * k.Periodic(mc.fixed(1.0))), mc.likelihoods.Gaussian()), X, y
    ).summary()
    for word in (
        "kernel.variance",
        "held",
        "fixed",
        "likelihood.noise_variance",
        "condition number",
        "jitter",
        "evaluations",
    ):
        assert word in text


def test_failed_start_raises_with_the_cause():
    X = np.zeros((5, 1))
    model = mc.Model(mc.GP(k.SE(variance=mc.fixed(1e300))), mc.likelihoods.Gaussian(mc.fixed(1e-300)))
    with pytest.raises((np.linalg.LinAlgError, FloatingPointError, ValueError)):
        mc.fit(model, X, np.arange(5.0))


def test_robust_noise_also_starts_where_gaussian_noise_ends():
    """A cluster that heavy tails take for outliers and a shorter length-scale explains: the start is tried,
    the best end kept.
    """
    rng = np.random.default_rng(4)
    X = np.concatenate([np.linspace(0, 10, 40), np.linspace(4.0, 4.4, 5)])[:, None]
    y = np.sin(0.6 * X[:, 0]) + 0.05 * rng.normal(size=45)
    y[40:] += 3.0
    model = mc.Model(mc.GP(k.SE()), mc.likelihoods.StudentT())
    plain, several = (mc.fit(model, X, y, restarts=r) for r in (0, 1))
    assert "Gaussian" in several.status.starts and "Gaussian" not in plain.status.starts
    ends = several.status.starts
    assert several.posterior.log_evidence >= max(plain.posterior.log_evidence, *ends.values()) - 0.05


def test_a_mean_far_from_zero_is_learned():
    """Targets around 10,000: what stands under no exponential may be as large as it is."""
    X, y = _toy()
    near, far = (
        mc.fit(mc.Model(mc.GP(k.SE(), mc.means.Constant(level)), mc.likelihoods.Gaussian(0.1)), X, y + level)
        for level in (0.0, 1e4)
    )
    assert far.objective == pytest.approx(near.objective, abs=1e-3)
    levels = [float(fit.model.gp.mean.constant) for fit in (near, far)]
    assert levels[1] - 1e4 == pytest.approx(levels[0], abs=0.05)
