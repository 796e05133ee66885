"""Low-rank solvers say what the dense algebra of their approximate prior says (GPML 8.3),
and pull every cotangent back.
"""

import dataclasses

import jax
import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer import likelihoods as lik
from mercer import means
from mercer.inputs import as_inputs
from mercer.params import strip
from mercer.solvers import (
    FITC,
    VFE,
    Dense,
    Nystrom,
    ProjectedProcess,
    Sites,
    SolverError,
    SubsetOfRegressors,
    by_name,
)
from mercer.solvers.inducing import JITTER

from .conformance import assert_refused

N, M = 30, 6
RNG = np.random.default_rng(0)
X, XS = RNG.normal(size=(N, 2)), RNG.normal(size=(5, 2))
Z = X[:M] + 0.1
Y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.1 * RNG.normal(size=N)
KERNEL = k.SE([0.8, 1.3], 1.5) + k.Matern(nu=1.5, lengthscale=0.7, variance=0.3)
PRIOR = mc.GP(KERNEL, mean=0.3).bind(as_inputs(X))
FAMILY = (SubsetOfRegressors, ProjectedProcess, FITC, VFE)
family = pytest.mark.parametrize("cls", FAMILY, ids=lambda c: c.__name__)
slopes = pytest.mark.parametrize("slope", [False, True], ids=["data", "slope"])


def some_sites(slope: bool) -> Sites:
    rng = np.random.default_rng(1)
    W = np.abs(rng.normal(size=(N, 1))) + 0.1
    return Sites(rng.normal(size=(N, 1)), W, rng.normal(size=(N, 1)) if slope else None)


def matrices(kernel, X, Z):
    K = lambda A, B: np.asarray(kernel(A, B))  # noqa: E731
    Kmm = K(Z, Z)
    return K, K(X, Z), Kmm + JITTER * np.mean(np.diag(Kmm)) * np.eye(len(Z))


def dense(cls, kernel, mean, sites, X=X, Z=Z):
    """Everything a State says, from n x n matrices (8.11-8.27)."""
    K, Knm, Kmm = matrices(kernel, X, Z)
    Q = Knm @ np.linalg.solve(Kmm, Knm.T)
    t = np.diag(K(X, X)) - np.diag(Q)
    Kt = Q + np.diag(t) if cls is FITC else Q
    W, g = sites.precision[:, 0], np.zeros(len(X)) if sites.slope is None else sites.slope[:, 0]
    delta = sites.centre[:, 0] - mean
    R = np.linalg.inv(Kt + np.diag(1 / W))
    z = delta - Kt @ g
    alpha = g + R @ z
    root = np.sqrt(W)
    log_z = (
        -0.5 * np.linalg.slogdet(np.eye(len(X)) + root[:, None] * Kt * root)[1]
        - 0.5 * z @ R @ z
        - g @ delta
        + 0.5 * g @ Kt @ g
    )
    variance = np.diag(Kt - Kt @ R @ Kt) + (t if cls in (ProjectedProcess, VFE) else 0.0)
    Ks = K(XS, Z)
    Qs, Qss = Ks @ np.linalg.solve(Kmm, Knm.T), Ks @ np.linalg.solve(Kmm, Ks.T)
    covariance = Qss - Qs @ R @ Qs.T + (0.0 if cls is SubsetOfRegressors else K(XS, XS) - Qss)
    return dict(
        log_normaliser=log_z - (0.5 * W @ t if cls is VFE else 0.0),
        alpha=alpha,
        kappa=np.diag(R),
        mean=mean + Kt @ alpha,
        variance=variance,
        R=R,
        predicted=mean[0] + Qs @ alpha,
        covariance=covariance,
    )


