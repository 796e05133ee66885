"""Fourier pairs, random Fourier features, upcrossings, smoothness. A.S3-S6, A.K14, C.COV10, D.K3-K10,
D.KA2-KA5, T-K.
"""

import math

import numpy as np
import pytest
from scipy import special

import mercer as mc
from mercer import kernels as k
from mercer.kernels.spectral.density import density
from mercer.kernels.spectral.hankel import hankel
from mercer.kernels.spectral.smoothness import numerical_smoothness
from mercer.params import ParameterError, param

S = np.array([0.0, 0.1, 0.35, 0.8])

# ------------------------------------------------------------------------------------------------- Fourier
# pairs


@pytest.mark.parametrize(
    ("kernel", "values"),
    [
        (k.Matern(0.8, nu=0.5), (0.218682397596175, 0.203189194434229, 0.240379545061565)),
        (k.Matern(0.8, nu=1.5), (0.191567538550465, 0.236605890434404, 0.330740045654345)),
        (k.Matern(0.8, nu=2.5), (0.164578065212311, 0.230545219860154, 0.350888488531601)),
        (k.RationalQuadratic(0.8, alpha=1.7), (0.100234016657227, 0.156884961487149, 0.257824508385154)),
    ],
    ids=["matern-1/2", "matern-3/2", "matern-5/2", "rational-quadratic"],
)
def test_golden_values(kernel, values):
    """T-K: s = 0.5, l = 0.8, in one, two and three dimensions (4.15, D.K8)."""
    np.testing.assert_allclose([kernel.spectral_density(0.5, d) for d in (1, 2, 3)], values, rtol=1e-13)


def grid_transform(kernel, s, half, n):
    """The integral of k(tau) cos(2 pi s . tau) by the trapezoid rule on a grid of n^d points in [-half,
    half]^d.
    """
    d = s.shape[1]
    axis = np.linspace(-half, half, n)
    tau = np.stack(np.meshgrid(*[axis] * d, indexing="ij"), -1).reshape(-1, d)
    values = kernel(tau, np.zeros((1, d)))[:, 0]
    return np.cos(2 * np.pi * s @ tau.T) @ values * (axis[1] - axis[0]) ** d


@pytest.mark.parametrize(
    ("kernel", "d", "tolerance"),
    [
        (k.SE(0.5, 1.3), 1, 1e-12),
        (k.SE(0.5, 1.3), 2, 1e-12),
        (k.SE([0.5, 0.9], 1.3), 2, 1e-12),
        (k.SE([0.5, 0.9], 1.3, loadings=[[1.0], [0.7]]), 2, 1e-12),
        (k.SE([0.5, 0.6, 0.4]), 3, 1e-11),
        (k.Matern(0.3, 1.3, nu=2.5), 1, 1e-4),
        (k.Matern([0.3, 0.5], nu=2.5), 2, 1e-3),
        (k.Matern(0.4, nu=3.5), 3, 1e-3),
        (k.PiecewisePolynomial(2.0, 1.3, q=2), 1, 1e-6),
        (k.PiecewisePolynomial([2.0, 3.0], q=2), 2, 1e-5),
        (k.SpectralMixture([0.7, 1.3], [0.2, 0.6], [0.2, 0.15]), 1, 1e-10),
        (k.SpectralMixture([0.7, 1.3], [[0.1, 0.3], [0.6, -0.2]], [[0.2, 0.2], [0.25, 0.4]]), 2, 1e-8),
        (k.LengthscaleMixture([0.4, 0.7], [1.0, 2.0]), 2, 1e-10),
        (2.0 * (k.SE(0.5) + k.Matern(0.3, nu=2.5)), 1, 1e-4),
        (k.SE(0.5).on(1) * k.SE(0.8).on(0), 2, 1e-12),
        (k.SE(0.7) * k.Periodic(1.0, 0.9), 1, 1e-12),
    ],
    ids=lambda value: "" if isinstance(value, float) else str(value)[:36],
)
def test_fourier_transform(kernel, d, tolerance):
    """A.S3, D.KA4 (4.6): S is the Fourier transform of the kernel in one to three dimensions,
    by brute force on a grid.
    """
    s = np.random.default_rng(d).uniform(-0.7, 0.7, (5, d))
    half, n = {1: (9.0, 7201), 2: (8.0, 401), 3: (4.5, 61)}[d]
    found = kernel.spectral_density(s)
    np.testing.assert_allclose(
        found,
        grid_transform(kernel, s, half, n),
        rtol=0,
        atol=tolerance * kernel.spectral_density(np.zeros((1, d)))[0],
    )


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize(
    ("kernel", "tolerance"),
    [
        (k.SE(0.7, 1.3), 1e-13),
        (k.Matern(0.7, nu=0.5), 1e-12),
        (k.Matern(0.7, nu=1.2), 1e-12),
        (k.RationalQuadratic(0.7, alpha=2.3), 1e-8),
        (k.GammaExponential(0.7, gamma=1.0), 1e-12),
        (k.GammaExponential(0.7, gamma=2.0), 1e-13),
        (k.LengthscaleMixture([0.5, 2.0], [1.0, 0.3]), 1e-12),
        (k.BesselJ(0.4, nu=5.5), 1e-5),
    ],
    ids=[
        "se",
        "matern-1/2",
        "matern-6/5",
        "rational-quadratic",
        "gamma-1",
        "gamma-2",
        "scale-mixture",
        "bessel-j",
    ],
)
def test_closed_form_is_the_hankel_transform(kernel, tolerance, d):
    """A.S4, D.K10 (4.8): closed forms against the radial integral with a Bessel function."""
    closed = kernel.spectral_density(S, d)
    numerical = density.dispatch(object)(kernel.bind(d), np.outer(S, np.eye(1, d)))
    np.testing.assert_allclose(numerical, closed, rtol=0, atol=tolerance * closed.max())


