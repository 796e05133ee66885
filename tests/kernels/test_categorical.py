"""Kernels on categories, alone and beside numeric ones on a mixed table, from the matrix to the estimator."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import mercer as mc
from mercer import kernels as k
from mercer.inputs import InputError
from mercer.params import ParameterError, fixed, parameters

LABELS = ["cat", "dog", "cat", "eel", "fox", "dog"]
LOADINGS = np.array([[1.0, 0.2], [0.7, -0.4], [-0.5, 0.9]])


def column(values):
    out = np.empty((len(values), 1), object)
    out[:, 0] = values
    return out


def same(a, b):
    return np.array([[x == y for y in b] for x in a])


def test_compound_symmetry():
    """variance for equal labels, variance * correlation for others; correlation 0 is the equality kernel."""
    other = ["dog", "yak", "cat"]
    K = k.Categorical(correlation=0.3, variance=1.4)(column(LABELS), column(other))
    np.testing.assert_array_equal(K, 1.4 * np.where(same(LABELS, other), 1.0, 0.3))
    K = k.Categorical(correlation=fixed(0.0))(LABELS)
    np.testing.assert_array_equal(K, same(LABELS, LABELS).astype(float))


def test_levels_and_new_levels():
    """Labels outside `levels` are levels of their own: equal to themselves, independent of all others."""
    levels = ["cat", "dog", "eel"]
    names = [*LABELS, "yak", "yak"]
    K = k.Categorical(levels, 0.3, 1.4)(names)
    related = np.array([[a in levels and b in levels for b in names] for a in names])
    np.testing.assert_array_equal(K, 1.4 * np.where(same(names, names), 1.0, np.where(related, 0.3, 0.0)))


def test_covariance_between_levels():
    """loadings loadings' + diag(variances); a new level is independent, with the average variance."""
    levels, variances = ["cat", "dog", "eel"], np.array([0.1, 0.2, 0.3])
    S = LOADINGS @ LOADINGS.T + np.diag(variances)
    kernel = k.CategoricalCovariance(levels, LOADINGS, variances)
    rows = ["eel", "cat", "yak", "dog", "yak", "gnu"]
    K = kernel(rows)
    known = [0, 1, 3]
    index = [levels.index(rows[i]) for i in known]
    np.testing.assert_allclose(K[np.ix_(known, known)], S[np.ix_(index, index)], rtol=1e-13)
    new = [2, 4, 5]
    assert (K[np.ix_(known, new)] == 0).all()
    expected = np.mean(np.diag(S)) * same([rows[i] for i in new], [rows[i] for i in new])
    np.testing.assert_allclose(K[np.ix_(new, new)], expected, rtol=1e-13)
    np.testing.assert_allclose(kernel.covariance(), S, rtol=1e-13)
    compound = k.CategoricalCovariance(levels, np.sqrt(0.3) * np.ones((3, 1)), 0.7)
    np.testing.assert_allclose(compound(levels), k.Categorical(correlation=0.3)(levels), rtol=1e-13)


def test_text_and_codes():
    """A column of numbers is read as codes, 1 and 1.0 and True alike; text "1" is another label;
    any hashable value will do.
    """
    codes = np.array([[0.0], [1.0], [1.0], [2.0]])
    np.testing.assert_array_equal(k.Categorical(correlation=0.3)(codes), np.where(codes == codes.T, 1.0, 0.3))
    kernel = k.CategoricalCovariance([2, 0, 1], LOADINGS, 0.1)
    S = np.asarray(kernel.covariance())
    expected = S[np.ix_([1, 2, 2, 0], [1, 2, 2, 0])]
    np.testing.assert_allclose(kernel(codes), expected, rtol=1e-15)  # one rounding
    mixed = column([1, 1.0, np.float32(1), True, "1", np.str_("1"), ("a", 2), ("a", 2)])
    groups = [0, 0, 0, 0, 1, 1, 2, 2]
    np.testing.assert_array_equal(
        k.Categorical(correlation=fixed(0.0))(mixed), np.equal.outer(groups, groups).astype(float)
    )


