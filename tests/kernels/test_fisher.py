"""Fisher and TOP kernels: scores against differences of the likelihood, information, invariance,
and use in GPs.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer.em import (
    HMM,
    CategoricalEmission,
    ExponentialComponent,
    GaussianEmission,
    GaussianMixture,
    GaussianMixtureEmission,
    Gaussians,
    MarkovChain,
    Mixture,
    NormalComponent,
    PoissonComponent,
)
from mercer.inputs import InputError
from mercer.params import ParameterError

pytestmark = pytest.mark.slow  # chains and compilations of its own

INITIAL, TRANSITION = [0.6, 0.4], [[0.7, 0.3], [0.4, 0.6]]
SYMBOLS = HMM(INITIAL, TRANSITION, CategoricalEmission([[0.5, 0.4, 0.1], [0.1, 0.3, 0.6]]))
COVARIANCES = {
    "full": [[[1.0, 0.3], [0.3, 0.5]], [[0.4, -0.1], [-0.1, 0.8]]],
    "diagonal": [[1.0, 0.5], [0.4, 0.8]],
    "spherical": [1.0, 0.4],
    "tied": [[0.9, 0.2], [0.2, 0.6]],
}
MEANS = [[0.0, 1.0], [-1.0, 0.5]]


def gaussians(kind="full"):
    return Gaussians(MEANS, COVARIANCES[kind], kind)


def vectors(kind="full"):
    return HMM(INITIAL, TRANSITION, GaussianEmission(gaussians(kind)))


def in_mixtures():
    four = Gaussians(np.vstack([MEANS, np.add(MEANS, 1.5)]), COVARIANCES["full"] * 2)
    return HMM(INITIAL, TRANSITION, GaussianMixtureEmission([[0.3, 0.7], [0.6, 0.4]], four))


def sequences(rng, lengths=(1, 4, 9), missing=False):
    out = [rng.normal(size=(T, 2)) for T in lengths]
    if missing:
        out[1][1, 0] = out[2][3] = np.nan
    return out


# ------------------------------------------------------------------------------------------------- scores


def moved_table(table, index, h):
    """Probabilities with one logit moved by h."""
    table = np.array(table, float)
    table[index] *= np.exp(h)
    return table / table.sum(-1, keepdims=True)


def moved_gaussians(g, group, index, h):
    """One coordinate moved by h: means by standard deviations, roots of covariances by relative amounts."""
    d = g.dimension
    if group == "means":
        roots = np.linalg.cholesky(g.matrices())
        means = g.means.copy()
        means[index[0]] += h * roots[index[0]][:, index[1]]
        return dataclasses.replace(g, means=means)
    E = np.zeros((g.count, d, d))
    i, j = np.tril_indices(d)
    if g.covariance_type == "full":
        E[index[0], i[index[1]], j[index[1]]] = h
    elif g.covariance_type == "tied":
        E[:, i[index[0]], j[index[0]]] = h
    elif g.covariance_type == "diagonal":
        E[index[0], index[1], index[1]] = h
    else:
        E[index[0]] = h * np.eye(d)
    L = np.linalg.cholesky(g.matrices()) @ (np.eye(d) + E)
    S = L @ np.swapaxes(L, 1, 2)
    covariances = {
        "full": S,
        "tied": S[0],
        "diagonal": np.diagonal(S, axis1=1, axis2=2),
        "spherical": S[:, 0, 0],
    }
    return dataclasses.replace(g, covariances=covariances[g.covariance_type])


def moved(model, group, index, h):
    if group in ("initial", "transition"):
        return dataclasses.replace(model, **{group: moved_table(getattr(model, group), index, h)})
    emission = model.emission
    if group == "emission":
        return dataclasses.replace(
            model, emission=CategoricalEmission(moved_table(emission.probabilities, index, h))
        )
    if group == "weights":
        return dataclasses.replace(
            model, emission=dataclasses.replace(emission, weights=moved_table(emission.weights, index, h))
        )
    return dataclasses.replace(
        model,
        emission=dataclasses.replace(
            emission, gaussians=moved_gaussians(emission.gaussians, group, index, h)
        ),
    )


def shapes(model):
    e = model.emission
    out = {"initial": (2,), "transition": (2, 2)}
    if isinstance(e, CategoricalEmission):
        return out | {"emission": e.probabilities.shape}
    if isinstance(e, GaussianMixtureEmission):
        out["weights"] = e.weights.shape
    n, d = e.gaussians.means.shape
    size = {"full": (n, 3), "tied": (3,), "diagonal": (n, d), "spherical": (n,)}[e.gaussians.covariance_type]
    return out | {"means": (n, d), "covariances": size}


MODELS = {
    "symbols": (SYMBOLS, False),
    **{kind: (vectors(kind), False) for kind in COVARIANCES},
    "full, with gaps": (vectors("full"), True),
    "diagonal, with gaps": (vectors("diagonal"), True),
    "mixtures": (in_mixtures(), False),
}


@pytest.mark.representative("symbols", "full, with gaps")
@pytest.mark.representative("symbols", "diagonal", "full, with gaps")
@pytest.mark.parametrize("name", MODELS)
def test_scores_are_derivatives_of_the_log_likelihood(name):
    model, missing = MODELS[name]
    data = (
        [[0], [0, 2, 1, 1], [2, -1, 2, 0, 1, 1, 0]]
        if name == "symbols"
        else sequences(np.random.default_rng(0), missing=missing)
    )
    h, columns = 1e-5, []
    for group, shape in shapes(model).items():
        for index in np.ndindex(*shape):
            up, down = (moved(model, group, index, s * h).log_likelihood(data) for s in (1, -1))
            columns.append((up - down) / (2 * h))
    np.testing.assert_allclose(model.scores(data), np.stack(columns, 1), rtol=0, atol=2e-8)


def test_scores_by_some_parameters_are_columns_of_all():
    model, rng = in_mixtures(), np.random.default_rng(1)
    data = sequences(rng)
    parts = [model.scores(data, g) for g in ("initial", "transition", "weights", "means", "covariances")]
    np.testing.assert_array_equal(np.hstack(parts), model.scores(data))
    np.testing.assert_array_equal(model.scores(data, ["means", "initial"]), np.hstack([parts[0], parts[3]]))
    with pytest.raises(ValueError, match=r"parameters must be some of .*'means'.*, got 'emission'"):
        model.scores(data, "emission")


@pytest.mark.slow
def test_scores_do_not_depend_on_company():
    """Padding, order and batches change nothing."""
    data = sequences(np.random.default_rng(2), (3, 40, 1, 17, 2))
    together = vectors().scores(data)
    np.testing.assert_allclose(
        together, np.vstack([vectors().scores([s]) for s in data]), rtol=1e-12, atol=1e-12
    )


def test_expected_counts_give_the_scores_of_a_chain():
    """By Fisher's identity: expected transitions less what is expected of them (the forward-backward
    score).
    """
    data = [[0, 1, 2, 2, 0, 1]]
    found = SYMBOLS.expect(data)
    by_hand = found.transitions - found.transitions.sum(1, keepdims=True) * SYMBOLS.transition
    np.testing.assert_allclose(SYMBOLS.scores(data, "transition")[0], by_hand.ravel(), rtol=0, atol=1e-14)


def test_structure_has_no_score():
    """Probabilities of zero and one stay, and are not coordinates."""
    model = HMM([1.0, 0.0], [[0.5, 0.5], [0.0, 1.0]], CategoricalEmission([[0.5, 0.5, 0.0], [0.1, 0.3, 0.6]]))
    assert model.scores([[0, 1, 1]]).shape == (1, 2 + 5)
    with pytest.raises(ValueError, match=r"sequence 1 has probability zero under the model"):
        model.scores([[0, 1], [2, 1]])


@pytest.mark.parametrize("order", [0, 1, 2])
def test_markov_chain_scores_are_those_of_the_text(order):
    """∂ log p/∂θ_{t,s} = n_{t,s}/θ(t | s) − n_s (exercise 4.5.12), where rows are normalised."""
    chain = MarkovChain.of([[0, 1, 2, 1], [2, 2, 0]], 3, order)
    data = [[0, 1, 1, 2, 0, 1, 1], [2, 1, 0, 0]]

    def log_p(theta, first, counts):
        return jnp.sum(counts * jnp.log(theta / theta.sum(1, keepdims=True)))

    _, counts = chain.counts(data)
    autodiff = jax.vmap(jax.grad(log_p), (None, 0, 0))(chain.transition, counts, counts)
    by_text = chain.scores(data, "transition", "probabilities")
    np.testing.assert_allclose(by_text, autodiff.reshape(2, -1), rtol=0, atol=1e-12)
    np.testing.assert_allclose(
        by_text, (counts / chain.transition - counts.sum(2, keepdims=True)).reshape(2, -1), rtol=0, atol=1e-13
    )
    np.testing.assert_allclose(
        chain.scores(data, "transition"), by_text * chain.transition.ravel(), rtol=0, atol=1e-13
    )


def test_a_chain_is_a_hidden_markov_model_that_hides_nothing():
    chain = MarkovChain([0.2, 0.5, 0.3], [[0.1, 0.6, 0.3], [0.5, 0.25, 0.25], [0.3, 0.3, 0.4]])
    hmm = HMM(chain.initial, chain.transition, CategoricalEmission(np.eye(3)))
    data = [[0, 1, 2, 2, 1], [2]]
    np.testing.assert_allclose(hmm.scores(data), chain.scores(data), rtol=0, atol=1e-13)
    np.testing.assert_allclose(hmm.log_likelihood(data), chain.log_likelihood(data), rtol=1e-13)
    np.testing.assert_allclose(hmm.information(4), chain.information(4), rtol=0, atol=1e-13)
    by_text = [m.scores(data, ("initial", "transition"), "probabilities") for m in (hmm, chain)]
    np.testing.assert_allclose(*by_text, rtol=0, atol=1e-12)


def test_a_mixture_is_a_hidden_markov_model_of_one_step():
    mixture, rows = GaussianMixture(INITIAL, gaussians()), np.random.default_rng(3).normal(size=(5, 2))
    one = vectors().scores(rows[:, None], ("initial", "means", "covariances"))
    np.testing.assert_allclose(mixture.scores(rows), one, rtol=0, atol=1e-13)
    general = Mixture(
        INITIAL, [NormalComponent(m, c) for m, c in zip(MEANS, COVARIANCES["full"], strict=True)]
    ).scores(rows)
    order = [0, 1, 2, 3, 6, 7, 8, 4, 5, 9, 10, 11]  # weights; mean and covariance of each component in turn
    np.testing.assert_allclose(general, mixture.scores(rows)[:, order], rtol=0, atol=1e-13)


def test_scores_of_other_families():
    x, h = np.array([0.0, 1.0, 4.0]), 1e-6
    for family in (PoissonComponent, ExponentialComponent):
        model = Mixture([0.3, 0.7], [family(1.5), family(4.0)])
        up, down = (
            Mixture([0.3, 0.7], [family(1.5 * np.exp(s * h)), family(4.0)]).log_prob(x) for s in (1, -1)
        )
        np.testing.assert_allclose(model.scores(x)[:, 2], (up - down) / (2 * h), rtol=0, atol=1e-8)

    class Plain(PoissonComponent):
        scores = property()

    with pytest.raises(TypeError, match=r"Plain has no scores: give it a method scores"):
        Mixture([1.0], [Plain(1.0)]).scores(x)


# -------------------------------------------------------------------------------------------------
# information


@pytest.mark.slow
def test_scores_have_no_mean_under_the_model_and_the_exact_information_is_their_covariance():
    rng, n = np.random.default_rng(4), 20_000
    mixture = GaussianMixture([0.3, 0.7], Gaussians([[0.0], [1.5]], [[[1.0]], [[0.3]]]))
    chain = MarkovChain([0.3, 0.7], [[0.8, 0.2], [0.4, 0.6]])
    cases = [
        (mixture, mixture.sample(n, rng)[0], mixture.information()),
        (chain, [chain.sample(6, rng) for _ in range(n // 4)], chain.information(6)),
    ]
    for model, data, exact in cases:
        phi = model.scores(data)
        error = phi.std(0) / np.sqrt(len(phi))
        assert (np.abs(phi.mean(0)) < 4 * error).all()
        squares = phi[:, :, None] * phi[:, None, :]
        assert (np.abs(squares.mean(0) - exact) <= 5 * squares.std(0) / np.sqrt(len(phi)) + 1e-12).all()


def test_a_sum_over_all_sequences():
    """E[φ] = 0 and the information, exactly: every sequence of three symbols and length three."""
    every = np.array(list(np.ndindex(3, 3, 3)))
    p = np.exp(SYMBOLS.log_likelihood(list(every)))
    phi = SYMBOLS.scores(list(every))
    assert p.sum() == pytest.approx(1.0, abs=1e-14)
    np.testing.assert_allclose(p @ phi, 0.0, atol=1e-14)
    np.testing.assert_allclose(SYMBOLS.information(3), phi.T @ (p[:, None] * phi), rtol=0, atol=1e-14)
    with pytest.raises(
        ValueError, match=r"exact information of a hidden Markov model.*'empirical' with data="
    ):
        SYMBOLS.information(40)
    with pytest.raises(ValueError, match=r"exact information of a hidden Markov model"):
        vectors().information(2)


def test_information_of_one_gaussian_in_closed_form():
    one = GaussianMixture([1.0], Gaussians([[1.0, 2.0, 3.0]], [np.diag([1.0, 2.0, 3.0]) + 0.5]))
    size = np.array([2.0, 1.0, 2.0, 1.0, 1.0, 2.0])  # 2 for the diagonal of the root, 1 below it
    np.testing.assert_allclose(one.information(), np.diag([1.0, 1.0, 1.0, *size]), rtol=0, atol=1e-12)
    several = GaussianMixture([0.5, 0.5], Gaussians(np.zeros((2, 3)), [np.eye(3), 2 * np.eye(3)]))
    with pytest.raises(ValueError, match=r"by quadrature in at most 2 dimensions, and there are 3"):
        several.information()


def test_the_quadrature_has_converged(monkeypatch):
    mixture = GaussianMixture([0.3, 0.7], Gaussians([[0.0, 0.0], [2.0, 1.0]], [np.eye(2), 0.5 * np.eye(2)]))
    found = mixture.information()
    monkeypatch.setattr("mercer.em.mixture.NODES", {2: 140})
    np.testing.assert_allclose(found, mixture.information(), rtol=0, atol=1e-7)


def test_gaussian_fisher_kernel_is_linear():
    """N(μ, σ²I) at μ = 0, scores by the mean: x·x'/σ² (exercise 4.5.11)."""
    X = np.random.default_rng(5).normal(size=(6, 3))
    model = GaussianMixture([1.0], Gaussians(np.zeros((1, 3)), [2.5], "spherical"))
    for information in ("identity", "exact"):
        kernel = k.Fisher(model, information=information, parameters="means")
        np.testing.assert_allclose(kernel(X), X @ X.T / 2.5, rtol=1e-13)


