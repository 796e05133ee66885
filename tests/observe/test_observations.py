"""What people write down of a function, and what is said of what cannot be: B.X9."""

import numpy as np
import pytest
from scipy.stats import norm

import mercer as mc
from mercer import kernels as k
from mercer import likelihoods as lk
from mercer import means, observe
from mercer.inputs import InputError
from mercer.kernels.algebra.boxes import Boxes, averaged, node_error
from mercer.params import flatten
from mercer.persist import from_json, to_json

X = np.array([[0.1], [0.8], [1.5], [2.6]])
Y = np.sin(X[:, 0])
DATA = observe.values(X, Y) + observe.derivatives(X[:2], np.cos(X[:2, 0]))
GP = mc.GP(k.SE(1.1, 0.9))


@pytest.fixture(scope="module")
def post():
    return GP.condition(DATA, noise_variance=1e-4)


def test_values_alone_are_plain_data(post):
    """A posterior given values is that given X and y; plain inputs are values."""
    plain, rows = GP.condition(X, Y, 0.01), GP.condition(observe.values(X, Y), noise_variance=0.01)
    Xs = np.linspace(0, 3, 4)[:, None]
    np.testing.assert_allclose(rows.mean(Xs), plain.mean(Xs), rtol=1e-10)
    np.testing.assert_allclose(rows.std(observe.values(Xs)), plain.std(Xs), rtol=1e-9)
    np.testing.assert_allclose(rows.log_evidence, plain.log_evidence, rtol=1e-10)


def test_the_predicted_derivative_is_that_of_the_prediction(post):
    Xs, h = np.array([[0.4], [1.9], [2.6]]), 1e-4
    slope = (post.mean(Xs + h) - post.mean(Xs - h)) / (2 * h)
    np.testing.assert_allclose(post.mean(observe.derivatives(Xs)), slope, rtol=1e-6)
    assert (
        post.variance(Xs, latent=True) <= GP.condition(X, Y, 1e-4).variance(Xs, latent=True) + 1e-10
    ).all()


def test_derivatives_and_integrals_after_plain_data():
    """Conditioned on X and y, a posterior says the same of derivatives and integrals as on their values."""
    plain, rows = GP.condition(X, Y, 0.01), GP.condition(observe.values(X, Y), noise_variance=0.01)
    Xs = np.array([[0.4], [1.9], [2.6]])
    for places in (observe.derivatives(Xs), observe.integrals(Xs, Xs + 0.5)):
        np.testing.assert_allclose(plain.mean(places), rows.mean(places), rtol=1e-9)
        np.testing.assert_allclose(plain.std(places), rows.std(places), rtol=1e-8)
        np.testing.assert_allclose(
            plain.covariance(places, latent=True), rows.covariance(places, latent=True), atol=1e-10
        )
        np.testing.assert_allclose(plain.sample(places, 2, seed=0), rows.sample(places, 2, seed=0), atol=1e-7)
    assert plain.quantile(observe.derivatives(Xs), [0.1, 0.9]).shape == (3, 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("likelihood", "y"), [(lk.Bernoulli(), [1, 1, -1, -1]), (lk.Poisson(), [1, 2, 0, 3])]
)
def test_derivatives_after_classes_and_counts(likelihood, y):
    plain = mc.Model(GP, likelihood).condition(X, y)
    Xs, h = np.array([[0.4], [1.9], [2.6]]), 1e-4
    slope = (plain.mean(Xs + h, latent=True) - plain.mean(Xs - h, latent=True)) / (2 * h)
    np.testing.assert_allclose(plain.mean(observe.derivatives(Xs), latent=True), slope, rtol=1e-6)


def test_figure_9_1():
    """Four values without noise, and their slopes: both are matched exactly."""
    slopes = np.cos(X[:, 0])
    post = GP.condition(observe.values(X, Y) + observe.derivatives(X, slopes))
    np.testing.assert_allclose(post.mean(X), Y, atol=1e-6)
    np.testing.assert_allclose(post.mean(observe.derivatives(X)), slopes, atol=1e-5)


