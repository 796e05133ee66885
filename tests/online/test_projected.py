"""The online projected process against batch formulas, exact inference and EP. GPML 8.3.4;
Csato and Opper's updates.
"""

import numpy as np
import pytest
from scipy.special import log_ndtr

import mercer as mc
from mercer import kernels as k
from mercer import likelihoods, means
from mercer.inference import EP
from mercer.online import OnlineProjectedProcess
from mercer.solvers import Dense, Sites

rng = np.random.default_rng(1)
N = 30
X = rng.uniform(-2, 2, size=(N, 2))
Y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=N) + 0.3
LABELS = np.where(Y > 0.3, 1.0, -1.0)
XS = rng.uniform(-2, 2, size=(5, 2))
Z = X[:7] + 0.05
GP = mc.GP(k.Matern([1.0, 2.0], 1.3, nu=1.5), means.Constant(0.3))
NOISE = 0.09
GAUSSIAN, PROBIT = likelihoods.Gaussian(NOISE), likelihoods.Bernoulli()


def batch(variance):
    """Projected process (8.24)-(8.27), or FITC: the same with the noise plus what the active set leaves open.
    And (8.17).
    """
    Kmm, Kmn, Ksm = GP.kernel(Z), GP.kernel(Z, X), GP.kernel(XS, Z)
    Q = Kmn.T @ np.linalg.solve(Kmm, Kmn)
    noise = NOISE + (np.diag(GP.kernel(X) - Q) if variance == "full" else np.zeros(N))
    A = Kmm + (Kmn / noise) @ Kmn.T
    mean = 0.3 + Ksm @ np.linalg.solve(A, Kmn @ ((Y - 0.3) / noise))
    covariance = GP.kernel(XS) - Ksm @ np.linalg.solve(Kmm, Ksm.T) + Ksm @ np.linalg.solve(A, Ksm.T)
    S, r = Q + np.diag(noise), Y - 0.3
    return mean, covariance, -0.5 * r @ np.linalg.solve(S, r) - 0.5 * np.linalg.slogdet(2 * np.pi * S)[1]