@pytest.mark.parametrize("d", [1, 2, 3, 5])
@pytest.mark.parametrize(
    "kernel",
    [k.Matern(nu=1.5), k.Matern(nu=0.7), k.SE(), k.RationalQuadratic(alpha=3.0)],
    ids=["matern-3/2", "matern-7/10", "se", "rational-quadratic"],
)
def test_back_from_the_spectrum(kernel, d):
    """A.S4, D.KA4 (4.7): the same transform takes S back to k, and the integral of S is k(0)."""
    r = np.array([0.0, 0.3, 1.0, 2.5])
    back = hankel(lambda s: kernel.spectral_density(s, d), r, d)
    x = np.zeros((4, d))
    x[:, 0] = r
    np.testing.assert_allclose(back, kernel(x, x[:1])[:, 0], rtol=0, atol=1e-9)


@pytest.mark.parametrize("gamma", [0.5, 1.4])
def test_gamma_exponential_density(gamma):
    """D.K7: the symmetric stable density, against SciPy's in one dimension, and its integral in two."""
    from scipy.stats import levy_stable

    kernel = k.GammaExponential(0.7, gamma=gamma)
    s = np.array([0.05, 0.3, 1.0])
    scale = 1 / (2 * np.pi * 0.7)
    np.testing.assert_allclose(
        kernel.spectral_density(s), levy_stable.pdf(s, gamma, 0.0, scale=scale), rtol=1e-6
    )
    assert (kernel.spectral_density(np.linspace(0, 20, 9), 2) > 0).all()


def test_compact_density():
    """D.K9: the triangle's transform is sinc^2; densities are not negative in the design dimension,
    and negative above it.
    """
    s = np.linspace(0, 4, 41)
    np.testing.assert_allclose(
        k.PiecewisePolynomial(1.3, q=0).spectral_density(s), 1.3 * np.sinc(1.3 * s) ** 2, rtol=0, atol=1e-13
    )
    triangle = lambda r: np.maximum(1 - r, 0)  # noqa: E731
    assert hankel(triangle, s, 3).min() < -1e-3, "the same function in three dimensions is no covariance"
    for q in range(4):
        polynomial = k.PiecewisePolynomial(q=q).bind(3)
        profile = lambda r, p=polynomial: np.asarray(p.profile(r * r))  # noqa: E731
        assert hankel(profile, s, 3).min() > -1e-14


def test_rational_quadratic_density_at_zero():
    """D.K8: finite at zero frequency only if alpha > d / 2."""
    assert k.RationalQuadratic(alpha=1.2).spectral_density(0.0, 2) == pytest.approx(
        2 * np.pi * 1.2 / 0.2, rel=1e-12
    )
    assert k.RationalQuadratic(alpha=0.9).spectral_density(0.0, 2) == np.inf