@pytest.mark.parametrize("store", [True, False], ids=["stored", "streamed"])
@slopes
@family
def test_state(cls, slope, store):
    sites = some_sites(slope)
    state = cls(inducing=Z, store=store).factor(PRIOR, X, sites)
    expected = dense(cls, strip(KERNEL), np.full(N, 0.3), sites)
    close = dict(rtol=1e-11, atol=1e-11)
    mean, variance = state.marginals()
    alpha, kappa = state.dual()
    predicted, covariance = state.predict(XS, full=True)
    assert state.log_normaliser == pytest.approx(expected["log_normaliser"], rel=1e-12)
    for found, name in (
        (mean, "mean"),
        (variance, "variance"),
        (alpha, "alpha"),
        (kappa, "kappa"),
        (predicted, "predicted"),
    ):
        np.testing.assert_allclose(found[:, 0], expected[name], **close)
    np.testing.assert_allclose(covariance, expected["covariance"], **close)
    np.testing.assert_allclose(state.predict(XS)[1][:, 0], np.diag(expected["covariance"]), **close)
    V = np.random.default_rng(3).normal(size=(N, 3))
    np.testing.assert_allclose(state.apply(V), expected["R"] @ V, **close)


@family
def test_silent_sites(cls):
    """The log normaliser and its derivative in W, where two sites say nothing (W = 0)."""
    given = some_sites(True)
    W = given.precision.copy()
    W[[2, 7]] = 0.0
    K = cls(inducing=Z).factor(PRIOR, X, given).times_K(np.eye(N))
    t = np.diag(KERNEL(X)) - np.diag(K) if cls is VFE else np.zeros(N)
    delta, g = given.centre[:, 0] - 0.3, given.slope[:, 0]

    def log_normaliser(W):
        z = delta - K @ g
        B = np.eye(N) + W * K
        quadratic = z @ np.linalg.solve(B, W[:, 0] * z) - g @ K @ g + 2 * g @ delta + W[:, 0] @ t
        return -0.5 * (np.linalg.slogdet(B)[1] + quadratic)

    state = cls(inducing=Z).factor(PRIOR, X, Sites(given.centre, W, given.slope))
    assert state.log_normaliser == pytest.approx(log_normaliser(W), rel=1e-9)
    expected = [(log_normaliser(W + h) - log_normaliser(W - h)) / 2e-5 for h in 1e-5 * np.eye(N)[:, :, None]]
    np.testing.assert_allclose(state.pullback(1.0).sites.precision[:, 0], expected, rtol=1e-6, atol=1e-7)


def test_nystrom_declares_what_its_R_belongs_to():
    """Its means and variances mix two priors: they have no derivatives, which are refused."""
    state = Nystrom(inducing=Z).factor(PRIOR, X, some_sites(False))
    for quantity in ("mean", "var"):
        assert_refused(state, quantity, **{f"{quantity}_bar": np.ones(N)})