@pytest.fixture
def animals():
    rng = np.random.default_rng(0)
    n = 90
    frame = pd.DataFrame(
        {
            "species": rng.choice(["cat", "dog", "eel"], n),
            "age": rng.uniform(0, 6, n),
            "idle": rng.normal(size=n),
        }
    )
    scale = frame.species.map({"cat": 1.0, "dog": 0.9, "eel": -0.6}).to_numpy()
    y = scale * np.sin(frame.age.to_numpy()) + 0.1 * rng.normal(size=n)
    return frame, y


KERNEL = k.SE().on("age") * k.Categorical(["cat", "dog", "eel"]).on("species")


def test_mixed_table_is_the_product_of_matrices(animals):
    frame, _ = animals
    K = KERNEL(frame)
    names = frame.species.tolist()
    expected = k.SE()(frame[["age"]]) * np.where(same(names, names), 1.0, 0.5)
    np.testing.assert_allclose(K, expected, rtol=1e-13)
    np.testing.assert_array_equal(KERNEL(pl.from_pandas(frame)), K)
    np.testing.assert_array_equal(KERNEL({c: frame[c].to_numpy() for c in frame}), K)
    np.testing.assert_array_equal(KERNEL(frame.astype({"species": "category"})), K)


def test_mixed_table_through_condition(animals):
    """The posterior against the algebra written out; columns in another order; a species never seen."""
    frame, y = animals
    post = mc.GP(KERNEL).condition(frame, y, noise_variance=0.04)
    new = pd.DataFrame({"age": [1.0, 2.5, 2.5], "idle": 0.0, "species": ["dog", "eel", "yak"]})
    K, cross = KERNEL(frame), KERNEL(new[frame.columns], frame)
    expected = cross @ np.linalg.solve(K + 0.04 * np.eye(len(y)), y)
    np.testing.assert_allclose(post.mean(new), expected, rtol=1e-9, atol=1e-12)
    assert post.mean(new)[2] == 0.0 and post.variance(new, latent=True)[2] == pytest.approx(1.0)


def test_mixed_table_through_fit(animals):
    """Learned by the evidence: dogs are like cats and eels are not, which a full covariance finds."""
    frame, y = animals
    common = mc.fit(mc.Model(mc.GP(KERNEL)), frame, y)
    loadings = np.array([[1.0], [0.5], [0.1]])
    full = k.CategoricalCovariance(["cat", "dog", "eel"], loadings, 0.1).on("species") * k.SE(
        variance=fixed(1.0)
    ).on("age")
    found = mc.fit(mc.Model(mc.GP(full)), frame, y)
    assert found.posterior.log_evidence > common.posterior.log_evidence + 3
    S = np.asarray(found.model.gp.kernel.factors[0].kernel.covariance())
    correlation = S / np.sqrt(np.outer(np.diag(S), np.diag(S)))
    assert correlation[0, 1] > 0.9 and correlation[0, 2] < -0.9


def test_mixed_table_through_the_regressor(animals, tmp_path):
    """scikit-learn's numeric checks are left out for kernels that read objects; save and load;
    the formula as the kernel.
    """
    frame, y = animals
    model = mc.GPRegressor(kernel=KERNEL + 0.1).fit(frame, y)
    mean, std = model.predict(frame, return_std=True)
    assert np.sqrt(np.mean((mean - y) ** 2)) < 0.12 and (std > 0).all()
    new = pd.DataFrame({"species": ["yak", "cat"], "age": [3.0, 3.0], "idle": [0.0, 0.0]})
    _, std = model.predict(new, return_std=True)
    assert std[0] > 3 * std[1], "nothing is known of a yak"
    model.save(tmp_path / "animals.mercer")
    np.testing.assert_array_equal(mc.load(tmp_path / "animals.mercer").predict(new), model.predict(new))
    text = mc.GPRegressor(
        kernel="SE(age, l=1) * Categorical(species, levels=['cat', 'dog', 'eel']) + 0.1"
    ).fit(frame, y)
    np.testing.assert_allclose(text.predict(new), model.predict(new), rtol=1e-6, atol=1e-8)
    assert "Categorical(species, levels=['cat', 'dog', 'eel']" in model.summary()