@pytest.mark.slow
def test_existence():
    """D.KA5: the integral of r^(d-1) |k| exists for the RQ iff 2 alpha > d, for Bessel's iff nu + 1/2 > d,
    for the SE always.
    """
    assert all(
        k.integrable(kernel, d)
        for kernel in (k.SE(), k.Matern(nu=0.5), k.GammaExponential(gamma=0.4))
        for d in (1, 2, 3)
    )
    for alpha in (0.4, 0.6, 1.1, 1.6):
        assert [k.integrable(k.RationalQuadratic(alpha=alpha), d) for d in (1, 2, 3)] == [
            2 * alpha > d for d in (1, 2, 3)
        ]
    assert [k.integrable(k.BesselJ(nu=nu), 1) for nu in (0.0, 0.3, 0.7, 2.0)] == [False, False, True, True]


def test_lines_of_a_periodic_kernel():
    """A.K14, D.K11, D.K12: Fourier coefficients I_m(1 / l^2) exp(-1 / l^2);
    of a periodised kernel S(m / period) / period.
    """
    frequencies, weights = k.line_spectrum(k.Periodic(2.0, 0.7, 1.3), 12)
    m = np.arange(12)
    np.testing.assert_allclose(frequencies, m / 2.0)
    np.testing.assert_allclose(weights, 1.3 * np.where(m, 2, 1) * special.ive(m, 0.7**-2), rtol=0, atol=1e-14)
    for base in (k.SE(0.3, 1.3), k.Matern(0.2, nu=2.5)):
        frequencies, weights = k.line_spectrum(k.Periodised(base, 1.7), 48)
        expected = np.where(np.arange(48), 2, 1) * base.spectral_density(frequencies) / 1.7
        np.testing.assert_allclose(weights[:12], expected[:12], rtol=0, atol=2e-8)
    frequencies, weights = k.line_spectrum(k.FourierFeatures([[-0.3], [0.1]], 2.0, 3.0))
    np.testing.assert_allclose([frequencies, weights], [[0.05, 0.15], [1.5, 1.5]])
    np.testing.assert_allclose(k.line_spectrum(k.Constant(2.0)), [[0.0], [2.0]])
    np.testing.assert_allclose(
        k.line_spectrum(k.Cosine(0.5), 3), [[0.0, 1 / np.pi, 2 / np.pi], [0.0, 1.0, 0.0]], atol=1e-14
    )
    with pytest.raises(k.SpectralError, match="does not repeat"):
        k.line_spectrum(k.SE())
    with pytest.raises(k.SpectralError, match="no common period"):
        k.line_spectrum(k.Periodic(1.0) * k.Periodic(np.sqrt(2)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: k.Linear().spectral_density(S), "is not stationary"),
        (lambda: k.Constant().spectral_density(S), "only lines at single frequencies"),
        (lambda: k.FourierFeatures([[0.1]]).spectral_density(S), "only lines at single frequencies"),
        (lambda: k.Periodic().spectral_density(S), "see line_spectrum"),
        (lambda: (k.SE() + k.Periodic()).spectral_density(S), "see line_spectrum"),
        (
            lambda: k.Cosine().spectral_density(S),
            r"no density: all its power is on the frequency \|s\| = 1 / \(2 pi lengthscale\)",
        ),
        (lambda: k.BesselJ(nu=0.0).spectral_density(S, 2), "the sphere of frequencies"),
        (lambda: k.SE([1.0, 2.0]).spectral_density(S, 2), r"give s as \(n, 2\)"),
        (lambda: k.SE().on(0).spectral_density(np.zeros((3, 2))), "does not read"),
        (lambda: (k.SE([1.0, 2.0]) * k.Matern()).spectral_density(np.zeros((3, 2))), "is not isotropic"),
        (lambda: k.SE().spectral_density(np.zeros((3, 2)), 3), "s has 2 columns"),
    ],
)
def test_no_density(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# ------------------------------------------------------------------------------------------------- random
# Fourier features


@pytest.mark.representative("SE(l=0.7)-1", "nu=1.7)-1", "nu=0)-2")
@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize(
    "kernel",
    [
        k.SE(0.7, 1.3),
        k.Matern(0.7, nu=0.5),
        k.Matern(0.7, nu=1.7),
        k.RationalQuadratic(0.7, 1.3, alpha=0.4),
        k.GammaExponential(0.7, gamma=1.4),
        k.PiecewisePolynomial(1.5, q=2),
        k.BesselJ(0.3, nu=0.0),
        k.BesselJ(0.3, nu=2.0),
        k.Periodic(1.2, 0.4),
        k.LengthscaleMixture([0.4, 2.0], [1.0, 0.5]),
        2.0 * k.SE() * k.Periodic(0.8) + k.SE(0.3) ** 2 + 0.5,
        k.SE().on(0) + k.Matern(nu=1.5),
    ],
    ids=lambda kernel: str(kernel)[:24],
)
def test_features_converge(kernel, d):
    """Bochner (4.5): the covariance of m drawn frequencies is unbiased, and its error falls as 1 / sqrt m."""
    X = np.random.default_rng(0).normal(size=(12, d))
    K = kernel(X)
    errors = [
        np.sqrt(np.mean((k.random_fourier_features(kernel, m, d, seed=1)(X) - K) ** 2)) / K[0, 0]
        for m in (200, 20_000)
    ]
    assert errors[0] < 2.5 / math.sqrt(400) and errors[1] < 2.5 / math.sqrt(40_000)


@pytest.mark.parametrize("m", [25, 400])
def test_features_error(m):
    """The mean square error over 400 draws is ((1 + k(2 tau)) / 2 - k(tau)^2) / m: it falls as 1 / m,
    and there is no bias.
    """
    kernel, tau = k.Matern(0.7, nu=1.5), np.array([0.3, 1.0, 2.5])
    X, zero = tau[:, None], np.zeros((1, 1))
    exact, doubled = kernel(X, zero)[:, 0], kernel(2 * X, zero)[:, 0]
    found = np.array([k.random_fourier_features(kernel, m, seed=seed)(X, zero)[:, 0] for seed in range(400)])
    variance = (0.5 * (1 + doubled) - exact**2) / m
    np.testing.assert_allclose(((found - exact) ** 2).mean(0), variance, rtol=0.25)
    assert np.abs(found.mean(0) - exact).max() < 4 * np.sqrt(variance.max() / 400)


def test_features_of_mixture_and_loadings():
    """Frequencies of spectral mixtures with signs, of the factor-analysis distance, of other features."""
    X = np.random.default_rng(0).normal(size=(12, 2))
    mixture = k.SpectralMixture([0.7, 1.3], [[0.1, 0.3], [0.6, -0.2]], [[0.2, 0.2], [0.25, 0.4]])
    factor = k.SE([1.0, 2.0], loadings=[[1.0], [0.7]])
    for kernel in (mixture, factor, k.random_fourier_features(factor, 50, 2)):
        found = k.random_fourier_features(kernel, 20_000, 2)(X)
        assert np.abs(found - kernel(X)).max() < 5 / math.sqrt(40_000) * kernel(X)[0, 0]


def test_features_in_weight_space():
    """A finite-rank GP: the same posterior by weights as by data, near the kernel's own;
    its length-scale is learned.
    """
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(-3, 3, 60))[:, None]
    y = np.sin(2 * x[:, 0]) + 0.1 * rng.standard_normal(60)
    at = np.linspace(-3, 3, 11)[:, None]
    features = k.random_fourier_features(k.SE(param(0.9, bounds=(0.1, 5.0)), 1.3), 150, seed=3)
    assert features.rank(1) == 300 and dict(features.info)["lengthscale"].bounds == (0.1, 5.0)
    model = mc.Model(mc.GP(features), mc.likelihoods.Gaussian(0.01))
    weights, data = (model.condition(x, y, solver=solver) for solver in ("weight-space", "dense"))
    np.testing.assert_allclose(weights.mean(at), data.mean(at), rtol=0, atol=1e-8)
    assert weights.log_evidence == pytest.approx(data.log_evidence, rel=1e-8)
    exact = mc.Model(mc.GP(k.SE(0.9, 1.3)), mc.likelihoods.Gaussian(0.01)).condition(x, y)
    assert np.abs(weights.mean(at) - exact.mean(at)).max() < 0.05
    value, gradient = mc.log_evidence_and_gradient(model, x, y, solver="weight-space")
    assert np.isfinite(value) and "kernel.lengthscale" in gradient