def test_exact_information_makes_coordinates_irrelevant():
    """φ'M⁻¹φ is the same by logits, by the text's probabilities and in any other coordinates,
    redundant ones too.
    """
    chain = MarkovChain.of([[0, 1, 2, 1, 0], [2, 2, 0]], 3)
    data, rng = [[0, 1, 1, 2], [2, 1, 0, 0], [1, 1, 1, 1]], np.random.default_rng(6)
    turn = rng.normal(size=(12, 15))

    class Other:
        def __init__(self, jacobian):
            self.jacobian = jacobian

        def scores(self, sequences):
            return chain.scores(sequences) @ self.jacobian

        def information(self, length):
            return self.jacobian.T @ chain.information(length) @ self.jacobian

    here = k.Fisher(chain, information="exact", length=4)(data)
    for jacobian in (np.diag(1 / np.concatenate([chain.initial, chain.transition.ravel()])), turn):
        np.testing.assert_allclose(
            k.Fisher(Other(jacobian), information="exact", length=4)(data), here, rtol=1e-9, atol=1e-9
        )
    plain = k.Fisher(Other(turn))(data)
    assert np.abs(plain - here).max() > 0.1


def test_empirical_information_comes_from_the_data():
    rng, model = np.random.default_rng(7), vectors("tied")
    data = sequences(rng, rng.integers(2, 9, 60))
    phi = model.scores(data)
    kernel = k.Fisher(model, data=data)
    assert kernel.information == "empirical"
    expected = phi @ np.linalg.pinv(phi.T @ phi / len(phi), rcond=1e-10, hermitian=True) @ phi.T
    np.testing.assert_allclose(kernel(data), expected, rtol=0, atol=1e-9)
    diagonal = k.Fisher(model, information="diagonal", data=data)
    np.testing.assert_allclose(diagonal(data), (phi / np.mean(phi**2, 0)) @ phi.T, rtol=0, atol=1e-11)
    with pytest.raises(ParameterError, match=r"6 data for 13 scores.*information='diagonal'"):
        k.Fisher(model, data=data[:6])
    with pytest.raises(ParameterError, match=r"information='empirical' is that of some data: give data="):
        k.Fisher(model, information="empirical")