@pytest.mark.parametrize("variance", ["projected", "full"])
def test_one_pass_is_the_batch_answer(variance):
    """SP12: on a fixed active set, in any order and in any pieces;
    the predictions along the way add up to the evidence.
    """
    mean, covariance, evidence = batch(variance)
    for order in (np.arange(N), np.random.default_rng(3).permutation(N)):
        online = OnlineProjectedProcess(GP, GAUSSIAN, active=Z, variance=variance)
        online.update(X[order[:11]], Y[order[:11]]).update(X[order[11:]], Y[order[11:]])
        found = online.predict(XS, full=True)
        np.testing.assert_allclose(found[0], mean, rtol=1e-10, atol=1e-11)
        np.testing.assert_allclose(found[1], covariance, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(online.predict(XS)[1], np.diag(covariance), rtol=1e-10)
        assert online.log_evidence == pytest.approx(evidence, rel=1e-11)
        assert online.seen == N and online.active.shape == Z.shape


def test_room_for_all_is_exact():
    """With every datum in the active set: the exact posterior and evidence."""
    online = OnlineProjectedProcess(GP, GAUSSIAN, capacity=N).update(X, Y)
    exact = GP.condition(X, Y, NOISE)
    np.testing.assert_array_equal(online.active, X)
    mean, covariance = online.predict(XS, full=True)
    np.testing.assert_allclose(mean, exact.mean(XS), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(covariance, exact.covariance(XS, latent=True), rtol=1e-8, atol=1e-10)
    assert online.log_evidence == pytest.approx(exact.log_evidence, rel=1e-10)


def test_before_any_data():
    mean, variance = OnlineProjectedProcess(GP, GAUSSIAN).predict(XS)
    np.testing.assert_allclose(mean, 0.3)
    np.testing.assert_allclose(variance, 1.3)
    assert OnlineProjectedProcess(GP, GAUSSIAN).active.size == 0


@pytest.mark.parametrize("forget", ["redundant", "mean"])
def test_removal_keeps_the_posterior_at_the_others(forget):
    """The part of the input that leaves is projected on the rest: mean and covariance there do not change."""
    online = OnlineProjectedProcess(GP, GAUSSIAN, capacity=12, forget=forget).update(X[:12], Y[:12])
    score = 1.0 / np.diag(np.linalg.inv(GP.kernel(X[:12])))
    score = score * np.abs(online._a) if forget == "mean" else score
    worst = int(np.argmin(score))
    before = online.predict(np.delete(X[:12], worst, 0), full=True)
    online._remove(worst)
    np.testing.assert_array_equal(online.active, np.delete(X[:12], worst, 0))
    for a, b in zip(online.predict(online.active, full=True), before, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(online._Q, np.linalg.inv(GP.kernel(online.active)), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("forget", ["redundant", "mean"])
def test_the_thirteenth_replaces_one(forget):
    """At capacity the input of the smallest score leaves after the new datum was learned."""
    online = OnlineProjectedProcess(GP, GAUSSIAN, capacity=12, forget=forget).update(X[:12], Y[:12])
    larger = OnlineProjectedProcess(GP, GAUSSIAN, capacity=13, forget=forget).update(X[:13], Y[:13])
    score = 1.0 / np.diag(np.linalg.inv(GP.kernel(X[:13])))
    score = score * np.abs(larger._a) if forget == "mean" else score
    online.update(X[12:13], Y[12:13])
    np.testing.assert_array_equal(online.active, np.delete(X[:13], int(np.argmin(score)), 0))


def test_novelty():
    """Inputs that the active set explains are projected; repeated ones never enter.
    No rounding errors pile up in a long stream.
    """
    online = OnlineProjectedProcess(GP, GAUSSIAN, capacity=50, novelty=0.05)
    online.update(np.repeat(X[:5], 3, 0), np.repeat(Y[:5], 3))
    assert online.active.shape == (5, 2)
    online = OnlineProjectedProcess(GP, GAUSSIAN, capacity=8, novelty=1e-4)
    stream = np.random.default_rng(4).uniform(-2, 2, size=(150, 2))
    truth = np.sin(2 * stream[:, 0]) + 0.3
    online.update(stream, truth + 0.3 * np.random.default_rng(5).normal(size=150))
    assert online.active.shape == (8, 2)
    np.testing.assert_allclose(online._Q @ GP.kernel(online.active), np.eye(8), atol=1e-9)
    assert np.mean((online.predict(stream)[0] - truth) ** 2) < 0.5 * np.var(truth)
    assert np.all(np.linalg.eigvalsh(online.predict(stream[:40], full=True)[1]) > -1e-9)


@pytest.mark.parametrize("variance", ["projected", "full"])
def test_two_classes_one_pass(variance):
    """Assumed-density filtering in the order of the data,
    written out on f at the active inputs with the probit in closed form.
    """
    online = OnlineProjectedProcess(GP, PROBIT, active=Z, variance=variance).update(X, LABELS)
    Kmm, Kmn = GP.kernel(Z), GP.kernel(Z, X)
    mean, S, total = np.zeros(7), Kmm.copy(), 0.0  # of f - m at Z
    for i in range(N):
        p = np.linalg.solve(Kmm, Kmn[:, i])
        v = p @ S @ p + (1.3 - p @ Kmn[:, i] if variance == "full" else 0.0)
        z = LABELS[i] * (0.3 + p @ mean) / np.sqrt(1 + v)
        ratio = np.exp(-0.5 * z**2 - 0.5 * np.log(2 * np.pi) - log_ndtr(z))
        total += log_ndtr(z)
        mean, S = (
            mean + S @ p * (LABELS[i] * ratio / np.sqrt(1 + v)),
            S - np.outer(S @ p, S @ p) * (ratio * (z + ratio) / (1 + v)),
        )
    found = online.predict(Z, full=True)
    np.testing.assert_allclose(found[0], 0.3 + mean, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(found[1], S, rtol=1e-8, atol=1e-10)
    assert online.log_evidence == pytest.approx(total, rel=1e-10)


@pytest.mark.parametrize("likelihood", [PROBIT, likelihoods.Bernoulli("logit")], ids=["probit", "logit"])
def test_sweeps_are_ep(likelihood):
    """SP17: with all data in the active set, sweeps until nothing changes give EP for the full model."""
    online = OnlineProjectedProcess(GP, likelihood, active=X)
    sweeps = online.refine(X, LABELS, tol=1e-11)
    assert 3 <= sweeps < 30
    post = mc.Model(GP, likelihood).condition(X, LABELS, EP(tol=1e-11))
    for a, b in zip(online.predict(XS), post.latent_moments(XS), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9)


def test_sweeps_on_few_inputs():
    """At the end every site matches its tilted moments;
    for Gaussian noise the second sweep changes nothing.
    """
    online = OnlineProjectedProcess(GP, GAUSSIAN, active=Z)
    assert online.refine(X, Y) == 2
    np.testing.assert_allclose(online.predict(XS)[0], batch("projected")[0], rtol=1e-9)
    assert online.log_evidence == pytest.approx(batch("projected")[2], rel=1e-10)
    online = OnlineProjectedProcess(GP, PROBIT, active=Z)
    online.refine(X, LABELS, tol=1e-12)
    first = online.predict(XS)
    online.refine(X[::-1], LABELS[::-1], tol=1e-12)
    for a, b in zip(online.predict(XS), first, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8)
    with pytest.raises(RuntimeError, match="did not settle in 2 sweeps"):
        online.refine(X, LABELS, tol=1e-12, max_iterations=2)


def test_robust_noise_skips_nothing_it_can_use():
    """Student-t: a site of negative precision is taken where the posterior stays proper;
    the outlier hardly moves the mean.
    """
    y = Y.copy()
    y[20] = 30.0
    online = OnlineProjectedProcess(GP, likelihoods.StudentT(3.0, 0.3), capacity=N).update(X, y)
    clean = OnlineProjectedProcess(GP, likelihoods.StudentT(3.0, 0.3), capacity=N).update(
        np.delete(X, 20, 0), np.delete(Y, 20)
    )
    assert np.abs(online.predict(X[20:21])[0] - clean.predict(X[20:21])[0]) < 0.5
    assert np.all(np.linalg.eigvalsh(online.predict(XS, full=True)[1]) > 0)


def test_gaussian_sites_agree_with_the_dense_solver():
    """A datum taken twice is a datum of half the noise variance."""
    online = OnlineProjectedProcess(GP, GAUSSIAN, active=X[:9]).update(X[:9], Y[:9]).update(X[:9], Y[:9])
    state = Dense().factor(GP, X[:9], Sites(Y[:9, None], np.full((9, 1), 2 / NOISE)))
    np.testing.assert_allclose(online.predict(XS)[0], state.predict(XS)[0][:, 0], rtol=1e-9, atol=1e-10)


def test_errors():
    for change, match in [
        (dict(variance="some"), "variance must be"),
        (dict(forget="all"), "forget must be"),
        (dict(capacity=0), "capacity must be 1"),
        (dict(novelty=0.0), "novelty positive"),
    ]:
        with pytest.raises(ValueError, match=match):
            OnlineProjectedProcess(GP, GAUSSIAN, **change)
    with pytest.raises(ValueError, match="Softmax: online learning takes one latent"):
        OnlineProjectedProcess(GP, likelihoods.Softmax(3))
    with pytest.raises(ValueError, match="no basis functions"):
        OnlineProjectedProcess(mc.GP(k.SE(), basis=means.Polynomial(1)), GAUSSIAN)
    with pytest.raises(ValueError, match="no active set yet"):
        OnlineProjectedProcess(GP, GAUSSIAN).refine(X, Y)
    with pytest.raises(ValueError, match="3 columns but the active inputs have 2"):
        OnlineProjectedProcess(GP, GAUSSIAN, active=Z).predict(np.zeros((1, 3)))