def test_known_errors_are_noise(post):
    """y_error is a standard deviation, beside the noise of the model."""
    given = GP.condition(observe.values(X, Y, y_error=0.3) + observe.derivatives(X[:2], Y[:2], y_error=0.1))
    noise = np.r_[np.full(4, 0.09), np.full(2, 0.01)]
    said = GP.condition(observe.values(X, Y) + observe.derivatives(X[:2], Y[:2]), noise_variance=noise)
    np.testing.assert_allclose(given.log_evidence, said.log_evidence, rtol=1e-9)


def test_a_sign_is_a_truncated_gaussian(post):
    """One sign: EP is exact. The probability of the sign is that of the slope's Gaussian, and the mean moves
    by the inverse Mills ratio.
    """
    plain = GP.condition(observe.values(X, Y), noise_variance=0.01)
    place = observe.derivatives([[2.2]])
    m, s = plain.mean(place)[0], plain.std(place, latent=True)[0]
    post = GP.condition(observe.values(X, Y) + observe.signs([[2.2]]), noise_variance=0.01)
    np.testing.assert_allclose(post.log_evidence, plain.log_evidence + norm.logcdf(m / s), rtol=1e-8)
    moved = m + s * np.exp(norm.logpdf(m / s) - norm.logcdf(m / s))
    np.testing.assert_allclose(post.mean(place, latent=True), [moved], rtol=1e-6)
    assert m < 0 < moved


def test_names_come_from_the_frame():
    frame = {"dose": X[:, 0], "age": X[:, 0] ** 2}
    data = observe.values(frame, Y) + observe.derivatives(frame, Y, column="age", order=2)
    assert data.kinds == {0: "values", 202: "second derivatives in age"} and data.names == ("dose", "age")
    post = mc.GP(k.SE([1.0, 2.0])).condition(data, noise_variance=0.1)
    backwards = {"age": frame["age"], "dose": frame["dose"]}
    np.testing.assert_array_equal(post.mean(frame), post.mean(backwards))
    with pytest.raises(InputError, match=r"did you mean 'dose'"):
        observe.derivatives(frame, column="dos")


def test_mean_and_basis_are_observed_too():
    """2 + 3 x: its slope is 3, its integral over [0, 1] 3.5; exactly, with no data of f left to explain."""
    data = observe.values(X, 2 + 3 * X[:, 0])
    places = observe.derivatives(X[:1]) + observe.integrals([[0.0]], [[1.0]])
    for gp in (mc.GP(k.SE(), means.Linear(3.0, 2.0)), mc.GP(k.SE(), basis=means.Polynomial(1))):
        np.testing.assert_allclose(
            gp.condition(data, noise_variance=0.01).mean(places), [3.0, 3.5], rtol=1e-9
        )
    with pytest.raises(InputError, match=r"must be written in jax\.numpy"):
        mc.GP(k.SE(), lambda X: np.sin(X[:, 0])).condition(DATA)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (lambda: observe.derivatives(X, column=1), "no column 1"),
        (lambda: observe.derivatives(X, column="dose"), "X has no names"),
        (lambda: observe.derivatives(np.hstack([X, X])), "give column= or direction="),
        (lambda: observe.derivatives(X, order=0), "order must be a whole number"),
        (lambda: observe.derivatives(X, direction=[0.0]), "not zero"),
        (lambda: observe.integrals(X, X - 1.0), "lower is above upper in row 0"),
        (lambda: observe.integrals(X, X), "no width"),
        (lambda: observe.values(X, Y[:2]), "2 entries"),
        (lambda: observe.values(X, Y, y_error=-1.0), "y_error"),
        (lambda: observe.signs(X, 2), r"sign must be \+1 or -1"),
        (lambda: observe.values(X) + observe.values(X, Y), "have no y"),
        (lambda: observe.values(X) + observe.values(np.hstack([X, X])), "1 and of 2 columns"),
    ],
)
def test_what_is_no_observation(data, says):
    with pytest.raises(InputError, match=says):
        data()


