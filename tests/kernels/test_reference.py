"""Every kernel against its formula in plain NumPy and SciPy, its limits,
and what it says of bad parameters.
"""

import jax
import numpy as np
import pytest
from scipy.special import gamma, kv

from mercer import kernels as k
from mercer.hyperpriors import LogNormal
from mercer.params import ParameterError, fixed, param, parameters

RNG = np.random.default_rng(7)
X1, X2 = RNG.normal(size=(11, 3)), RNG.normal(size=(9, 3))
exact = dict(rtol=1e-13, atol=1e-15)


def distance(A, B, lengthscale=1.0):
    return np.sqrt((((A[:, None] - B[None]) / lengthscale) ** 2).sum(-1))


def matern(r, nu):
    """(4.14), with its limit 1 at r = 0."""
    z = np.sqrt(2 * nu) * np.where(r > 0, r, 1.0)
    return np.where(r > 0, 2 ** (1 - nu) / gamma(nu) * z**nu * kv(nu, z), 1.0)


# ------------------------------------------------------------------------------------------------- formulas


@pytest.mark.parametrize("lengthscale", [0.8, [0.5, 1.0, 3.0]], ids=["isotropic", "ard"])
@pytest.mark.parametrize("columns", [1, 3], ids=["one", "three"])
def test_se(lengthscale, columns):
    """A.K4 (2.16, 4.9): exp(-r2 / 2)."""
    l = lengthscale if np.ndim(lengthscale) == 0 else lengthscale[:columns]
    A, B = X1[:, :columns], X2[:, :columns]
    np.testing.assert_allclose(k.SE(l, 1.7)(A, B), 1.7 * np.exp(-0.5 * distance(A, B, l) ** 2), **exact)


def test_se_golden_value():
    """T-K: r = 0.7, l = 0.8."""
    assert k.SE(0.8)([[0.0]], [[0.7]])[0, 0] == pytest.approx(0.681940751190348, rel=1e-14)


@pytest.mark.parametrize("d", [5, 32, 33, 60], ids=str)
def test_se_of_many_columns(d):
    """Differences up to 32 columns, centred products above: both keep their digits far from the origin."""
    rng = np.random.default_rng(d)
    A, B = 2000.0 + rng.normal(size=(6, d)), 2000.0 + rng.normal(size=(7, d))
    l = np.sqrt(d)
    np.testing.assert_allclose(k.SE(l)(A, B), np.exp(-0.5 * distance(A, B, l) ** 2), rtol=1e-12)
    np.testing.assert_allclose(np.diag(k.SE(l)(A)), 1.0, rtol=1e-14)


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5, 3.5, 4.5, 6.5])
def test_matern_half_integer(nu):
    """A.K6 (4.16) against the Bessel function (4.14)."""
    l = np.array([0.6, 1.0, 2.0])
    K = k.Matern(l, 0.7, nu=nu)(X1, X2)
    np.testing.assert_allclose(K, 0.7 * matern(distance(X1, X2, l), nu), rtol=1e-12)
    np.testing.assert_allclose(np.diag(k.Matern(l, 0.7, nu=nu)(X1)), 0.7, rtol=1e-14)


@pytest.mark.parametrize(
    ("nu", "value"),
    [(0.5, 0.472366552741015), (1.5, 0.627163952593585), (2.5, 0.675647800018660), (3.5, 0.698399713608683)],
)
def test_matern_golden_values(nu, value):
    """T-K: r = 0.6, l = 0.8."""
    assert k.Matern(0.8, nu=nu)([[0.0]], [[0.6]])[0, 0] == pytest.approx(value, rel=1e-14)