@pytest.mark.representative("VFE", "FITC", "ProjectedProcess")
@slopes
@family
def test_every_cotangent(cls, slope):
    """One joint pass against finite differences of the dense algebra: kernel leaves, precision, inputs,
    inducing inputs.
    """
    sites = some_sites(slope)
    u, v, a, kap = np.random.default_rng(2).normal(size=(4, N))
    leaves, tree = jax.tree.flatten(strip(PRIOR.kernel))

    def value(leaves=leaves, sites=sites, X=X, Z=Z):
        d = dense(cls, jax.tree.unflatten(tree, leaves), np.full(N, 0.3), sites, X, Z)
        return (
            0.7 * d["log_normaliser"] + u @ d["mean"] + v @ d["variance"] + a @ d["alpha"] + kap @ d["kappa"]
        )

    state = cls(inducing=Z, learn=True).factor(PRIOR, X, sites)
    out = state.pullback(0.7, mean_bar=u, var_bar=v, alpha_bar=a, kappa_bar=kap, inputs=True)
    h = 1e-6

    def slope_of(move):
        return (value(**move(h)) - value(**move(-h))) / (2 * h)

    def bumped(array, index, h):
        new = np.array(array, float)
        new[index] += h
        return new

    close = dict(rel=3e-6, abs=3e-6)
    for j, bar in enumerate(jax.tree.leaves(out.prior.kernel)):
        for i in np.ndindex(np.shape(leaves[j])):
            found = slope_of(
                lambda h, j=j, i=i: dict(
                    leaves=[bumped(x, i, h) if q == j else x for q, x in enumerate(leaves)]
                )
            )
            assert np.asarray(bar)[i] == pytest.approx(found, **close)
    for i in (0, 7, 29):
        moved = slope_of(
            lambda h, i=i: dict(
                sites=dataclasses.replace(sites, precision=bumped(sites.precision, (i, 0), h))
            )
        )
        assert out.sites.precision[i, 0] == pytest.approx(moved, **close)
        moved = slope_of(
            lambda h, i=i: dict(sites=dataclasses.replace(sites, centre=bumped(sites.centre, (i, 0), h)))
        )
        assert out.sites.centre[i, 0] == pytest.approx(moved, **close)
    for i in ((0, 0), (11, 1)):
        assert out.inputs[i] == pytest.approx(slope_of(lambda h, i=i: dict(X=bumped(X, i, h))), **close)
    for i in ((0, 1), (4, 0)):
        assert out.prior.inducing[i] == pytest.approx(
            slope_of(lambda h, i=i: dict(Z=bumped(Z, i, h))), **close
        )


# ------------------------------------------------------------------------------------------------- what the
# texts say


@family
def test_exact_when_all_data_are_inducing(cls):
    post = mc.GP(KERNEL).condition(X, Y, 0.05, solver=cls(m=N))
    exact = mc.GP(KERNEL).condition(X, Y, 0.05)
    assert post.log_evidence == pytest.approx(exact.log_evidence, abs=1e-6)
    np.testing.assert_allclose(post.mean(XS), exact.mean(XS), atol=1e-7)
    if cls is not SubsetOfRegressors:
        np.testing.assert_allclose(post.variance(XS), exact.variance(XS), atol=1e-7)


def test_subset_of_regressors_is_a_gp_with_the_nystrom_kernel():
    """8.33-8.44, the quadratic identity (8.18), and the same mean as the projected process (8.26)."""
    post = mc.GP(KERNEL).condition(X, Y, 0.05, solver=SubsetOfRegressors(inducing=Z))
    _, Knm, Kmm = matrices(strip(KERNEL), X, Z)
    Q = Knm @ np.linalg.solve(Kmm, Knm.T) + 0.05 * np.eye(N)
    assert post.log_evidence == pytest.approx(
        -0.5 * np.linalg.slogdet(Q)[1] - 0.5 * Y @ np.linalg.solve(Q, Y) - 0.5 * N * np.log(2 * np.pi),
        rel=1e-11,
    )
    weights = np.linalg.solve(Knm.T @ Knm + 0.05 * Kmm, Knm.T @ Y)  # (8.16)
    quadratic = np.sum((Y - Knm @ weights) ** 2) / 0.05 + weights @ Kmm @ weights
    assert quadratic == pytest.approx(Y @ np.linalg.solve(Q, Y), rel=1e-9)
    projected = mc.GP(KERNEL).condition(X, Y, 0.05, solver=ProjectedProcess(inducing=Z))
    np.testing.assert_allclose(projected.mean(XS), post.mean(XS), rtol=1e-12)
    assert (projected.variance(XS) >= post.variance(XS) - 1e-12).all()
    far = np.full((1, 2), 50.0)
    assert post.variance(far, latent=True)[0] < 1e-12  # the defect the book warns of
    assert projected.variance(far, latent=True)[0] == pytest.approx(1.8, rel=1e-9)