def test_what_cannot_be_conditioned_on(post):
    for gp, data, says in [
        (mc.GP(k.Matern(nu=0.5)), DATA, r"order 1 .* Matern.* have none.*Matern\(nu=1.5\) or SE"),
        (mc.GP(k.Matern(nu=1.5)), observe.derivatives(X, Y, order=2), r"order 2 .* have 1.*nu=2.5"),
        (
            GP,
            DATA + observe.derivatives(X[:1], [9.0]),
            r"rows 4 and 6 \(derivatives in column 0\) contradict",
        ),
        (GP, observe.values(X), "have no y"),
        (GP, observe.values(X, Y) + observe.signs(X), "noise_variance above 0"),
    ]:
        with pytest.raises(InputError, match=says):
            gp.condition(data)
    with pytest.raises(InputError, match=r"rows 4 and 8 .* contradict each other: 1 and -1"):
        GP.condition(observe.values(X, Y) + observe.signs(X) + observe.signs(X, -1), noise_variance=0.1)
    with pytest.raises(InputError, match="have their own y"):
        GP.condition(DATA, Y)
    with pytest.raises(InputError, match="y is missing"):
        GP.condition(X)
    with pytest.raises(InputError, match="2 columns but the model was conditioned on 1"):
        post.mean(observe.values(np.hstack([X, X])))
    with pytest.raises(mc.posteriors.PosteriorError, match=r"mercer\.observe\.values"):
        GP.condition(X, Y, 0.1, solver=mc.solvers.VFE(m=2)).mean(observe.derivatives(X))
    with pytest.raises(InputError, match="need a y_error above 0"):
        mc.Model(GP, lk.Poisson()).condition(observe.values(X, [1, 2, 0, 3]) + observe.derivatives(X, Y))


def test_a_saved_model_reads_rows(post):
    again = from_json(to_json(post.model))
    places = observe.derivatives(X)
    np.testing.assert_allclose(again.condition(DATA).mean(places), post.mean(places), rtol=1e-9)


def test_gradients_of_all_hyperparameters():
    """Against central differences, values and slopes at one place included."""
    gp = mc.GP(k.Matern(1.1, 0.9, nu=2.5), means.Linear(0.3, 0.2))
    flat = flatten(mc.Model(gp, lk.Gaussian(0.05)))
    check_gradient(flat, DATA)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kernel",
    [k.SE([0.8, 1.2]), k.RationalQuadratic(0.9, alpha=0.7), 0.7 * k.SE(0.9).on(0) * k.Periodic(2.0).on(1)],
)
def test_gradients_with_integrals(kernel):
    rng = np.random.default_rng(0)
    P, Q = rng.normal(size=(5, 2)), rng.normal(size=(3, 2))
    data = (
        observe.values(P, rng.normal(size=5))
        + observe.derivatives(P[:3], rng.normal(size=3), column=1)
        + observe.integrals(Q, Q + np.array([0.5, 2.0]), rng.normal(size=3))
    )
    check_gradient(flatten(mc.Model(mc.GP(kernel), lk.Gaussian(0.05))), data)


def check_gradient(flat, data):
    def evidence(vector):
        return mc.log_evidence(flat.unflatten(vector), data)

    _, named = mc.log_evidence_and_gradient(flat.unflatten(flat.vector), data)
    found = flat.pull(
        {
            name.replace("kernel.kernel.", "kernel.", 1).replace("mean.mean.", "mean."): v
            for name, v in named.items()
        },
        flat.vector,
    )
    steps = 1e-5 * np.eye(flat.vector.size)
    expected = [(evidence(flat.vector + s) - evidence(flat.vector - s)) / 2e-5 for s in steps]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_each_kind_learns_its_noise():
    """Slopes a hundred times noisier than values: both noises are found, and more data help."""
    rng = np.random.default_rng(0)
    P = np.linspace(0.0, 6.0, 60)[:, None]
    y, dy = np.sin(P[:, 0]) + 0.02 * rng.normal(size=60), np.cos(P[:, 0]) + 0.5 * rng.normal(size=60)
    found = mc.fit(mc.GP(k.SE()), observe.values(P, y) + observe.derivatives(P, dy))
    assert found.model.likelihood.by.value.labels == ("values", "derivatives in column 0")
    np.testing.assert_allclose(np.sqrt(found.model.likelihood.noise_variance), [0.02, 0.5], rtol=0.35)
    again = found.model.condition(observe.values(P, y) + observe.derivatives(P, dy))
    np.testing.assert_allclose(again.log_evidence, found.posterior.log_evidence, rtol=1e-8)