@pytest.mark.parametrize("nu", [0.1, 0.3, 1.0, 1.7, 5.0, 12.0, 40.0])
def test_matern_any_order(nu):
    """A.K5 (4.14): the trapezoid rule against SciPy's Bessel function,
    for an order in the structure and a learned one.
    """
    x = np.array([0.0, 1e-6, 1e-3, 0.05, 0.4, 1.0, 2.5, 6.0, 15.0])[:, None]
    expected = matern(distance(x, x[:1]), nu)
    # kv overflows in the product for tiny distances
    expected[1] = matern(distance(x, x[:1]), nu)[1] if nu < 1 else 1.0
    for order in (nu, param(nu)):
        np.testing.assert_allclose(k.Matern(nu=order)(x, x[:1]), expected, rtol=2e-9, atol=1e-12)


@pytest.mark.parametrize("nu", [0.5, 1.5, 1.2])
def test_matern_in_both_conventions(nu):
    """C.COV3 (Kuss 3.34): (2 sqrt(nu) r)^nu K_nu(2 sqrt(nu) r) / (Gamma(nu) 2^(nu - 1)); exp(-sqrt(2) r) for
    nu = 1/2, and exp(-r2) in the limit.
    """
    r = distance(X1, X2, 0.8)
    z = 2.0 * np.sqrt(nu) * r
    expected = 1.3 * z**nu * kv(nu, z) / (gamma(nu) * 2.0 ** (nu - 1.0))
    np.testing.assert_allclose(k.SteinMatern(0.8, 1.3, nu=nu)(X1, X2), expected, rtol=2e-9)
    if nu == 0.5:
        np.testing.assert_allclose(expected, 1.3 * np.exp(-np.sqrt(2.0) * r), **exact)
    said = k.SteinMatern(param([1.0, 2.0], prior=LogNormal(0.0, 1.0), bounds=(0.1, 10.0)))
    info = dict(said.info)["lengthscale"]
    np.testing.assert_allclose(info.bounds, np.array([0.1, 10.0]) / np.sqrt(2.0))
    density = LogNormal(0.0, 1.0).log_prob(np.array(1.7)) + 0.5 * np.log(2.0)
    assert info.prior.log_prob(np.array(1.7) / np.sqrt(2.0)) == pytest.approx(float(density))


def test_smooth_matern_of_the_other_convention_is_exp_minus_r2():
    r = distance(X1, X2, 0.8)
    np.testing.assert_allclose(k.SteinMatern(0.8, nu=200.0)(X1, X2), np.exp(-(r**2)), atol=4e-3)


def test_gradient_in_the_inputs():
    """C.COV1: dk / dx of the SE in closed form, of others by central differences; 0 at coincident inputs."""
    found = k.input_gradient(k.SE([0.8, 1.1, 2.0], 1.3), X1, X2)
    apart = X1[:, None] - X2[None]
    closed = -apart / np.square([0.8, 1.1, 2.0]) * k.SE([0.8, 1.1, 2.0], 1.3)(X1, X2)[:, :, None]
    np.testing.assert_allclose(found, closed, **exact)
    kernel = k.Matern(0.8, nu=1.5) * k.Linear(0.5) + k.Matern(0.7, nu=0.5).on(1)
    h = 1e-6
    differences = [(kernel(X1 + h * e, X2) - kernel(X1 - h * e, X2)) / (2 * h) for e in np.eye(3)]
    np.testing.assert_allclose(k.input_gradient(kernel, X1, X2), np.stack(differences, 2), atol=1e-7)
    at_zero = k.input_gradient(k.SE(0.8) + k.Matern(nu=0.5), X1)
    np.testing.assert_array_equal(at_zero[np.arange(len(X1)), np.arange(len(X1))], 0.0)


def test_exponential():
    """A.K7: Matern 1/2 and gamma = 1 are exp(-r / l), the Ornstein-Uhlenbeck process."""
    expected = 1.3 * np.exp(-distance(X1, X2, 0.8))
    np.testing.assert_allclose(k.Matern(0.8, 1.3, nu=0.5)(X1, X2), expected, **exact)
    np.testing.assert_allclose(k.GammaExponential(0.8, 1.3, gamma=1.0)(X1, X2), expected, **exact)


