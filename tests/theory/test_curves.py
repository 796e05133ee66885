"""Learning curves against golden values, direct integrals and simulation."""

import itertools

import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer.theory import (
    generalisation_error,
    learning_curve,
    micchelli_wahba,
    normal_nodes,
    opper_vivarelli,
    ou_error,
    ou_learning_curve,
    se_under_gaussian,
    sollich,
    uniform_nodes,
    williams_vivarelli,
)

RULE = normal_nodes(60)


def normal(rng, n):
    return rng.normal(size=(n, 1))


def test_golden_curve():
    """B.TH7, B.TH8: the catalogue's R6, an SE on N(0, 1) inputs."""
    l = se_under_gaussian(0.5, 1.0, 120).eigenvalues
    assert l.sum() == pytest.approx(1.0, abs=1e-12)
    n = [1, 5, 10, 50]
    np.testing.assert_allclose(
        opper_vivarelli(l, n, 0.1), [0.361735, 0.131643, 0.079438, 0.022328], atol=5e-7
    )
    np.testing.assert_allclose(sollich(l, n, 0.1), [0.799001, 0.335629, 0.156487, 0.027164], atol=5e-7)
    np.testing.assert_allclose(micchelli_wahba(l, n[:3]), [0.609612, 0.084191, 0.007088], atol=5e-7)
    curve = learning_curve(k.SE(0.5), normal, n, 0.1, RULE, repeats=300)
    known = np.array([0.7795, 0.3504, 0.1858, 0.03735])
    assert (np.abs(curve.error - known) < 4 * curve.standard_error + 0.001).all()
    assert (curve.error > opper_vivarelli(l, n, 0.1)).all()


def test_the_error_is_the_mean_predictive_variance():
    X = np.array([[-1.0], [0.2], [0.9]])
    post = mc.GP(k.SE(0.5)).condition(X, np.zeros(3), noise_variance=0.1)
    _, std = post.mean_and_std(RULE[0], latent=True)
    error = generalisation_error(k.SE(0.5), X, 0.1, RULE)
    assert error == pytest.approx(RULE[1] @ std**2, rel=1e-9)
    same = generalisation_error(k.SE(0.5), X, 0.1, RULE, truth=(k.SE(0.5), 0.1))
    assert same == pytest.approx(error, rel=1e-9)
    grown = learning_curve(k.SE(0.5), lambda rng, n: X[:n], [1, 2, 3], 0.1, RULE, repeats=2)
    assert grown.error[-1] == pytest.approx(error, rel=1e-9) and (np.diff(grown.error) < 0).all()


def test_the_wrong_model_by_monte_carlo():
    """(7.23): draws of the truth, predicted by another kernel."""
    rng = np.random.default_rng(0)
    X, truth, wrong = rng.normal(size=(6, 1)), k.Matern(0.7, nu=0.5), k.SE(0.5)
    nodes, weights = normal_nodes(30)
    places = np.concatenate([X, nodes])
    L = np.linalg.cholesky(truth(places) + 1e-10 * np.eye(len(places)))
    f = L @ rng.standard_normal((len(places), 20_000))
    y = f[:6] + np.sqrt(0.2) * rng.standard_normal((6, 20_000))
    H = np.linalg.solve(wrong(X) + 0.1 * np.eye(6), wrong(X, nodes))
    drawn = weights @ (f[6:] - H.T @ y) ** 2
    error = generalisation_error(wrong, X, 0.1, (nodes, weights), truth=(truth, 0.2))
    assert error == pytest.approx(drawn.mean(), abs=4 * drawn.std() / np.sqrt(20_000))
    assert error > generalisation_error(truth, X, 0.2, (nodes, weights))


