"""Every likelihood with every rule that takes it, on every solver."""

import functools

import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer import likelihoods as lk
from mercer import means
from mercer.gp import choose_solver, prepare
from mercer.inference import EP, KL, Laplace
from mercer.params import parameters, replace_leaves
from mercer.solvers.protocol import SolverError

from .conformance import (
    CASES,
    COUNTS,
    LABELS,
    ONE,
    PAIRS,
    REAL,
    RULES,
    SOLVERS,
    XS,
    N,
    X,
    along,
    differences,
    learned,
    one_latent,
    run,
)

EP_OF_ONE = [c for c in CASES if "ep" in CASES[c].rules and one_latent(c)]
every = pytest.mark.parametrize(("case", "rule", "solver"), PAIRS)
dense = pytest.mark.parametrize(("case", "rule"), [(c, r) for c, r, s in PAIRS if s == "dense"])


@functools.cache
def posterior(case, rule, solver):
    name, kernel = SOLVERS[solver]
    return CASES[case].model(kernel).condition(X, CASES[case].y, RULES[rule], name)


@pytest.mark.representative(
    "probit-ep",
    "logit-laplace",
    "logit-local-bound",
    "multinomial-ep",
    "gaussian",
    "poisson-laplace",
    "student-t-laplace",
)
@dense
def test_gradient_of_the_evidence(case, rule):
    """Every hyperparameter by itself."""
    model, y = CASES[case].model(SOLVERS["dense"][1]), CASES[case].y
    _, gradient = mc.log_evidence_and_gradient(model, X, y, inference=RULES[rule])
    assert set(gradient) == {p.name for p in parameters(model)}
    names = {p.name for p in learned(model, case)}
    slopes = differences(model, X, y, RULES[rule], "dense", names)
    assert set(slopes) == names
    for key, slope in slopes.items():
        assert gradient[key].shape == slope.shape
        np.testing.assert_allclose(
            gradient[key], slope, rtol=CASES[case].rtol if rule == "kl" else 1e-5, atol=2e-6, err_msg=key
        )


@pytest.mark.representative("gaussian", "probit-laplace", "logit-ep", "uniform-kl", "heteroscedastic")
@every
def test_the_evidence_that_a_fit_climbs_is_smooth(case, rule, solver):
    """What is left over by looser tolerances must not reach the value: an optimiser would walk on it."""
    name, kernel = SOLVERS[solver]
    model, y = CASES[case].model(kernel), CASES[case].y
    rough, tight = (run(model, X, y, RULES[rule].rough(tight), name)[2] for tight in (False, True))
    bar = 1e-6 if rule == "scale-mixture" else 1e-9
    assert rough.log_evidence == pytest.approx(tight.log_evidence, abs=bar, rel=0)


@pytest.mark.representative("gaussian", "logit-ep", "uniform-kl", "heteroscedastic")
@pytest.mark.parametrize(("case", "rule", "solver"), [p for p in PAIRS if p[2] != "dense"])
def test_gradient_on_other_solvers(case, rule, solver):
    """All hyperparameters together, along a random direction."""
    name, kernel = SOLVERS[solver]
    model, y = CASES[case].model(kernel), CASES[case].y
    _, gradient = mc.log_evidence_and_gradient(model, X, y, inference=RULES[rule], solver=name)
    rng = np.random.default_rng(5)
    direction = {
        p.name: rng.choice([-1.0, 1.0], np.shape(p.value)) * np.maximum(np.abs(p.value), 0.1)
        for p in learned(model, case)
    }
    slope = along(model, X, y, RULES[rule], name, direction)
    total = sum(float(np.sum(gradient[key] * d)) for key, d in direction.items())
    size = sum(float(np.sum(np.abs(gradient[key] * d))) for key, d in direction.items())
    assert total == pytest.approx(slope, abs=(CASES[case].rtol if rule == "kl" else 1e-5) * size + 2e-6)