def test_gamma_exponential():
    """A.K8 (4.18): exp(-(r/l)^gamma); gamma = 2 is the SE with l / sqrt 2."""
    r = distance(X1, X2, 0.8)
    np.testing.assert_allclose(
        k.GammaExponential(0.8, 1.3, gamma=1.4)(X1, X2), 1.3 * np.exp(-(r**1.4)), **exact
    )
    np.testing.assert_allclose(
        k.GammaExponential(0.8, gamma=2.0)(X1, X2), k.SE(0.8 / np.sqrt(2))(X1, X2), **exact
    )
    np.testing.assert_allclose(np.diag(k.GammaExponential(0.8, gamma=0.3)(X1)), 1.0, rtol=0)


def test_rational_quadratic():
    """A.K9 (4.19): (1 + r2 / (2 alpha))^-alpha."""
    l = np.array([0.6, 1.0, 2.0])
    r2 = distance(X1, X2, l) ** 2
    K = k.RationalQuadratic(l, 1.3, alpha=0.7)(X1, X2)
    np.testing.assert_allclose(K, 1.3 * (1 + r2 / 1.4) ** -0.7, **exact)


def test_periodic():
    """A.K18 (4.31): exp(-2 sin^2(pi (x - x') / period) / l^2), by columns; it repeats exactly."""
    period, l = np.array([1.0, 1.5, 0.7]), np.array([0.8, 1.2, 2.0])
    s2 = np.sin(np.pi * (X1[:, None] - X2[None]) / period) ** 2
    kernel = k.Periodic(period, l, 1.3)
    np.testing.assert_allclose(kernel(X1, X2), 1.3 * np.exp(-2 * (s2 / l**2).sum(-1)), rtol=1e-12)
    np.testing.assert_allclose(kernel(X1 + 3 * period, X2), kernel(X1, X2), rtol=1e-12)
    # from the warping u = (cos x, sin x) of an SE, with period 2 pi
    x, y = X1[:, :1], X2[:, :1]
    u, v = (np.hstack([np.cos(a), np.sin(a)]) for a in (x, y))
    np.testing.assert_allclose(
        k.Periodic(2 * np.pi, 0.9)(x, y), np.exp(-0.5 * distance(u, v, 0.9) ** 2), rtol=1e-12
    )


def test_dot_product_kernels():
    """A.K1, A.K2, A.K3: constant, linear, polynomial, and the feature expansion (4.24) of the last."""
    np.testing.assert_array_equal(k.Constant(0.6)(X1, X2), np.full((11, 9), 0.6))
    s = np.array([0.5, 2.0, 0.1])
    np.testing.assert_allclose(k.Linear(s)(X1, X2), X1 @ np.diag(s) @ X2.T, **exact)
    np.testing.assert_allclose(k.Linear(0.4)(X1, X2), 0.4 * X1 @ X2.T, **exact)
    for degree in (1, 2, 4):
        K = k.Polynomial(degree, 0.7, 1.3)(X1, X2)
        np.testing.assert_allclose(K, 1.3 * (X1 @ X2.T + 0.7) ** degree, rtol=1e-12, atol=1e-14)
    big = np.random.default_rng(0).normal(size=(40, 3))
    assert np.linalg.matrix_rank(k.Linear(s)(big)) == k.Linear(s).rank(3) == 3
    assert np.linalg.matrix_rank(k.Polynomial(2)(big)) == k.Polynomial(2).rank(3) == 10


# ------------------------------------------------------------------------------------------------- limits


def test_matern_tends_to_se():
    """A.K5: nu -> infinity is the SE; the error falls as 1 / nu."""
    x = np.linspace(0, 3, 20)[:, None]
    errors = [np.abs(k.Matern(nu=param(nu))(x) - k.SE()(x)).max() for nu in (50.0, 100.0, 200.0)]
    assert errors[0] < 5e-3 and errors[2] < 1.3e-3
    np.testing.assert_allclose(np.array(errors[:-1]) / errors[1:], 2.0, rtol=0.05)