# ------------------------------------------------------------------------------------------------- the
# kernels


def test_any_kernel_compares_the_scores():
    data = sequences(np.random.default_rng(8), (5, 2, 7, 3))
    phi = vectors().scores(data)
    squared = ((phi[:, None] - phi[None]) ** 2).sum(2)
    np.testing.assert_allclose(
        k.Fisher(vectors(), of=k.SE(2.0, 1.5))(data), 1.5 * np.exp(-squared / 8), rtol=1e-9
    )
    gram = k.Fisher(vectors())(data)
    np.testing.assert_allclose(gram, phi @ phi.T, rtol=1e-12)
    assert np.linalg.eigvalsh(gram)[0] > -1e-10 * np.linalg.eigvalsh(gram)[-1]
    np.testing.assert_allclose(np.diag(k.Fisher(vectors()).normalised()(data)), 1.0, rtol=1e-12)
    both = 2.0 * k.Fisher(vectors()) + k.Constant(0.5)
    np.testing.assert_allclose(both(data, data[:2]), 2.0 * gram[:, :2] + 0.5, rtol=1e-12)


def test_top_features_are_derivatives_of_the_log_odds():
    plus, minus = MarkovChain.of(["aab", "abab"], alphabet="ab"), MarkovChain.of(["bbb", "ba"], alphabet="ab")
    data = ["abba", "bb", "aaa"]
    h, columns = 1e-6, []
    odds = lambda p, m: p.log_likelihood(data) - m.log_likelihood(data)  # noqa: E731
    for which in (0, 1):
        for group in ("initial", "transition"):
            for index in np.ndindex(*getattr(plus, group).shape):
                ends = []
                for s in (1, -1):
                    pair = [plus, minus]
                    pair[which] = dataclasses.replace(
                        pair[which], **{group: moved_table(getattr(pair[which], group), index, s * h)}
                    )
                    ends.append(odds(*pair))
                columns.append((ends[0] - ends[1]) / (2 * h))
    features = np.stack(columns, 1)
    np.testing.assert_allclose(k.TOP(plus, minus).scores(data), features, rtol=0, atol=1e-8)
    first = odds(plus, minus)
    gram = k.TOP(plus, minus, log_odds=True)(data)
    np.testing.assert_allclose(gram, features @ features.T + np.outer(first, first), rtol=0, atol=1e-7)
    with pytest.raises(ParameterError, match="log-odds have no exact one"):
        k.TOP(plus, minus, information="exact")


