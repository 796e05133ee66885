"""Compact, band-limited, mixture and repeating kernels against plain NumPy. A.K5-K12, A.K14, A.K18, D.K4-K12,
D.KC11, T-K.
"""

import itertools

import jax
import numpy as np
import pytest
from scipy import special

import mercer as mc
from mercer import kernels as k
from mercer.linalg import tiles
from mercer.params import ParameterError, param, parameters
from mercer.persist import from_json, to_json

RNG = np.random.default_rng(7)
X1, X2 = RNG.normal(size=(11, 3)), RNG.normal(size=(9, 3))


def distance(A, B, lengthscale=1.0):
    return np.sqrt((((A[:, None] - B[None]) / lengthscale) ** 2).sum(-1))


# ------------------------------------------------------------------------------------------------- compact
# support


def wendland(r, q, D):
    """(4.21), as printed."""
    j = D // 2 + q + 1
    polynomial = [
        1.0,
        (j + 1) * r + 1,
        ((j**2 + 4 * j + 3) * r**2 + (3 * j + 6) * r + 3) / 3,
        ((j**3 + 9 * j**2 + 23 * j + 15) * r**3 + (6 * j**2 + 36 * j + 45) * r**2 + (15 * j + 45) * r + 15)
        / 15,
    ][q]
    return np.maximum(1 - r, 0) ** (j + q) * polynomial