def test_a_basis_function_at_the_test_input_mends_the_variance():
    """SP7: the same as the subset of regressors rebuilt with m + 1 basis functions,
    one test input at a time.
    """
    far = np.full((1, 2), 30.0)
    points = np.concatenate([XS, far])
    post = mc.GP(KERNEL).condition(X, Y, 0.05, solver=SubsetOfRegressors(inducing=Z, augment=True))
    for i, x in enumerate(points):
        rebuilt = mc.GP(KERNEL).condition(X, Y, 0.05, solver=SubsetOfRegressors(inducing=np.vstack([Z, x])))
        assert post.mean(points)[i] == pytest.approx(rebuilt.mean(x[None])[0], abs=1e-7)
        assert post.variance(points)[i] == pytest.approx(rebuilt.variance(x[None])[0], abs=1e-7)
    assert post.variance(far, latent=True)[0] == pytest.approx(1.8, rel=1e-6)


def test_the_exact_evidence_lies_between_the_bounds():
    exact = mc.GP(KERNEL).condition(X, Y, 0.05).log_evidence
    last = -np.inf
    for m in (3, 6, 12, 24):
        post = mc.GP(KERNEL).condition(X, Y, 0.05, solver=VFE(inducing=X[:m]))
        lower, upper = post.evidence_bounds()
        assert lower == post.log_evidence
        assert last < lower < exact < upper
        last = lower


def test_the_bound_of_titsias_is_the_kl_bound():
    """SP20: VFE = log p_SR - tr(K - Q) / (2 noise),
    and KL inference on the projected process is the same number.
    """
    model = mc.Model(mc.GP(KERNEL), lik.Gaussian(0.05))
    vfe = model.condition(X, Y, solver=VFE(inducing=Z)).log_evidence
    _, Knm, Kmm = matrices(strip(KERNEL), X, Z)
    t = 1.8 - np.einsum("ij,ji->i", Knm, np.linalg.solve(Kmm, Knm.T))
    sr = model.condition(X, Y, solver=SubsetOfRegressors(inducing=Z)).log_evidence
    assert vfe == pytest.approx(sr - 0.5 * t.sum() / 0.05, rel=1e-11)
    for solver in (VFE(inducing=Z), ProjectedProcess(inducing=Z)):
        assert model.condition(X, Y, "variational", solver).log_evidence == pytest.approx(vfe, rel=1e-9)


def test_nystrom_reports_negative_variances():
    rng = np.random.default_rng(1)
    x = np.sort(rng.uniform(0, 10, 40))[:, None]
    gp = mc.GP(k.SE(1.0))
    post = gp.condition(x, np.sin(x[:, 0]), 1e-4, solver=Nystrom(inducing=x[::10]))
    with pytest.warns(RuntimeWarning, match="negative"):
        variance = post.variance(np.linspace(0, 10, 50)[:, None], latent=True)
    assert (variance > 0).all()
    exact = gp.condition(x, np.sin(x[:, 0]), 1e-2)
    full = gp.condition(x, np.sin(x[:, 0]), 1e-2, solver=Nystrom(m=40))
    np.testing.assert_allclose(full.mean(x), exact.mean(x), atol=1e-6)
    np.testing.assert_allclose(full.variance(x), exact.variance(x), atol=1e-6)


# ------------------------------------------------------------------------------------------------- other
# likelihoods (8.4)

LABELS = np.where(Y > 0.1, 1.0, -1.0)
CLASSIFIER = mc.Model(mc.GP(k.SE([0.8, 1.3], 1.5)), lik.Bernoulli("probit"))


@pytest.mark.parametrize("rule", ["laplace", "ep", "variational"])
def test_classification_is_exact_when_all_data_are_inducing(rule):
    """SP15 and SP17 with m = n."""
    solver = VFE(m=N) if rule == "variational" else FITC(m=N)
    post, exact = (CLASSIFIER.condition(X, LABELS, rule, s) for s in (solver, Dense()))
    assert post.log_evidence == pytest.approx(exact.log_evidence, abs=1e-6)
    np.testing.assert_allclose(post.probability(XS), exact.probability(XS), atol=1e-6)