def test_top_on_rows_of_a_table():
    X = np.random.default_rng(9).normal(size=(4, 2))
    plus, minus = (
        GaussianMixture(INITIAL, gaussians()),
        GaussianMixture([1.0], Gaussians(np.zeros((1, 2)), [np.eye(2)])),
    )
    phi = np.hstack([(plus.log_prob(X) - minus.log_prob(X))[:, None], plus.scores(X), -minus.scores(X)])
    np.testing.assert_allclose(k.TOP(plus, minus, log_odds=True)(X), phi @ phi.T, rtol=1e-11)


def test_what_a_kernel_refuses():
    chain = MarkovChain.of(["acgt"], alphabet="acgt")
    with pytest.raises(InputError, match=r"unknown symbol 'x' at position 1 of 'axg'"):
        k.Fisher(chain)(["acg", "axg"])
    with pytest.raises(InputError, match="row 1 is an empty sequence"):
        k.Fisher(chain)(["acg", ""])
    with pytest.raises(InputError, match=r"row 0 is text: say which symbols the model knows"):
        k.Fisher(SYMBOLS)(["acg"])
    with pytest.raises(
        ValueError, match=r"sequence 1 has the symbol 3, but the model knows the symbols 0 to 2"
    ):
        k.Fisher(SYMBOLS)([[0, 1], [0, 3, 1]])
    with pytest.raises(ValueError, match=r"sequence 0 misses a symbol at place 1"):
        chain.scores([[0, -1, 2]])
    with pytest.raises(ValueError, match=r"sequence 0 must have the shape \(T, 2\)"):
        k.Fisher(vectors())([np.zeros((3, 4)), np.zeros((2, 4))])
    with pytest.raises(ValueError, match="X contains NaN"):
        k.Fisher(GaussianMixture(INITIAL, gaussians()))([[np.nan, 1.0]])
    with pytest.raises(ParameterError, match=r"GaussianMixture: fit it first"):
        k.Fisher(mc.GaussianMixture(2))
    with pytest.raises(ParameterError, match=r"int: its method scores\(data\)"):
        k.Fisher(3)
    with pytest.raises(ParameterError, match=r"information must be one of"):
        k.Fisher(chain, information="fisher")
    with pytest.raises(ParameterError, match=r"Fisher.of must be a kernel"):
        k.Fisher(chain, of=2.0)