def test_rational_quadratic_tends_to_se():
    """A.K9: alpha -> infinity is the SE, to first order in 1 / alpha: exp(-r2/2) (1 + r2^2 / (8 alpha))."""
    r2 = distance(X1, X2) ** 2
    difference = k.RationalQuadratic(alpha=1e6)(X1, X2) - k.SE()(X1, X2)
    np.testing.assert_allclose(difference, np.exp(-0.5 * r2) * r2**2 / 8e6, rtol=1e-3, atol=1e-14)
    assert np.abs(k.RationalQuadratic(alpha=1e12)(X1, X2) - k.SE()(X1, X2)).max() < 1e-11


def test_rational_quadratic_is_a_mixture_of_se():
    """A.K9: a gamma mixture of SEs over the squared inverse length-scale, by quadrature."""
    alpha, r2 = 1.7, np.array([0.0, 0.3, 2.0, 9.0])
    nodes, weights = np.polynomial.legendre.leggauss(400)
    tau = 10.0 * (nodes + 1)  # 0 ... 20
    density = alpha**alpha / gamma(alpha) * tau ** (alpha - 1) * np.exp(-alpha * tau)
    mixture = (np.exp(-0.5 * r2[:, None] * tau) * density * weights * 10.0).sum(1)
    np.testing.assert_allclose(
        k.RationalQuadratic(alpha=alpha)(np.sqrt(r2)[:, None], [[0.0]])[:, 0], mixture, rtol=2e-5
    )


def test_irrelevant_column():
    """ARD: a length-scale that grows drops its column (A.K13, GPML 5.1)."""
    K = k.SE([0.7, 1.2, 1e9])(X1, X2)
    np.testing.assert_allclose(K, k.SE([0.7, 1.2])(X1[:, :2], X2[:, :2]), rtol=1e-12)
    np.testing.assert_allclose(K, k.SE([0.7, 1.2]).on(0, 1)(X1, X2), rtol=1e-12)


def test_factor_analysis_distance():
    """A.K13 (5.1), D.SL7: M = Lambda Lambda' + diag(l)^-2; ARD without loadings;
    the isotropic kernel of transformed inputs.
    """
    l = np.array([0.7, 1.2, 2.5])
    loadings = RNG.normal(size=(3, 2))
    M = loadings @ loadings.T + np.diag(l**-2.0)
    difference = X1[:, None] - X2[None]
    r2 = np.einsum("ijk,kl,ijl->ij", difference, M, difference)
    root = np.linalg.cholesky(M)
    for kernel, profile in [
        (k.SE, lambda r2: np.exp(-0.5 * r2)),
        (k.RationalQuadratic, lambda r2: (1 + r2 / 2) ** -1.0),
    ]:
        K = kernel(l, loadings=loadings)(X1, X2)
        np.testing.assert_allclose(K, profile(r2), rtol=1e-12)
        np.testing.assert_allclose(K, kernel()(X1 @ root, X2 @ root), rtol=1e-11)
        np.testing.assert_allclose(kernel(l, loadings=np.zeros((3, 2)))(X1, X2), kernel(l)(X1, X2), **exact)


def test_slides_three_distances():
    """D.SL7, T-SL3: M = I, diag(1, 3)^-2, and Lambda Lambda' + diag(6, 6)^-2 with Lambda = (1, -1)'."""
    e1, e2, diagonal, anti = (np.array([v]) for v in ([1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, -1.0]))
    zero = np.zeros((1, 2))
    isotropic, ard = k.SE(1.0), k.SE([1.0, 3.0])
    factor = k.SE([6.0, 6.0], loadings=[[1.0], [-1.0]])
    assert isotropic(zero, e1) == isotropic(zero, e2) == pytest.approx(np.exp(-0.5))
    assert ard(zero, e1)[0, 0] == pytest.approx(np.exp(-0.5)) and ard(zero, e2)[0, 0] == pytest.approx(
        np.exp(-1 / 18)
    )
    assert factor(zero, diagonal)[0, 0] == pytest.approx(np.exp(-2 / 72)), "slow along (1, 1)"
    assert factor(zero, anti)[0, 0] == pytest.approx(np.exp(-0.5 * (4 + 2 / 36))), "fast along (1, -1)"