@pytest.mark.parametrize("q", range(4))
@pytest.mark.parametrize("D", [1, 2, 3])
def test_piecewise_polynomial(q, D):
    """A.K10, D.K9 (4.21): by the printed formula, with ARD;
    the design dimension is that of the inputs unless it is given.
    """
    l = np.array([2.1, 1.4, 3.0])[:D]
    r = distance(X1[:, :D], X2[:, :D], l)
    assert 0 < (r > 1).mean() < 1
    np.testing.assert_allclose(
        k.PiecewisePolynomial(l, 1.3, q=q)(X1[:, :D], X2[:, :D]),
        1.3 * wendland(r, q, D),
        rtol=1e-12,
        atol=1e-15,
    )
    wider = k.PiecewisePolynomial(l, q=q, dimension=5)(X1[:, :D], X2[:, :D])
    np.testing.assert_allclose(wider, wendland(r, q, 5), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(
    ("D", "curvatures"),
    [(1, (12, 14, 18)), (2, (20, 56 / 3, 22)), (3, (20, 56 / 3, 22)), (4, (30, 24, 26.4))],
    ids="D={}".format,
)
def test_piecewise_polynomial_curvature(D, curvatures):
    """T-K: -k''(0) for q = 1, 2, 3."""
    found = [
        float(k.derivative_covariance(k.PiecewisePolynomial(q=q, dimension=D), 1)([0.0], [0.0])[0, 0])
        for q in (1, 2, 3)
    ]
    np.testing.assert_allclose(found, curvatures, rtol=1e-13)


@pytest.mark.parametrize("D", [1, 2, 3, 5])
@pytest.mark.parametrize("q", range(4))
def test_piecewise_polynomial_up_to_its_dimension(q, D):
    """Positive semi-definite on as many columns as it is made for."""
    X = np.random.default_rng(D).uniform(size=(200, D)) * 1.2
    assert np.linalg.eigvalsh(k.PiecewisePolynomial(q=q)(X))[0] > -1e-12


def test_piecewise_polynomial_above_its_dimension():
    """T-K: made for one column, on seven: the matrix is indefinite, and the kernel refuses."""
    X = np.random.default_rng(0).uniform(size=(800, 7)) * 1.2
    kernel = k.PiecewisePolynomial(q=0, dimension=1)
    assert np.linalg.eigvalsh(tiles.matrix(kernel, X, X))[0] < -0.7  # what it would be without the guard
    with pytest.raises(
        ParameterError, match=r"PiecewisePolynomial\.dimension is 1 but the kernel sees 7 input columns"
    ):
        kernel(X)
    np.testing.assert_allclose(kernel.on(3)(X[:9]), kernel(X[:9, 3:4]))


def test_sparse_matrix():
    """A.K10, A.N11: the sparse form is the dense matrix without its zeros; with ARD, loadings,
    other inputs and equal rows.
    """
    rng = np.random.default_rng(1)
    X = rng.uniform(size=(300, 2)) * 8
    X[7] = X[200]
    for kernel in (
        k.PiecewisePolynomial(0.9, 1.4, q=0),
        k.PiecewisePolynomial([0.9, 2.0], q=2),
        k.PiecewisePolynomial(1.5, q=1, loadings=[[0.4], [0.2]]),
    ):
        S, K = kernel.sparse(X), kernel(X)
        assert S.format == "csr" and S.dtype == np.float64 and S.nnz < 0.2 * K.size
        np.testing.assert_allclose(S.toarray(), K, rtol=0, atol=1e-14)
        np.testing.assert_allclose(
            kernel.sparse(X, X[:40] + 0.1).toarray(), kernel(X, X[:40] + 0.1), rtol=0, atol=1e-14
        )
        assert (np.abs(K[S.toarray() == 0]) == 0).all()


def test_sparse_matrix_of_many_data():
    """20,000 rows: 400 million pairs, of which 3 in 10,000 are computed;
    conjugate gradients solve with it.
    """
    from scipy.sparse.linalg import cg

    x = np.sort(np.random.default_rng(0).uniform(size=20_000))[:, None]
    S = k.PiecewisePolynomial(1.5e-4, q=1).sparse(x)
    assert S.shape == (20_000, 20_000) and 5 * len(x) < S.nnz < 8 * len(x)
    y = np.sin(9 * x[:, 0])
    A = S + 0.1 * _identity(len(x))
    solution, failed = cg(A, y, rtol=1e-10)
    assert failed == 0 and np.linalg.norm(A @ solution - y) < 1e-8 * np.linalg.norm(y)


def _identity(n):
    from scipy.sparse import identity

    return identity(n, format="csr")


# -------------------------------------------------------------------------------------------------
# band-limited


@pytest.mark.parametrize(
    ("d", "value"), [(1, 0.594225354317316), (2, 0.659197670425189), (3, 0.705895064170708)]
)
def test_bessel_golden_values(d, value):
    """T-K, A.K11, D.K10: alpha = 3, r = 0.7, nu = D / 2 + 0.8."""
    x = np.zeros((1, d))
    assert k.BesselJ(1 / 3, nu=d / 2 + 0.8)(x, x + 0.7 / np.sqrt(d))[0, 0] == pytest.approx(value, rel=1e-13)


@pytest.mark.parametrize("nu", [-0.5, -0.2, 0.0, 0.5, 1.0, 1.3, 3.5, 12.0])
def test_bessel(nu):
    """2^nu Gamma(nu + 1) r^-nu J_nu(r) against SciPy, from coincident points to thousands of oscillations."""
    r = np.concatenate([[0.0], np.geomspace(1e-2, 3e3, 400)])
    with np.errstate(all="ignore"):
        expected = np.where(r > 0, special.gamma(nu + 1) * (2 / r) ** nu * special.jv(nu, r), 1.0)
    np.testing.assert_allclose(k.BesselJ(nu=nu)(r[:, None], [[0.0]])[:, 0], expected, rtol=0, atol=2e-12)


def test_cosine_and_sinc():
    """A.K11: D = 1, nu = -1/2 is the cosine, of rank 2; nu = 1/2 is sin(r) / r, on up to three columns."""
    r = distance(X1, X2, 0.3)
    np.testing.assert_allclose(k.Sinc(0.3, 1.7)(X1, X2), 1.7 * np.sin(r) / r, rtol=1e-12, atol=1e-14)
    x, y = X1[:, :1], X2[:, :1]
    np.testing.assert_allclose(
        k.Cosine(0.3, 1.7)(x, y), 1.7 * np.cos((x - y.T) / 0.3), rtol=1e-12, atol=1e-13
    )
    assert np.linalg.matrix_rank(k.Cosine(0.3)(x)) == k.Cosine().rank(1) == 2 and k.Sinc().rank(1) is None
    assert k.Sinc().flags().max_dimension == 3 and k.Cosine().flags().max_dimension == 1


# ------------------------------------------------------------------------------------------------- mixtures


def test_spectral_mixture():
    """sum_q w_q cos(2 pi mu_q . tau) exp(-2 pi^2 sum_d (scale_qd tau_d)^2), in cycles per unit."""
    weights, means = np.array([0.7, 1.3]), np.array([[0.0, 0.3, 0.1], [0.6, -0.2, 0.5]])
    scales = np.array([[0.2, 0.1, 0.3], [0.1, 0.4, 0.2]])
    tau = X1[:, None] - X2[None]
    expected = sum(
        w * np.cos(2 * np.pi * tau @ m) * np.exp(-2 * np.pi**2 * ((tau * s) ** 2).sum(-1))
        for w, m, s in zip(weights, means, scales, strict=True)
    )
    np.testing.assert_allclose(
        k.SpectralMixture(weights, means, scales)(X1, X2), expected, rtol=1e-11, atol=1e-14
    )
    one = k.SpectralMixture(2.0, 0.4, 0.15)(X1[:, :1], X2[:, :1])
    same = 2.0 * k.Cosine(1 / (2 * np.pi * 0.4)) * k.SE(1 / (2 * np.pi * 0.15))
    np.testing.assert_allclose(one, same(X1[:, :1], X2[:, :1]), rtol=1e-12, atol=1e-14)


def test_lengthscale_mixture():
    """A.K12, D.KC11: a discrete mixture; and a density of length-scales,
    here the one whose mixture is the rational quadratic.
    """
    r2 = distance(X1, X2) ** 2
    expected = 0.2 * np.exp(-r2 / 0.18) + 1.5 * np.exp(-r2 / 8.0)
    np.testing.assert_allclose(k.LengthscaleMixture([0.3, 2.0], [0.2, 1.5])(X1, X2), expected, rtol=1e-12)
    alpha = 1.7

    def density(l):  # of l where l^-2 has the gamma density of (4.20)
        tau = l**-2.0
        return alpha**alpha / special.gamma(alpha) * tau ** (alpha - 1) * np.exp(-alpha * tau) * 2 * l**-3.0

    mixture = k.lengthscale_mixture(density, 0.1, 1e4, nodes=110)
    np.testing.assert_allclose(mixture(X1, X2), k.RationalQuadratic(alpha=alpha)(X1, X2), rtol=1e-9)
    assert {p.status for p in parameters(mixture)} == {"fixed"}


# ------------------------------------------------------------------------------------------------- functions
# that repeat


def test_periodic_of():
    """A.K17, A.K18, D.K12: any kernel on (cos, sin); the SE's is the periodic kernel; it repeats exactly."""
    period = np.array([1.3, 0.7, 2.0])
    kernel = k.PeriodicOf(k.SE(0.8, 1.3), period)
    np.testing.assert_allclose(kernel(X1, X2), k.Periodic(period, 0.8, 1.3)(X1, X2), rtol=1e-12)
    x, y = X1[:, :1], X2[:, :1]
    chord = 2 * np.abs(np.sin(np.pi * (x - y.T) / 1.3))
    z = np.sqrt(3) * chord / 0.8
    matern = k.PeriodicOf(k.Matern(0.8, nu=1.5), 1.3)
    np.testing.assert_allclose(matern(x, y), (1 + z) * np.exp(-z), rtol=1e-12)
    np.testing.assert_allclose(matern(x + 5 * 1.3, y), matern(x, y), rtol=1e-12)
    assert k.PeriodicOf(k.PiecewisePolynomial(), 1.0).bind(1).kernel.dimension == 2


@pytest.mark.parametrize(
    ("kernel", "value"),
    [
        (k.SE(0.5, 1.3), lambda t: 1.3 * np.exp(-0.5 * (t / 0.5) ** 2)),
        (k.OrnsteinUhlenbeck(0.3), lambda t: np.exp(-np.abs(t) / 0.3)),
        (k.SE(0.5) * k.Cosine(0.1), lambda t: np.exp(-0.5 * (t / 0.5) ** 2) * np.cos(t / 0.1)),
        (k.PiecewisePolynomial(1.9, q=0), lambda t: np.maximum(1 - np.abs(t) / 1.9, 0)),
    ],
    ids=["se", "ou", "product", "compact"],
)
def test_periodised(kernel, value):
    """A.K14, D.K11: the sum over images; enough of them for all digits, and an exact period."""
    x, y = 3 * X1[:, :1], 3 * X2[:, :1]
    images = sum(value(x - y.T + 1.4 * m) for m in range(-60, 61))
    wrapped = k.Periodised(kernel, 1.4)
    np.testing.assert_allclose(wrapped(x, y), images, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(wrapped(x + 3 * 1.4, y), images, rtol=1e-11, atol=1e-12)


def test_periodised_finds_its_images():
    """More for longer length-scales, never fewer than asked for; the count survives the formula."""
    counts = [k.Periodised(k.SE(l), 1.0).bind(1).images for l in (0.05, 0.3, 2.0)]
    assert counts == sorted(counts) and counts[0] <= 2 and counts[2] >= 16
    assert k.Periodised(k.SE(0.05), 1.0, 50).bind(1).images == 50
    bound = k.Periodised(k.SE(0.3), 1.0).bind(1)
    assert k.parse(bound.formula(17)).images == bound.images


def test_locally_periodic():
    """A season that changes slowly: SE(decay) times the periodic kernel, one amplitude free."""
    kernel = k.locally_periodic(period=1.0, lengthscale=0.7, decay=5.0, variance=2.0)
    x, y = X1[:, :1], X2[:, :1]
    tau = x - y.T
    expected = 2 * np.exp(-0.5 * (tau / 5) ** 2 - 2 * np.sin(np.pi * tau) ** 2 / 0.49)
    np.testing.assert_allclose(kernel(x, y), expected, rtol=1e-12)
    assert [p.name for p in parameters(kernel) if p.status == "held"] == ["factors.1.variance"]


# ------------------------------------------------------------------------------------------------- the Matern
# family


@pytest.mark.representative("2.5")
@pytest.mark.parametrize("nu", [0.3, 0.5, 1.0, 1.5, 2.2, 7.0])
def test_matern_gradient_in_nu(nu):
    """A.K5: d k / d nu against central differences of SciPy's Bessel function; zero at coincident points."""
    r = np.array([0.0, 1e-3, 0.2, 0.9, 2.5])

    def correlation(nu):
        z = np.sqrt(2 * nu) * r
        with np.errstate(all="ignore"):
            return np.where(r > 0, 2 ** (1 - nu) / special.gamma(nu) * z**nu * special.kv(nu, z), 1.0)

    h = 1e-5
    expected = (correlation(nu + h) - correlation(nu - h)) / (2 * h)
    kernel = k.Matern(nu=param(nu))
    found = jax.jacfwd(lambda kernel: kernel.block(r[:, None], np.zeros((1, 1)))[:, 0])(kernel).nu
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=2e-8)
    assert found[0] == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("nu", [300.0, 1e4, 1e6, 1e9])
def test_matern_of_large_order(nu):
    """A.K5: to first order in 1 / nu the SE times 1 + (r^4 / 8 - r^2 / 2) / nu;
    finite values and gradients however large nu is.
    """
    r = np.linspace(0, 4, 60)
    se = np.exp(-0.5 * r**2)
    kernel = k.Matern(nu=param(nu))
    value = kernel(r[:, None], [[0.0]])[:, 0]
    np.testing.assert_allclose(value, se * (1 + (r**4 / 8 - r**2 / 2) / nu), rtol=0, atol=2 / nu**2 + 1e-9)
    slope = jax.jacfwd(lambda kernel: kernel.block(r[:, None], np.zeros((1, 1)))[:, 0])(kernel)
    np.testing.assert_allclose(slope.lengthscale, r**2 * se, rtol=0, atol=1 / nu + 1e-7)
    np.testing.assert_allclose(slope.nu, -se * (r**4 / 8 - r**2 / 2) / nu**2, rtol=0, atol=4 / nu**3 + 1e-9)


def test_gamma_exponential_gradient():
    """A.K8: d k / d gamma = -(r/l)^gamma log(r/l) k, zero at coincident points."""
    r = np.array([0.0, 0.2, 0.9, 2.5])
    found = jax.jacfwd(lambda kernel: kernel.block(r[:, None], np.zeros((1, 1)))[:, 0])(
        k.GammaExponential(0.8, gamma=1.3)
    ).gamma
    u = np.where(r > 0, r / 0.8, 1.0)
    np.testing.assert_allclose(found, -(u**1.3) * np.log(u) * np.exp(-(u**1.3)), rtol=1e-12, atol=1e-15)


def test_ornstein_uhlenbeck_is_markov():
    """A.K7, D.K6 (exercise 4.5.1): noise-free, a prediction listens to its two neighbours only;
    with noise to others too.
    """
    x = np.sort(np.random.default_rng(3).uniform(0, 5, 9))
    at = np.array([[0.5 * (x[4] + x[5])], [x[-1] + 0.7]])

    def weights(kernel, noise=0.0):
        return np.linalg.solve(kernel(x[:, None]) + noise * np.eye(9), kernel(x[:, None], at)).T

    inside, beyond = weights(k.OrnsteinUhlenbeck(1.3, 2.0))
    assert np.abs(np.delete(inside, [4, 5])).max() < 1e-13 and np.abs(inside[[4, 5]]).min() > 0.1
    assert np.abs(beyond[:-1]).max() < 1e-13 and beyond[-1] == pytest.approx(np.exp(-0.7 / 1.3), rel=1e-12)
    assert np.abs(np.delete(weights(k.OrnsteinUhlenbeck(1.3, 2.0), 0.1)[0], [4, 5])).max() > 1e-3
    assert np.abs(np.delete(weights(k.Matern(1.3, 2.0, nu=1.5))[0], [4, 5])).max() > 1e-3


def roughness(kernel, n=1000):
    """Mean square of second differences of three functions on a grid of n points in [0, 5],
    each of unit variance.
    """
    x = np.linspace(0, 5, n)[:, None]
    K = kernel(x)
    values, vectors = np.linalg.eigh(K)
    draws = vectors @ (
        np.sqrt(np.maximum(values, 0))[:, None] * np.random.default_rng(0).standard_normal((n, 3))
    )
    return np.mean(np.diff(draws, 2, axis=0) ** 2)


@pytest.mark.slow
def test_figures_4_1_to_4_3():
    """Figures 4.1, 4.2, 4.3: paths get smoother with nu and gamma by orders of magnitude;
    all rational quadratics are smooth.
    """
    matern = [roughness(k.Matern(nu=0.5)), roughness(k.Matern(nu=2.0)), roughness(k.SE())]
    assert matern[0] > 1e4 * matern[1] and matern[1] > 10 * matern[2]
    gamma = [roughness(k.GammaExponential(gamma=g)) for g in (0.5, 1.0, 1.5, 2.0)]
    assert all(a > 4 * b for a, b in itertools.pairwise(gamma)) and gamma[2] > 1e3 * gamma[3]
    rational = [roughness(k.RationalQuadratic(alpha=a)) for a in (0.5, 2.0, 50.0)]
    assert max(rational) < 0.3 * matern[1] and max(rational) < 10 * min(rational)


# ------------------------------------------------------------------------------------------------- in use


NEW = [
    k.PiecewisePolynomial(1.9, 1.2, q=2),
    k.BesselJ(0.4, 1.2, nu=1.3),
    k.SpectralMixture([0.7, 1.3], [0.0, 0.6], [0.2, 0.1]),
    k.LengthscaleMixture([0.3, 4.0], [0.2, 0.5]),
    k.PeriodicOf(k.Matern(0.8, 1.3, nu=1.5), param(1.7, bounds=(1.0, 2.0))),
    k.Periodised(k.SE(0.3, 1.3), 1.4),
    k.FourierFeatures([[0.1], [0.3]], 1.2, 0.8),
]


@pytest.mark.parametrize("kernel", NEW, ids=lambda kernel: type(kernel).__name__)
def test_saved_and_read(kernel):
    """JSON keeps every bit and all that was said of the hyperparameters."""
    again = from_json(to_json(kernel))
    assert again.formula(17) == kernel.formula(17) and again.info == kernel.info
    np.testing.assert_array_equal(again(X1[:, :1]), kernel(X1[:, :1]))


def test_learning_a_period_from_a_mixture():
    """A spectral mixture learns the frequency of a sinusoid: 0.5 cycles per unit, from 0.42."""
    x = np.linspace(0, 12, 60)[:, None]
    y = np.sin(np.pi * x[:, 0]) + 0.05 * np.random.default_rng(0).standard_normal(60)
    model = mc.Model(mc.GP(k.SpectralMixture([1.0], [0.42], [0.05])), mc.likelihoods.Gaussian(0.01))
    fitted = mc.fit(model, x, y, restarts=0, seed=0).model
    assert float(fitted.gp.kernel.means[0]) == pytest.approx(0.5, abs=2e-3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: k.PiecewisePolynomial(q=4), r"PiecewisePolynomial\.q must be 0, 1, 2 or 3, got 4"),
        (lambda: k.PiecewisePolynomial(q=1.5), r"PiecewisePolynomial\.q must be 0, 1, 2 or 3"),
        (
            lambda: k.PiecewisePolynomial(dimension=0),
            r"PiecewisePolynomial\.dimension must be a whole number",
        ),
        (lambda: k.PiecewisePolynomial(-1.0), r"PiecewisePolynomial\.lengthscale must be positive"),
        (lambda: k.PiecewisePolynomial().profile(0.5), r"PiecewisePolynomial\.dimension is not known yet"),
        (lambda: k.BesselJ(nu=-0.6), r"BesselJ\.nu must be between -1/2 and 50"),
        (
            lambda: k.Cosine()(X1),
            r"BesselJ\.nu is -0\.5 but the kernel sees 3 input columns, where .* only for nu >= 0\.5",
        ),
        (
            lambda: k.SpectralMixture([1.0, -1.0], [0.0, 1.0], [1.0, 1.0]),
            r"SpectralMixture\.weights must be positive",
        ),
        (
            lambda: k.SpectralMixture([1.0], [0.0, 1.0], [1.0]),
            r"SpectralMixture\.means must be \(components, columns\)",
        ),
        (
            lambda: k.SpectralMixture([1.0], [0.5], [1.0])(X1),
            r"SpectralMixture\.means has shape \(1,\) but the kernel sees 3",
        ),
        (lambda: k.LengthscaleMixture([1.0, 2.0], [1.0]), "LengthscaleMixture: weights and lengthscales"),
        (lambda: k.lengthscale_mixture(lambda l: -l, 0.1, 1.0), r"density of a mixture of length-scales"),
        (lambda: k.lengthscale_mixture(lambda l: l, 1.0, 0.1), r"0 < low < high"),
        (lambda: k.PeriodicOf(k.SE(), 0.0), r"PeriodicOf\.period must be positive"),
        (lambda: k.Periodised(k.Linear(), 1.0)(X1[:, :1]), r"Periodised\.kernel must be stationary"),
        (lambda: k.Periodised(k.Periodic(0.7), 1.0)(X1[:, :1]), r"Periodised\.kernel falls too slowly"),
        (lambda: k.Periodised(k.RationalQuadratic(), 1.0)(X1[:, :1]), r"Periodised\.kernel falls too slowly"),
        (lambda: k.Periodised(k.SE(), 1.0)(X1), r"Periodised reads one input column, not 3"),
        (lambda: k.Periodised(k.SE(), 1.0, -1), r"Periodised\.images must be a whole number"),
        (
            lambda: k.FourierFeatures([0.1, 0.2]),
            r"FourierFeatures\.frequencies must be an \(m, columns\) matrix",
        ),
        (
            lambda: k.FourierFeatures([[0.1, 0.2]])(X1),
            r"FourierFeatures\.frequencies has 2 columns but the kernel sees 3",
        ),
        (lambda: k.random_fourier_features(k.SE(), 0), r"number of frequencies m must be a whole number"),
    ],
)
def test_bad_parameters(make, message):
    with pytest.raises(ParameterError, match=message):
        make()