@every
def test_converged_and_consistent(case, rule, solver):
    """The run says that it converged; mean = prior mean + K alpha; covariances are positive;
    probabilities sum to one.
    """
    post = posterior(case, rule, solver)
    assert post.status.converged and not [note for note in post.notes if "lower bound" not in note]
    mean, variance = post.latent_moments(XS)
    priors = post.model.priors if isinstance(post.model.priors, tuple) else (post.model.priors,)
    alpha = post.state.alpha.reshape(N, -1)
    by_hand = np.stack(
        [np.asarray(p.mean.value(XS)) + p.kernel(XS, X) @ alpha[:, j] for j, p in enumerate(priors)], 1
    )
    np.testing.assert_allclose(mean.reshape(by_hand.shape), by_hand, rtol=1e-9, atol=1e-10)
    if one_latent(case):
        assert np.all(variance > 0) and np.all(variance <= priors[0].kernel(XS).diagonal() * (1 + 1e-3) + 1.0)
    else:
        assert np.linalg.eigvalsh(variance).min() > 0
    if hasattr(post.model.likelihood, "probability"):
        p = post.probability(XS)
        assert np.all((p > 0) & (p < 1))
        if p.ndim == 2:
            np.testing.assert_allclose(p.sum(1), 1.0, atol=1e-12)


@dense
def test_solvers_agree_for_a_kernel_of_finite_rank(case, rule):
    """weight_space and dense see the same posterior."""
    model, y = CASES[case].model(SOLVERS["weight_space"][1]), CASES[case].y
    a, b = model.condition(X, y, RULES[rule], "dense"), posterior(case, rule, "weight_space")
    assert a.log_evidence == pytest.approx(b.log_evidence, abs=2e-8)
    for p, q in zip(a.latent_moments(XS), b.latent_moments(XS), strict=True):
        np.testing.assert_allclose(p, q, rtol=1e-6, atol=1e-7)


@pytest.mark.representative("probit", "gaussian", "poisson-laplace")
@dense
def test_order_of_rows_does_not_matter(case, rule):
    model, y = CASES[case].model(SOLVERS["dense"][1]), CASES[case].y
    order = np.random.default_rng(1).permutation(N)
    again = mc.Model(model.gp, model.likelihood.at_rows(order, N))
    a, b = posterior(case, rule, "dense"), again.condition(X[order], y[order], RULES[rule])
    assert a.log_evidence == pytest.approx(b.log_evidence, abs=1e-9)
    for p, q in zip(a.latent_moments(XS), b.latent_moments(XS), strict=True):
        np.testing.assert_allclose(p, q, rtol=1e-7, atol=1e-8)
    if not model.likelihood.per_datum:
        np.testing.assert_allclose(a.loo().log_density[order], b.loo().log_density, rtol=1e-6, atol=1e-8)


@dense
def test_warm_starts_and_the_same_bits(case, rule):
    """From the sites of other hyperparameters the same answer, sooner from the same;
    a second cold run gives the same bits.
    """
    model, y = CASES[case].model(SOLVERS["dense"][1]), CASES[case].y
    inputs, targets = prepare(model, X, y)
    model, solve = model.bind(inputs), choose_solver(model, "dense")
    name = next(p.name for p in parameters(model) if p.name.endswith("variance"))
    other = replace_leaves(model, {name: 2.0})
    workspace = solve.workspace(model.priors, inputs.values)
    RULES[rule].run(other, inputs.values, targets, solve, workspace)
    warm = RULES[rule].run(model, inputs.values, targets, solve, workspace)
    cold = RULES[rule].run(model, inputs.values, targets, solve)
    assert warm.log_evidence == pytest.approx(cold.log_evidence, abs=1e-8)
    np.testing.assert_allclose(warm.state.mean(), cold.state.mean(), rtol=1e-5, atol=1e-6)
    again = RULES[rule].run(model, inputs.values, targets, solve, workspace)
    assert again.status.iterations <= cold.status.iterations
    first = posterior(case, rule, "dense")
    assert cold.log_evidence == first.log_evidence
    np.testing.assert_array_equal(cold.state.alpha, first.state.alpha)