@pytest.mark.parametrize("d", [1, 6, 40])
@pytest.mark.parametrize(
    ("kernel", "curvature"),
    [
        (k.SE(0.7, 1.3), 1.0),
        (k.RationalQuadratic(0.7, 1.3, alpha=0.6), 1.0),
        (k.Matern(0.7, 1.3, nu=1.5), 3.0),
        (k.Matern(0.7, 1.3, nu=2.5), 5 / 3),
        (k.Matern(0.7, 1.3, nu=3.5), 7 / 5),
        (k.Matern(0.7, 1.3, nu=1.25), 5.0),
    ],
    ids=["se", "rational-quadratic", "matern-3/2", "matern-5/2", "matern-7/2", "matern-5/4"],
)
def test_curvature_at_coincident_points(kernel, curvature, d):
    """D.KA3: -k''(0) = nu / ((nu - 1) l^2): the variance of the derivative process,
    by autodiff through `point`.
    """
    x = np.linspace(0.1, 0.9, d)
    second = jax.jit(jax.jacfwd(jax.grad(kernel.point, argnums=0), argnums=1))(x, x)
    np.testing.assert_allclose(second, 1.3 * curvature / 0.49 * np.eye(d), rtol=1e-12, atol=1e-12)


# ------------------------------------------------------------------------------------------------- amplitudes


def status(kernel):
    return {p.name: p.status for p in parameters(kernel)}


def test_one_amplitude_is_free_in_a_product():
    """The explicit scale's, else the first factor's; what a person fixed stays fixed."""
    assert status(k.SE() * k.Linear() * k.Periodic(fixed(1.0))) == {
        "factors.0.lengthscale": "free",
        "factors.0.variance": "free",
        "factors.1.variance": "held",
        "factors.2.period": "fixed",
        "factors.2.lengthscale": "free",
        "factors.2.variance": "held",
    }
    scaled = status(2.0 * k.SE() * k.Linear())
    assert scaled["variance"] == "free"
    assert scaled["kernel.factors.0.variance"] == scaled["kernel.factors.1.variance"] == "held"
    assert status(k.SE() * (3.0 * k.Linear())) == status(3.0 * (k.SE() * k.Linear()))
    of_sum = status(k.SE() * (k.Linear() + k.Constant()))
    assert of_sum["factors.1.terms.0.variance"] == "held" and of_sum["factors.1.terms.1.variance"] == "free"
    assert set(status(k.SE() + k.SE()).values()) == {"free"}
    assert status(k.Matern(nu=1.5)) == {"lengthscale": "free", "variance": "free"}
    assert status(k.Matern(nu=param(1.5)))["nu"] == "free"


def test_algebra_flattens():
    """Sums of sums are one sum, a scale moves outside a product, numbers are constants and scales."""
    a, b, c = k.SE(), k.Linear(), k.Constant(2.0)
    assert (a + b + c).terms == (a, b, c) and (a + (b + c)).terms == (a, b, c)
    assert (a * b * c).factors == (a, b, c)
    assert isinstance((2.0 * a) * b, k.Scale) and isinstance(((2.0 * a) * b).kernel, k.Product)
    np.testing.assert_allclose((a + 2)(X1), (2 + a)(X1))
    np.testing.assert_allclose((np.float64(3.0) * a)(X1), 3.0 * a(X1))
    assert parameters(param(2.0, tie="s") * a)[0].info.tie == "s"
    for bad in (lambda: a + "b", lambda: a * [1, 2], lambda: a - b):
        with pytest.raises(TypeError):
            bad()