@pytest.mark.parametrize(
    ("alpha", "n", "random", "grid"),
    (
        (1.0, 1, 0.4323323584, 0.3678794412),
        (1.0, 5, 0.1386303105, 0.0719224038),
        (1.0, 1000, 0.0006679862, 0.0003334998),
        (5.0, 10, 0.2919208316, 0.1688642043),
        (10.0, 1, 0.905, 0.9000045400),
        (10.0, 100, 0.0668490723, 0.0334617627),
    ),
)
def test_ou_exactly(alpha, n, random, grid):
    """B.TH9: the catalogue's R7."""
    assert ou_learning_curve(n, 1 / alpha) == pytest.approx(random, abs=6e-11)
    assert ou_error((np.arange(n) + 0.5) / n, 1 / alpha) == pytest.approx(grid, abs=6e-11)


def test_ou_limits_and_the_direct_integral():
    n = 1e7
    assert n * ou_learning_curve(n, 0.2) == pytest.approx(2 * 5 / 3, rel=1e-5)
    x = np.array([0.1, 0.35, 0.36, 0.9])
    rule = _pieces(x)
    direct = generalisation_error(k.Matern(0.3, nu=0.5), x[:, None], 0.0, rule)
    assert ou_error(x, 0.3) == pytest.approx(direct, rel=1e-9)


def _pieces(x):
    edges = np.concatenate([[0.0], x, [1.0]])
    rules = [uniform_nodes(20, a, b) for a, b in itertools.pairwise(edges)]
    return np.concatenate([r[0] for r in rules]), np.concatenate(
        [r[1] * w for r, w in zip(rules, np.diff(edges), strict=True)]
    )


def test_upper_bounds_lie_above_and_two_neighbours_are_tighter():
    n, rule = [1, 4, 16], uniform_nodes(60)
    kernel = k.SE(0.2)
    curve = learning_curve(kernel, lambda rng, m: rng.random((m, 1)), n, 0.05, rule, repeats=200)
    one, two = (williams_vivarelli(kernel, n, 0.05, neighbours=j) for j in (1, 2))
    assert (one >= two - 1e-12).all()
    assert (two >= curve.error - 3 * curve.standard_error).all()
    # of one datum all of this is the same, exactly
    assert one[0] == pytest.approx(two[0]) == pytest.approx(curve.error[0], abs=4 * curve.standard_error[0])
    # the two nearest know all of a Markov process without noise
    ou = williams_vivarelli(k.Matern(0.3, nu=0.5), [3, 10], 0.0)
    np.testing.assert_allclose(ou, ou_learning_curve([3, 10], 0.3), rtol=1e-6)


@pytest.mark.slow
def test_bounds_hold_on_200_problems():
    """Lower bounds below and upper bounds above the simulated curve, within its error, in all of them."""
    rng = np.random.default_rng(1)
    n = np.array([1, 3, 10, 30])
    for trial in range(200):
        l, noise = 10 ** rng.uniform(-1.0, 0.0), 10 ** rng.uniform(-3.0, 0.0)
        kernel = (k.SE(l), k.Matern(l, nu=0.5), k.Matern(l, nu=1.5))[trial % 3]
        rule = uniform_nodes(80)
        K = kernel(rule[0])
        root = np.sqrt(rule[1])
        values = np.maximum(np.linalg.eigvalsh(root[:, None] * K * root), 0.0)
        curve = learning_curve(kernel, lambda r, m: r.random((m, 1)), n, noise, rule, repeats=10, seed=trial)
        slack = 4 * curve.standard_error + 2e-3
        assert (opper_vivarelli(values, n, noise) <= curve.error + slack).all(), trial
        assert (williams_vivarelli(kernel, n, noise) >= curve.error - slack).all(), trial


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="at least one input"):
        ou_error([], 1.0)
    with pytest.raises(ValueError, match="neighbours"):
        williams_vivarelli(k.SE(), 1, 0.1, neighbours=3)
    with pytest.raises(ValueError, match="isotropic"):
        williams_vivarelli(k.Linear(), 1, 0.1)
    with pytest.raises(ValueError, match="at least 1"):
        learning_curve(k.SE(), normal, [0, 1], 0.1, RULE)
    with pytest.raises(ValueError, match="nodes"):
        generalisation_error(k.SE(), np.zeros((2, 1)), 0.1, (np.zeros(3), np.ones(3)))
    with pytest.raises(ValueError, match="not negative"):
        sollich([-1.0], 1, 0.1)