# ------------------------------------------------------------------------------------------------- Gaussian
# noise is exact


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("rule", ONE)
def test_gaussian_noise_is_exact_by_every_rule(rule, solver):
    a, b = posterior("gaussian", "exact", solver), posterior("gaussian", rule, solver)
    assert b.log_evidence == pytest.approx(a.log_evidence, abs=1e-9)
    for p, q in zip(a.latent_moments(XS), b.latent_moments(XS), strict=True):
        np.testing.assert_allclose(q, p, rtol=1e-8, atol=1e-9)
    for name in ("mean", "variance", "log_density"):
        p, q = getattr(a.loo(), name), getattr(b.loo(), name)
        np.testing.assert_allclose(q, p, rtol=1e-7, atol=1e-8)
    assert b.status.iterations <= 2


def test_gaussian_noise_for_each_datum():
    noise = np.linspace(0.1, 1.0, N)
    model = mc.Model(mc.GP(SOLVERS["dense"][1]), lk.Gaussian(noise))
    exact, gradient = mc.log_evidence_and_gradient(model, X, REAL)
    for rule in ONE:
        value, slope = mc.log_evidence_and_gradient(model, X, REAL, inference=RULES[rule])
        assert value == pytest.approx(exact, abs=1e-9)
        for key in gradient:
            np.testing.assert_allclose(slope[key], gradient[key], rtol=1e-6, atol=1e-7)


# ------------------------------------------------------------------------------------------------- one datum


def quadrature(likelihood, y, mean, variance):
    """log Z, mean and variance of p(y|f) N(f|mean, variance), on a fine grid."""
    f = mean + np.sqrt(variance) * np.linspace(-13, 13, 400_001)
    log_q = np.asarray(likelihood.log_prob(f, np.full(f.shape, y))) - 0.5 * (f - mean) ** 2 / variance
    top = log_q.max()
    q = np.exp(log_q - top)
    m = np.average(f, weights=q)
    log_Z = top + np.log(q.sum() * (f[1] - f[0])) - 0.5 * np.log(2 * np.pi * variance)
    return log_Z, m, np.average((f - m) ** 2, weights=q)


@pytest.mark.parametrize("schedule", ["parallel", "sequential"])
@pytest.mark.parametrize("case", EP_OF_ONE)
def test_ep_is_exact_for_one_datum(case, schedule):
    y = CASES[case].y[6]
    x = X[6:7]
    model = mc.Model(mc.GP(k.SE(1.0, 2.3), 0.4), CASES[case].likelihood.at_rows(np.array([6]), N))
    post = model.condition(x, [y], EP(schedule, tol=1e-11))
    log_Z, m, v = quadrature(model.likelihood, model.likelihood.targets(np.array([y]))[0], 0.4, 2.3)
    mean, variance = post.latent_moments(x)
    assert post.log_evidence == pytest.approx(log_Z, abs=1e-7)
    assert mean[0] == pytest.approx(m, rel=1e-6)
    assert variance[0] == pytest.approx(v, rel=1e-5)


# ------------------------------------------------------------------------------------------------- basis
# functions