def test_features_are_seeded():
    one, two, other = (k.random_fourier_features(k.SE(), 5, seed=s).frequencies for s in (0, 0, 1))
    np.testing.assert_array_equal(one, two)
    assert (one != other).all()
    with pytest.raises(ParameterError):
        k.random_fourier_features(k.SE(), 2.5)
    with pytest.raises(k.SpectralError, match="not stationary"):
        k.random_fourier_features(k.Linear(), 5)


# -------------------------------------------------------------------------------------------------
# upcrossings


@pytest.mark.parametrize(
    ("kernel", "rate"),
    [
        (k.SE(0.2), 1 / (2 * np.pi * 0.2)),
        (k.RationalQuadratic(0.2, alpha=0.4), 1 / (2 * np.pi * 0.2)),
        (k.Matern(0.2, nu=1.5), math.sqrt(3) / (2 * np.pi * 0.2)),
        (k.Matern(0.2, nu=2.5), math.sqrt(5 / 3) / (2 * np.pi * 0.2)),
        (k.Matern(0.2, nu=1.2), math.sqrt(6) / (2 * np.pi * 0.2)),
        (k.Matern(0.2, nu=1.0), math.inf),
        (k.Matern(0.2, nu=0.5), math.inf),
        (k.GammaExponential(0.2, gamma=1.9), math.inf),
        (k.GammaExponential(0.2, gamma=2.0), math.sqrt(2) / (2 * np.pi * 0.2)),
        (k.Periodic(2 * np.pi, 0.2, 3.0), 1 / (2 * np.pi * 0.2)),
        (k.PiecewisePolynomial(0.2, q=2), math.sqrt(14) / (2 * np.pi * 0.2)),
        (k.Cosine(0.2), 1 / (2 * np.pi * 0.2)),
        (k.Sinc(0.2), math.sqrt(1 / 3) / (2 * np.pi * 0.2)),
        (k.SpectralMixture([2.0], [0.8], [0.3]), math.sqrt(0.8**2 + 0.3**2)),
        (k.SE(0.2) * k.Periodic(2 * np.pi, 0.2), math.sqrt(2) / (2 * np.pi * 0.2)),
        (k.Constant(2.0), 0.0),
    ],
    ids=str,
)
def test_upcrossing_rate(kernel, rate):
    """A.S5, D.KA3 (4.3): closed forms of -k''(0); T-K 0.7958 for the SE and 1.3783 for Matern 3/2."""
    assert k.upcrossings(kernel) == pytest.approx(rate, rel=1e-12)