@pytest.mark.parametrize(
    ("rule", "cls"),
    [
        ("laplace", SubsetOfRegressors),
        ("laplace", FITC),
        ("laplace", VFE),
        ("ep", FITC),
        ("ep", ProjectedProcess),
        ("variational", VFE),
        ("variational", FITC),
    ],
)
def test_evidence_gradients_of_classifiers(rule, cls):
    solver = cls(inducing=Z)

    def model(theta):
        return mc.Model(mc.GP(k.SE(theta[:2], theta[2])), lik.Bernoulli("probit"))

    theta = np.array([0.8, 1.3, 1.5])
    _, by_name = mc.log_evidence_and_gradient(model(theta), X, LABELS, inference=rule, solver=solver)
    found = np.append(by_name["kernel.lengthscale"], by_name["kernel.variance"])
    h = 1e-4
    for i in range(3):
        step = h * np.eye(3)[i]
        up, down = (
            mc.log_evidence(model(theta + s), X, LABELS, inference=rule, solver=solver) for s in (step, -step)
        )
        assert found[i] == pytest.approx((up - down) / (2 * h), rel=2e-5, abs=2e-6)


def test_subset_of_regressors_laplace_is_newton_on_m_weights():
    """SP15: minimise -sum log p(y | K_nm a) + 1/2 a' K_mm a."""
    from scipy.optimize import minimize
    from scipy.special import log_ndtr

    _, Knm, Kmm = matrices(strip(CLASSIFIER.gp.kernel), X, Z)
    best = minimize(
        lambda a: -np.sum(log_ndtr(LABELS * (Knm @ a))) + 0.5 * a @ Kmm @ a, np.zeros(M), tol=1e-12
    )
    post = CLASSIFIER.condition(X, LABELS, "laplace", SubsetOfRegressors(inducing=Z))
    np.testing.assert_allclose(
        post.mean(XS, latent=True), np.asarray(strip(CLASSIFIER.gp.kernel)(XS, Z)) @ best.x, atol=2e-5
    )


# ------------------------------------------------------------------------------------------------- learning
# and people


def test_learning_moves_inducing_inputs():
    rng = np.random.default_rng(4)
    x = rng.uniform(0, 10, (120, 1))
    y = np.sin(x[:, 0]) + 0.1 * rng.normal(size=120)
    held = mc.GPRegressor(k.SE(1.0), solver=VFE(m=6, select="random")).fit(x, y)
    moved = mc.GPRegressor(k.SE(1.0), solver=VFE(m=6, select="random", learn=True)).fit(x, y)
    exact = mc.GPRegressor(k.SE(1.0)).fit(x, y)
    assert held.log_marginal_likelihood_ + 5 < moved.log_marginal_likelihood_ < exact.log_marginal_likelihood_
    np.testing.assert_allclose(moved.predict(x), exact.predict(x), atol=0.15)


def test_learning_moves_inducing_inputs_beside_basis_functions():
    rng = np.random.default_rng(4)
    x = rng.uniform(0, 10, (120, 1))
    y = np.sin(x[:, 0]) + 0.5 * x[:, 0] + 0.1 * rng.normal(size=120)
    model = mc.Model(mc.GP(k.SE(1.0), basis=means.Polynomial(1)), lik.Gaussian(0.1))
    held, moved = (
        mc.fit(model, x, y, solver=VFE(m=6, select="random", learn=learn)) for learn in (False, True)
    )
    assert held.value + 5 < moved.value < mc.fit(model, x, y).value
    start, end = (fit.posterior.solver.inducing_inputs() for fit in (held, moved))
    assert not np.allclose(start, end) and moved.posterior.solver.inducing_to_learn() is None