@pytest.mark.slow
def test_counts_and_classes_with_derivatives():
    """Sites do not know: a slope of the log rate, and the sign of the slope behind two classes."""
    rng = np.random.default_rng(0)
    P = np.linspace(0.0, 3.0, 25)[:, None]
    counts = rng.poisson(np.exp(P[:, 0] - 1.0)).astype(float)
    slopes = observe.derivatives(P[::5], np.ones(5), y_error=0.05)
    model = mc.Model(mc.GP(k.SE(1.5, 2.0)), lk.Poisson())
    post, plain = model.condition(observe.values(P, counts) + slopes), model.condition(P, counts, "ep")
    near = [np.abs(p.mean(P, latent=True) - (P[:, 0] - 1.0)).mean() for p in (post, plain)]
    assert near[0] < near[1] and (post.mean(P) > 0).all()
    labels = (P[:, 0] + 0.5 * rng.normal(size=25) > 1.5).astype(float)
    rises = observe.signs(np.linspace(0.0, 3.0, 8)[:, None])
    post = mc.Model(mc.GP(k.SE(0.5, 4.0)), lk.Bernoulli()).condition(observe.values(P, labels) + rises)
    assert (np.diff(post.mean(P)) > -0.01).all()  # the probability of class 1


def test_nodes_that_are_too_few_are_told():
    """The estimate is the error: of a Matern 1/2 over ten length-scales, whose variance is known."""
    kernel, width = k.Matern(0.1, nu=0.5), np.array([[1.0]])
    box = Boxes(np.zeros((1, 1)), width, (0,))
    found = node_error(kernel.bind(1), box)
    assert 0.05 < found < 0.4
    exact = 2 * 0.1 - 2 * 0.1**2 * (1 - np.exp(-10.0))
    by_nodes = float(averaged(kernel.bind(1), box, box)[0, 0])
    assert abs(by_nodes / exact - 1) < found
    assert node_error(k.Matern(1.0, nu=2.5).bind(1), box) < 1e-4 and node_error(k.SE(0.01), box) == 0.0
    with pytest.warns(UserWarning, match="too few for the box of row 0"):
        mc.GP(kernel).condition(observe.integrals([[0.0]], width, [1.0]), noise_variance=0.1)


@pytest.mark.slow
def test_nodes_and_closed_forms_agree():
    """Averages of an SE over boxes from narrow to wide beside many nodes; of others, what nodes cost."""
    lower, wide = np.array([[0.0], [0.3], [-2.0], [4.0]]), np.array([[0.01], [0.9], [7.0], [1.1]])
    data = observe.values(lower[:2]) + observe.integrals(lower, lower + wide)
    t, w = np.polynomial.legendre.leggauss(400)
    for kernel, tolerance in [
        (k.SE(0.9), 1e-10),
        (k.RationalQuadratic(3.0), 1e-9),
        (k.Matern(3.0, nu=2.5), 1e-5),
    ]:
        points = [np.full(1, x) for x in lower[:2, 0]] + [
            a + 0.5 * (1 + t) * b for a, b in zip(lower[:, 0], wide[:, 0], strict=True)
        ]
        weights = [np.ones(1)] * 2 + [0.5 * w * b for b in wide[:, 0]]
        K = np.array(
            [
                [wi @ kernel(p[:, None], q[:, None]) @ wj for q, wj in zip(points, weights, strict=True)]
                for p, wi in zip(points, weights, strict=True)
            ]
        )
        np.testing.assert_allclose(k.Observed(kernel, 1)(data.rows), K, rtol=tolerance, atol=tolerance)