def test_upcrossings_of_levels_and_columns():
    assert k.upcrossings(k.SE(0.2)) == pytest.approx(0.7958, abs=5e-5)
    assert k.upcrossings(k.Matern(0.2, nu=1.5)) == pytest.approx(1.3783, abs=5e-5)
    assert k.upcrossings(k.SE(0.2, 4.0), 3.0) == pytest.approx(math.exp(-9 / 8) / (0.4 * np.pi), rel=1e-12)
    np.testing.assert_allclose(
        k.upcrossings(k.SE([0.2, 0.5]), d=2), [1 / (0.4 * np.pi), 1 / np.pi], rtol=1e-12
    )
    with pytest.raises(ValueError, match="stationary"):
        k.upcrossings(k.Linear())


@pytest.mark.parametrize(
    ("kernel", "level"), [(k.SE(0.2, 2.0), 0.0), (k.SE(0.2, 2.0), 1.5), (k.Matern(0.2, nu=1.5), 0.0)], ids=str
)
def test_counted_upcrossings(kernel, level):
    """A.S5: the rate against upcrossings counted on 2,000 sampled paths of length 4 (standard error about 1
    %).
    """
    x = np.linspace(0, 4, 1001)[:, None]
    factor = np.linalg.cholesky(kernel(x) + 1e-10 * np.eye(len(x)))
    paths = factor @ np.random.default_rng(5).standard_normal((len(x), 2000))
    counted = ((paths[:-1] < level) & (paths[1:] >= level)).sum() / (4 * 2000)
    assert counted == pytest.approx(k.upcrossings(kernel, level), rel=0.03)


# ------------------------------------------------------------------------------------------------- smoothness


