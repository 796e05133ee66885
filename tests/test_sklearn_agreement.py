"""Agreement with scikit-learn: evidence, gradient and predictions on random problems, to 1e-8 relative."""

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk

import mercer as mc
from mercer import kernels as k
from mercer.params import parameters

L2 = [0.7, 1.6]


def scaled(c, kernel):
    return sk.ConstantKernel(c) * kernel


# (name, columns, ours, theirs, names of ours in the order of their theta without the noise)
CASES = [
    ("se", 2, k.SE(0.9, 1.4), scaled(1.4, sk.RBF(0.9)), ["variance", "lengthscale"]),
    ("se-ard", 2, k.SE(L2, 1.4), scaled(1.4, sk.RBF(L2)), ["variance", "lengthscale"]),
    (
        "matern-1/2",
        2,
        k.Matern(0.9, 1.4, nu=0.5),
        scaled(1.4, sk.Matern(0.9, nu=0.5)),
        ["variance", "lengthscale"],
    ),
    (
        "matern-3/2",
        2,
        k.Matern(L2, 1.4, nu=1.5),
        scaled(1.4, sk.Matern(L2, nu=1.5)),
        ["variance", "lengthscale"],
    ),
    (
        "matern-5/2",
        2,
        k.Matern(L2, 1.4, nu=2.5),
        scaled(1.4, sk.Matern(L2, nu=2.5)),
        ["variance", "lengthscale"],
    ),
    (
        "rational-quadratic",
        2,
        k.RationalQuadratic(0.9, 1.4, alpha=0.6),
        scaled(1.4, sk.RationalQuadratic(0.9, 0.6)),
        ["variance", "alpha", "lengthscale"],
    ),
    (
        "periodic",
        1,
        k.Periodic(1.7, 0.9, 1.4),
        scaled(1.4, sk.ExpSineSquared(0.9, 1.7)),
        ["variance", "lengthscale", "period"],
    ),
    ("linear", 2, k.Linear(1.0) + k.Constant(0.49), sk.DotProduct(0.7), None),
    (
        "sum",
        2,
        k.SE(L2, 1.4) + k.Matern(2.0, 0.5, nu=0.5),
        scaled(1.4, sk.RBF(L2)) + scaled(0.5, sk.Matern(2.0, nu=0.5)),
        ["terms.0.variance", "terms.0.lengthscale", "terms.1.variance", "terms.1.lengthscale"],
    ),
    (
        "product",
        1,
        k.SE(0.9, 1.4) * k.Periodic(1.7, 1.2),
        scaled(1.4, sk.RBF(0.9)) * sk.ExpSineSquared(1.2, 1.7),
        ["factors.0.variance", "factors.0.lengthscale", "factors.1.lengthscale", "factors.1.period"],
    ),
]
each = pytest.mark.parametrize(
    ("d", "ours", "theirs", "names"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)


@each
@pytest.mark.parametrize("seed", [0, 1])
def test_evidence_gradient_and_predictions(d, ours, theirs, names, seed):
    """A.R8, A.M3, C.GP4: the same numbers as another program, for the same kernel and noise."""
    rng = np.random.default_rng(100 * d + seed)
    n, noise = int(rng.integers(5, 40)), float(rng.uniform(0.05, 0.5))
    X, y, Xs = rng.normal(size=(n, d)), rng.normal(size=n), rng.normal(size=(6, d))
    peer = GaussianProcessRegressor(theirs + sk.WhiteKernel(noise), alpha=0.0, optimizer=None).fit(X, y)
    value, gradient = peer.log_marginal_likelihood(peer.kernel_.theta, eval_gradient=True)
    found, by_name = mc.log_evidence_and_gradient(mc.GP(ours), X, y, noise_variance=noise)
    assert found == pytest.approx(value, rel=1e-10)

    log_noise = float(by_name["likelihood.noise_variance"]) * noise
    assert log_noise == pytest.approx(gradient[-1], rel=1e-8, abs=1e-9)
    if names is not None:
        values = {p.name: p.value for p in parameters(ours)}
        in_logs = np.concatenate([np.atleast_1d(by_name[f"kernel.{name}"] * values[name]) for name in names])
        np.testing.assert_allclose(in_logs, gradient[:-1], rtol=1e-8, atol=1e-9)

    mean, covariance = peer.predict(Xs, return_cov=True)
    post = mc.GP(ours).condition(X, y, noise_variance=noise)
    np.testing.assert_allclose(post.mean(Xs), mean, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(post.covariance(Xs), covariance, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(post.std(Xs), peer.predict(Xs, return_std=True)[1], rtol=1e-8)