@pytest.mark.parametrize("rule", ["laplace", "ep", "kl"])
@pytest.mark.parametrize("case", ["probit", "poisson", "student-t"])
def test_a_vague_basis_is_the_limit_of_a_linear_kernel(case, rule):
    """vague = lim (log Z + 1/2 log|B| + p/2 log 2 pi) as B = b I grows."""
    b = 1e6
    likelihood, y = CASES[case].likelihood, CASES[case].y
    kernel = SOLVERS["dense"][1]
    vague = mc.Model(mc.GP(kernel, basis=means.Polynomial(1)), likelihood).condition(X, y, RULES[rule])
    linear = mc.Model(mc.GP(kernel + k.Constant(b) + k.Linear(b)), likelihood).condition(X, y, RULES[rule])
    shift = 1.5 * (np.log(b) + np.log(2 * np.pi))
    assert vague.status.converged
    assert vague.log_evidence == pytest.approx(linear.log_evidence + shift, abs=1e-4)
    for p, q in zip(vague.latent_moments(XS), linear.latent_moments(XS), strict=True):
        np.testing.assert_allclose(p, q, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("rule", ["laplace", "ep", "kl"])
def test_gradient_with_a_basis(rule):
    model = mc.Model(mc.GP(SOLVERS["dense"][1], basis=means.Polynomial(1)), lk.Bernoulli())
    _, gradient = mc.log_evidence_and_gradient(model, X, LABELS, inference=RULES[rule])
    names = {"kernel.lengthscale", "kernel.variance"}
    slopes = differences(model, X, LABELS, RULES[rule], "dense", names)
    for key in names:
        np.testing.assert_allclose(gradient[key], slopes[key], rtol=1e-5, atol=2e-6)


# ------------------------------------------------------------------------------------------------- what rules
# refuse


def test_refusals_say_what_to_use_instead():
    gp = mc.GP(SOLVERS["dense"][1])
    with pytest.raises(SolverError, match="inference='ep'"):
        mc.Model(gp, lk.Laplace(0.3)).condition(X, REAL, "laplace")
    for rule in ("ep", "kl"):
        with pytest.raises(SolverError, match="inference='laplace'"):
            mc.Model(gp, lk.Softmax(3)).condition(X, CASES["softmax"].y, rule)
        with pytest.raises(SolverError, match="inference='laplace'"):
            mc.Model(gp, lk.Heteroscedastic()).condition(X, REAL, rule)
    with pytest.raises(SolverError, match="Gaussian"):
        mc.Model(gp, lk.Poisson()).condition(X, COUNTS, "exact")
    for likelihood in (lk.Bernoulli("probit"), lk.Bernoulli("logit", flip=0.1)):
        with pytest.raises(SolverError, match="logit"):
            mc.Model(gp, likelihood).condition(X, LABELS, "local-bound")
    with pytest.raises(ValueError, match="local-bound"):
        mc.Model(gp, lk.Poisson()).condition(X, COUNTS, "newton")
    with pytest.raises(SolverError, match="schedule='parallel'"):
        mc.Model(gp, lk.MultinomialProbit(3)).condition(X, CASES["softmax"].y, EP("sequential"))
    with pytest.raises(ValueError, match="schedule"):
        EP("random")
    with pytest.raises(ValueError, match="damping"):
        EP(damping=0.0)


def test_defaults_by_likelihood():
    from mercer.inference import Exact, by_name

    for likelihood, rule in [
        (lk.Gaussian(), Exact),
        (lk.Bernoulli(), EP),
        (lk.Laplace(), EP),
        (lk.Poisson(), Laplace),
        (lk.Softmax(3), Laplace),
        (lk.MultinomialProbit(3), EP),
    ]:
        assert type(by_name(None, likelihood)) is rule
    assert type(by_name("variational")) is type(by_name("kl")) is KL


@pytest.mark.parametrize("case", EP_OF_ONE)
def test_sequential_and_parallel_ep_agree(case):
    """Also where the likelihood has a parameter for each datum."""
    model, y = CASES[case].model(SOLVERS["dense"][1]), CASES[case].y
    a, b = (model.condition(X, y, RULES[rule]) for rule in ("ep", "ep-sequential"))
    assert a.status.converged and b.status.converged
    assert a.log_evidence == pytest.approx(b.log_evidence, abs=1e-9)
    np.testing.assert_allclose(a.state.sites.precision, b.state.sites.precision, rtol=1e-7, atol=1e-9)


def test_schedules_and_damping_share_the_fixed_point():
    model = CASES["probit"].model(SOLVERS["dense"][1])
    values = [
        run(model, X, LABELS, rule)[2].log_evidence
        for rule in (
            EP(tol=1e-11),
            EP(tol=1e-11, damping=0.3),
            EP("sequential", tol=1e-11),
            EP("sequential", tol=1e-11, damping=0.5),
        )
    ]
    np.testing.assert_allclose(values, values[0], atol=1e-9)