def test_inducing_inputs_beside_basis_functions_have_their_derivatives():
    prior = mc.GP(KERNEL, mean=0.3, basis=means.Polynomial(1)).bind(as_inputs(X))

    def state(Z):
        return VFE(inducing=Z, learn=True).with_basis().factor(prior, X, some_sites(False))

    found, h = state(Z).pullback(1.0).prior.inducing, 1e-6
    for i in np.ndindex(2, 2):
        step = np.zeros_like(Z)
        step[i] = h
        slope = (state(Z + step).log_normaliser - state(Z - step).log_normaliser) / (2 * h)
        assert found[i] == pytest.approx(slope, rel=1e-5, abs=1e-6)


def test_classifier_on_fitc():
    clf = mc.GPClassifier(k.SE([1.0, 1.0]), inference="ep", solver=FITC(m=15)).fit(X, LABELS > 0)
    dense = mc.GPClassifier(k.SE([1.0, 1.0]), inference="ep").fit(X, LABELS > 0)
    assert np.mean(clf.predict(X) == dense.predict(X)) > 0.9


def test_names_and_bad_input():
    assert isinstance(by_name("vfe"), VFE)
    with pytest.raises(SolverError, match="more inducing inputs than there are data"):
        mc.GP(KERNEL).condition(X, Y, 0.1, solver=VFE(m=N + 1))
    with pytest.raises(ValueError, match="at least one inducing input"):
        FITC(m=0)
    with pytest.raises(SolverError, match="FITC does not offer blocks"):
        mc.Model(mc.GP(KERNEL), lik.Softmax(3)).condition(X, np.arange(N) % 3, solver=FITC(m=5))
    twice = np.concatenate([Z, Z])
    same = mc.GP(KERNEL).condition(X, Y, 0.1, solver=VFE(inducing=twice))
    assert same.log_evidence == pytest.approx(
        mc.GP(KERNEL).condition(X, Y, 0.1, solver=VFE(inducing=Z)).log_evidence, abs=1e-5
    )


def test_what_needs_exact_covariances_is_refused():
    post = mc.GP(KERNEL).condition(X, Y, 0.1, solver=VFE(inducing=Z))
    for ask in (post.components, post.smoother):
        with pytest.raises(ValueError, match="use solver='dense'"):
            ask(XS)
    assert "condition number" in mc.GPRegressor(k.SE([1.0, 1.0]), solver=VFE(m=10)).fit(X, Y).summary()


def test_the_jitter_of_inducing_variables_is_an_option():
    """It is noise of f(Z): with every datum inducing, the mean is that of K (K + jitter)^-1 K."""
    X, y = np.linspace(0, 3, 8)[:, None], np.sin(np.arange(8.0))
    gp = mc.GP(k.SE(0.7))
    K = gp.kernel(X, X)
    Q = K @ np.linalg.solve(K + 0.01 * np.eye(8), K)
    by_hand = Q @ np.linalg.solve(Q + 0.1 * np.eye(8), y)
    found = gp.condition(X, y, noise_variance=0.1, solver=SubsetOfRegressors(inducing=X, jitter=0.01))
    np.testing.assert_allclose(found.mean(X), by_hand, rtol=1e-9)
    with pytest.raises(ValueError, match="share of the prior variance"):
        VFE(jitter=-1.0)


def test_saved_models_keep_their_inducing_inputs(tmp_path):
    model = mc.GPRegressor(k.SE([1.0, 1.0]), solver=VFE(m=8, learn=True)).fit(X, Y)
    model.save(tmp_path / "model.mercer")
    again = mc.load(tmp_path / "model.mercer")
    np.testing.assert_allclose(again.predict(XS), model.predict(XS), rtol=1e-12)
    np.testing.assert_allclose(again.posterior_.solver.inducing, model.posterior_.solver.inducing)


def test_a_limit_of_memory_goes_with_auto():
    with pytest.raises(ValueError, match="limit for solver='auto'"):
        mc.GPRegressor(solver="vfe", memory="8GiB").fit(X, Y)
    for solver in ("auto", None):
        model = mc.GPRegressor(k.SE([1.0, 1.0]), solver=solver, memory="8GiB").fit(X, Y)
        assert model.posterior_.solver == Dense()