@pytest.mark.parametrize(
    ("kernel", "order"),
    [
        (k.SE(0.7), math.inf),
        (k.Matern(nu=0.5), 0),
        (k.Matern(nu=1.0), 0),
        (k.Matern(nu=1.5), 1),
        (k.Matern(nu=2.5), 2),
        (k.Matern(nu=param(1.7)), 1),
        (k.RationalQuadratic(alpha=0.3), math.inf),
        (k.GammaExponential(gamma=1.5), 0),
        (k.GammaExponential(gamma=2.0), math.inf),
        (k.PiecewisePolynomial(2.0, q=0), 0),
        (k.PiecewisePolynomial(2.0, q=1), 1),
        (k.PiecewisePolynomial(2.0, q=3), 3),
        (k.Periodic(), math.inf),
        (k.PeriodicOf(k.Matern(nu=1.5)), 1),
        (k.Periodised(k.Matern(0.2, nu=2.5)), 2),
        (k.Sinc(), math.inf),
        (k.Polynomial(3), math.inf),
        (k.SE() + k.Matern(nu=1.5), 1),
        (k.SE() * k.Matern(nu=0.5), 0),
        (3.0 * k.Matern(nu=2.5) ** 2, 2),
    ],
    ids=str,
)
def test_smoothness(kernel, order):
    """A.S6, D.KA2: what kernels say of themselves; and the differences of the process say the same,
    up to three derivatives.
    """
    assert k.smoothness(kernel) == order
    assert numerical_smoothness(kernel.bind(1)) == min(order, 3)
    found = k.regularity(kernel)
    assert found.continuous and found.continuous_paths and not found.numerical


class White(k.AbstractKernel):
    """Independent values: not continuous in any sense."""

    def block(self, A, B):
        return 1.0 * (A == B.T)


class Wiener(k.AbstractKernel):
    """A kernel that says nothing of itself."""

    def block(self, A, B):
        import jax.numpy as jnp

        return jnp.minimum(A, B.T)


class Logarithmic(k.AbstractKernel):
    """1 - c(tau) = 1 / (1 + log(1 + 1/tau)): mean-square continuous,
    but the criterion for continuous paths fails.
    """

    def block(self, A, B):
        import jax.numpy as jnp

        tau = jnp.abs(A - B.T)
        away = tau > 0
        return jnp.where(away, 1.0 - 1.0 / (1.0 + jnp.log1p(1.0 / jnp.where(away, tau, 1.0))), 1.0)


def test_smoothness_of_unknown_kernels():
    """C.COV10 (3.28-3.30), A.S6: by numbers where the kernel says nothing."""
    wiener = k.regularity(Wiener())
    assert wiener == k.Regularity(derivatives=0, continuous=True, continuous_paths=True, numerical=True)
    white = k.regularity(White())
    assert not white.continuous and not white.continuous_paths and white.derivatives == -1
    assert not k.regularity(Logarithmic()).continuous_paths


def test_derivative_process():
    """A.S6, C.COV10, D.KA2 (4.4): the SE's closed form, and finite differences of sampled functions,
    along two columns.
    """
    l, v = 0.6, 1.7
    covariance = k.derivative_covariance(k.SE(l, v))
    for tau in (0.0, 0.3, 1.1):
        expected = v / l**2 * (1 - tau**2 / l**2) * math.exp(-0.5 * tau**2 / l**2)
        assert covariance([0.2 + tau], [0.2])[0, 0] == pytest.approx(expected, rel=1e-12)
    kernel = k.Matern([0.6, 1.5], v, nu=2.5)
    x, z, h = np.array([0.3, -0.2]), np.array([0.5, 0.6]), 1e-4
    steps = np.array([[h, 0], [-h, 0], [0, h], [0, -h]])
    K = kernel(x + steps, z + steps)
    D = np.array([[1, -1, 0, 0], [0, 0, 1, -1]]) / (2 * h)
    np.testing.assert_allclose(k.derivative_covariance(kernel)(x, z), D @ K @ D.T, rtol=1e-5)
    grid = np.linspace(0, 2, 801)[:, None]
    draws = np.linalg.cholesky(k.SE(l, v)(grid) + 1e-9 * np.eye(801)) @ np.random.default_rng(
        0
    ).standard_normal((801, 4000))
    slopes = (draws[20::20] - draws[:-20:20]) / 0.05
    assert np.mean(slopes**2) == pytest.approx(covariance([0.0], [0.0])[0, 0], rel=0.03)
    with pytest.raises(ValueError, match="no mean-square derivative"):
        k.derivative_covariance(k.Matern(nu=0.5))