# ------------------------------------------------------------------------------------------------- in GPs


class Counting:
    """A model that counts how often it was asked."""

    def __init__(self, model):
        self.model, self.asked = model, 0

    def scores(self, sequences):
        self.asked += 1
        return self.model.scores(sequences)


def test_learning_scores_a_set_of_sequences_once_for_each_climb():
    """Not for each evaluation: for starting values, all climbs, and the posterior."""
    model = Counting(vectors())
    data = sequences(np.random.default_rng(10), (5, 2, 7, 3, 4, 6))
    found = mc.fit(mc.Model(mc.GP(k.Fisher(model)), mc.likelihoods.Gaussian(0.1)), data, np.arange(6.0))
    assert len(found.history) > 5 and model.asked <= 3


def two_kinds(rng, n):
    """Sequences of symbols that stay or change: labels 0 and 1."""
    chains = [MarkovChain([0.5, 0.5], [[1 - p, p], [p, 1 - p]]) for p in (0.2, 0.8)]
    labels = np.arange(n) % 2
    return [
        chains[c].sample(int(T), rng) for c, T in zip(labels, rng.integers(8, 20, n), strict=True)
    ], labels


@pytest.mark.slow
def test_classification_and_regression_of_sequences():
    rng = np.random.default_rng(11)
    train, labels = two_kinds(rng, 30)
    test, truth = two_kinds(rng, 20)
    hmm = mc.HMM(
        2, "categorical", restarts=0, max_evaluations=5, tol=0.0, pseudo_count=0.5, random_state=0
    ).fit(train)
    clf = mc.GPClassifier(kernel=k.Fisher(hmm)).fit(train[:2], labels[:2])
    assert clf.predict_proba(train).shape == (30, 2)
    chain = MarkovChain.of(train, 2)
    clf = mc.GPClassifier(kernel=k.Fisher(chain)).fit(train, labels)
    assert clf.score(test, truth) >= 0.9
    switches = np.array([np.mean(np.diff(s) != 0) for s in train])
    reg = mc.GPRegressor(kernel=k.Fisher(chain, of=k.SE(3.0))).fit(train, switches)
    assert np.corrcoef(reg.predict(test), [np.mean(np.diff(s) != 0) for s in test])[0, 1] > 0.9
    posterior = mc.GP(k.Fisher(chain)).condition(train, switches, noise_variance=0.1)
    K = k.Fisher(chain)(train)
    np.testing.assert_allclose(
        posterior.mean(train), K @ np.linalg.solve(K + 0.1 * np.eye(30), switches), rtol=1e-9, atol=1e-10
    )


def test_new_models_do_not_compile_new_code():
    """The compiled parts of a GP never read the model,
    so that a leave-one-out with a new model each time is quick.
    """
    from mercer.linalg import tiles

    rng = np.random.default_rng(12)
    data, _ = two_kinds(rng, 6)
    for part in (data[:4], data[2:]):
        mc.GP(k.Fisher(MarkovChain.of(part, 2))).condition(data, np.arange(6.0), noise_variance=0.1)
        seen = tiles.compiled.cache_info().misses
    mc.GP(k.Fisher(MarkovChain.of(data, 2))).condition(data, np.arange(6.0), noise_variance=0.1)
    assert tiles.compiled.cache_info().misses == seen