def test_additive_of_mixed_columns(animals):
    """ANOVA with a categorical column among the others."""
    frame, _ = animals
    kernel = k.Additive([k.Categorical(correlation=0.2), k.SE(0.7), k.Linear()], order=2).on(
        "species", "age", "idle"
    )
    names = frame.species.tolist()
    z = [np.where(same(names, names), 1.0, 0.2), k.SE(0.7)(frame[["age"]]), k.Linear()(frame[["idle"]])]
    expected = sum(z) + z[0] * z[1] + z[0] * z[2] + z[1] * z[2]
    np.testing.assert_allclose(kernel(frame), expected, rtol=1e-12, atol=1e-14)


def test_learning_starts_from_the_data(animals):
    """Data-driven starts of a mixed kernel: the length-scale from its own column,
    on the objects as they are.
    """
    frame, _ = animals
    start = KERNEL.bind(3, tuple(frame.columns)).suggest(frame.to_numpy(object), 2.0)
    values = {p.name: float(p.value) for p in parameters(start)}
    assert values["factors.0.kernel.lengthscale"] == pytest.approx(np.std(frame.age))
    assert values["factors.0.kernel.variance"] == 2.0 and values["factors.1.kernel.variance"] == 1.0


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: k.Categorical(correlation=1.2),
            ParameterError,
            r"Categorical\.correlation must be between 0 and 1",
        ),
        (lambda: k.Categorical(["a", "b", "a"]), ParameterError, r"Categorical\.levels has a label twice"),
        (lambda: k.Categorical([1, 1.0]), ParameterError, r"Categorical\.levels has a label twice"),
        (
            lambda: k.Categorical("cat"),
            ParameterError,
            r"Categorical\.levels must be a list of labels, got the text 'cat'",
        ),
        (
            lambda: k.CategoricalCovariance([], np.zeros((0, 1))),
            ParameterError,
            r"CategoricalCovariance\.levels must name the levels",
        ),
        (
            lambda: k.CategoricalCovariance(["a", "b"], [[1.0]]),
            ParameterError,
            r"CategoricalCovariance\.loadings must be \(2, k\)",
        ),
        (
            lambda: k.CategoricalCovariance(["a"], [[1.0]], [0.1, 0.2]),
            ParameterError,
            r"CategoricalCovariance\.variances must be one",
        ),
        (
            lambda: k.CategoricalCovariance(["a"], [[1.0]], -0.1),
            ParameterError,
            r"CategoricalCovariance\.variances must be positive",
        ),
        (
            lambda: k.Categorical()(np.zeros((3, 2))),
            ParameterError,
            r"Categorical reads one column of categories; there are 2",
        ),
        (
            lambda: k.Categorical()(column(["a", None])),
            InputError,
            r"a category is missing in row 1 \(None\)",
        ),
        (lambda: k.Categorical()(column(["a", float("nan")])), InputError, r"a category is missing in row 1"),
        (lambda: k.SE()(column(["a", "b"])), InputError, r"not numeric"),
        (lambda: (k.SE() + k.Categorical())(column(["a", "b"])), InputError, r"not numeric \(found 'a'\)"),
        (
            lambda: k.PosteriorKernel(k.Categorical(), [[1.0]]),
            ParameterError,
            r"PosteriorKernel\.kernel must read numbers",
        ),
        (lambda: k.Blurred(k.Categorical()), ParameterError, r"Blurred\.kernel must read numbers"),
    ],
)
def test_bad_parameters(make, error, message):
    with pytest.raises(error, match=message):
        make()