def test_nystrom_eigenpairs_and_error():
    """8.2-8.4: eigenpairs from m columns rebuild K_nm K_mm^-1 K_mn;
    what is left is positive semi-definite and shrinks with m.
    """
    K = np.asarray(strip(KERNEL)(X, X))
    left = []
    for m in (5, 10, 20, N):
        values, vectors = np.linalg.eigh(K[:m, :m])
        found = N / m * values, np.sqrt(m / N) * K[:, :m] @ vectors / values
        approximation = (found[1] * found[0]) @ found[1].T
        np.testing.assert_allclose(approximation, K[:, :m] @ np.linalg.solve(K[:m, :m], K[:m]), atol=1e-8)
        state = Nystrom(inducing=X[:m]).factor(PRIOR, X, some_sites(False))
        np.testing.assert_allclose(state.times_K(np.eye(N)), approximation, atol=1e-6)
        assert np.linalg.eigvalsh(K - approximation).min() > -1e-8
        left.append(np.trace(K - approximation))
    assert left == sorted(left, reverse=True) and left[-1] < 1e-7


def test_bad_inducing_inputs():
    X = np.random.default_rng(0).normal(size=(30, 2))
    prior = mc.GP(k.SE([1.0, 1.0]))
    with pytest.raises(ValueError, match="whole number of inducing inputs"):
        VFE(2.5)
    with pytest.raises(ValueError, match=r"rows of inputs, \(m, d\); its shape is \(5,\)"):
        VFE(inducing=np.zeros(5))
    with pytest.raises(SolverError, match="have 3 columns, but the data have 2"):
        prior.condition(X, X[:, 0], 0.1, solver=VFE(inducing=np.zeros((4, 3))))
    with pytest.raises(SolverError, match="not finite"):
        prior.condition(X, X[:, 0], 0.1, solver=VFE(inducing=np.full((4, 2), np.nan)))


def test_repeated_inducing_inputs_are_told():
    X = np.random.default_rng(0).normal(size=(30, 2))
    prior = mc.GP(k.SE([1.0, 1.0]))
    twice = prior.condition(X, X[:, 0], 0.1, solver=VFE(inducing=X[[0, 1, 2, 0, 1]]))
    once = prior.condition(X, X[:, 0], 0.1, solver=VFE(inducing=X[:3]))
    assert "2 of 5 inducing inputs repeat others and add nothing" in twice.notes
    assert not any("repeat" in note for note in once.notes)
    assert twice.log_evidence == pytest.approx(once.log_evidence, rel=1e-6)


@pytest.mark.representative("VFE")
@pytest.mark.parametrize("solver", [VFE, FITC, SubsetOfRegressors])
@pytest.mark.parametrize("store", [True, False])
def test_many_blocks_in_threads_equal_one(solver, store, monkeypatch):
    """Three blocks of rows, two threads: evidence, gradient,
    cotangents of the inputs and predictions as in one piece.
    """
    rng = np.random.default_rng(3)
    X, Xs = rng.normal(size=(700, 2)), rng.normal(size=(5, 2))
    y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=700)
    gp, rows = mc.GP(k.SE(np.array([0.7, 1.3]))), X[:20]

    def everything():
        how = solver(inducing=rows, store=store)
        sites = Sites(y[:, None], np.full((700, 1), 9.0))
        state = how.factor(gp, X, sites)
        bars = state.pullback(1.0, inputs=True)
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(bars.prior.kernel)]
        return [state.log_normaliser, *leaves, bars.sites.precision, bars.inputs, *state.predict(Xs)]

    whole = everything()
    monkeypatch.setattr("mercer.solvers.inducing.BLOCK_BYTES", 1.0)
    monkeypatch.setattr("mercer.linalg.parallel.thread_count", lambda: 2)
    for one, many in zip(whole, everything(), strict=True):
        np.testing.assert_allclose(many, one, rtol=1e-9, atol=1e-10 * np.abs(one).max())