# ------------------------------------------------------------------------------------------------- bad
# parameters


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: k.SE(lengthscale=-1.0), r"SE\.lengthscale must be positive"),
        (lambda: k.SE(lengthscale=0.0), r"SE\.lengthscale must be positive"),
        (lambda: k.SE([1.0, -2.0]), r"SE\.lengthscale must be positive, got \[1 -2\]\."),
        (lambda: k.SE(variance=np.nan), r"SE\.variance must be finite"),
        (lambda: k.SE(variance=np.inf), r"SE\.variance must be finite"),
        (lambda: k.SE(variance=[1.0, 2.0]), r"SE\.variance must be one number"),
        (lambda: k.SE(None), r"SE\.lengthscale must be a number or an array of numbers, got None"),
        (lambda: k.SE([]), r"SE\.lengthscale must be a number or a vector with one entry per column"),
        (lambda: k.SE("wide"), r"SE\.lengthscale must be a number or an array of numbers, got 'wide'"),
        (lambda: k.SE([[1.0, 2.0]]), r"SE\.lengthscale must be a number or a vector"),
        (lambda: k.SE(loadings=[1.0, 2.0]), r"SE\.loadings must be a \(columns, directions\) matrix"),
        (
            lambda: k.SE(loadings=np.ones((2, 1)))(X1),
            r"SE\.loadings has 2 rows but the kernel sees 3 input columns",
        ),
        (lambda: k.SE([1.0, 2.0])(X1), r"SE\.lengthscale has 2 entries but the kernel sees 3 input columns"),
        (lambda: k.Linear([1.0, 2.0])(X1), r"Linear\.variance has 2 entries"),
        (lambda: k.Matern(nu=0.0), r"Matern\.nu must be positive"),
        (lambda: k.RationalQuadratic(alpha=-0.1), r"RationalQuadratic\.alpha must be positive"),
        (lambda: k.GammaExponential(gamma=2.1), r"GammaExponential\.gamma must be between 0 and 2"),
        (lambda: k.GammaExponential(gamma=0.0), r"GammaExponential\.gamma must be above 0"),
        (lambda: k.Periodic(period=0.0), r"Periodic\.period must be positive"),
        (lambda: k.Constant(0.0), r"Constant\.variance must be positive"),
        (lambda: k.Polynomial(0), r"Polynomial\.degree must be a whole number"),
        (lambda: k.Polynomial(1.5), r"Polynomial\.degree must be a whole number"),
        (lambda: k.Polynomial(2, -1.0), r"Polynomial\.offset must be zero or positive"),
        (lambda: -2.0 * k.SE(), r"Scale\.variance must be positive"),
        (lambda: k.Linear() ** 0.5, r"exponent of a kernel must be a whole number"),
        (lambda: k.SE() ** 0, r"exponent of a kernel must be a whole number"),
        (lambda: k.SE().on(), r"\.on\(\.\.\.\) needs at least one column"),
        (lambda: k.SE().on(0, 0), r"no column twice"),
        (lambda: k.SE().on(1.5), r"column positions or names"),
        (lambda: k.SE().on(5)(X1), r"\.on\(5\): the inputs have only 3 columns"),
        (lambda: k.SE().on("age")(X1), r"\.on\('age'\) needs inputs with column names"),
        (
            lambda: k.SE().on("age")({"weight": [1.0, 2.0]}),
            r"\.on\('age'\): no such column; the inputs have \['weight'\]",
        ),
    ],
)
def test_bad_parameters(make, message):
    """Errors name the field (or the call), what is wrong, and the value."""
    with pytest.raises(ParameterError, match=message):
        make()


def test_columns_by_name():
    """`.on("name")` reads the named column of a frame or dict, wherever it stands."""
    table = {"b": X1[:, 1], "a": X1[:, 0]}
    np.testing.assert_array_equal(k.SE().on("a")(table), k.SE()(X1[:, :1]))
    np.testing.assert_array_equal(k.SE([1.0, 2.0]).on("a", "b")(table), k.SE([1.0, 2.0])(X1[:, :2]))
    np.testing.assert_array_equal(k.SE().on(-1)(X1), k.SE()(X1[:, 2:]))
