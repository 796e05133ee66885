"""Every kind of posterior against the same list of properties."""

import dataclasses
import warnings

import numpy as np
import pytest
from scipy.interpolate import CubicSpline

import mercer as mc
from mercer import kernels as k
from mercer import likelihoods as lk
from mercer import solvers
from mercer.inference import Enumeration
from mercer.posteriors import (
    QUESTIONS,
    AveragedPosterior,
    EvidenceBounds,
    EvidenceTerms,
    GivenHyperparameters,
    GivenLatents,
    LeaveOneOut,
    PosteriorError,
    draws,
)
from tests.posteriors.conformance import (
    CASES,
    GAUSSIAN,
    MIXED,
    MODELS,
    NOISE,
    PRIOR,
    XS,
    N,
    X,
    Y,
    drawn,
    latents,
    observations,
    posterior,
    scales,
)

CONTINUOUS = [name for name, case in CASES.items() if case.continuous]
CLASSES = [name for name, case in CASES.items() if case.classes]
EXACT = dict(rtol=1e-10, atol=1e-12)
REMEDIES = ("use", "ask", "take", "look", "save", "condition", "offered by", "have theirs")


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("m", (0, 1, 3))
def test_shapes(name, m):
    case, post, Xs = CASES[name], posterior(name), XS[:m]
    L, of_y = case.latents, (m, case.classes) if case.latents > 1 else (m,)
    mean, variance = post.latent_moments(Xs)
    assert mean.shape == ((m, L) if L > 1 else (m,)) and variance.shape == ((m, L, L) if L > 1 else (m,))
    only_mean, nothing = post.latent_moments(Xs, variance=False)
    assert only_mean.shape == mean.shape and nothing is None
    assert post.mean(Xs).shape == post.variance(Xs).shape == post.std(Xs).shape == of_y
    assert post.log_density(Xs, observations(name, m)).shape == (m,)
    if post.can("quantile") and L == 1:
        assert post.quantile(Xs, 0.3).shape == (m,) and post.quantile(Xs, [0.1, 0.3]).shape == (m, 2)
    if case.classes:
        assert post.probability(Xs).shape == ((m, case.classes) if case.classes > 2 else (m,))
        assert post.class_probabilities(Xs).shape == (m, case.classes)
    if post.can("covariance"):
        assert post.covariance(Xs, latent=True).shape == (m, m)
    if post.can("sample"):
        of_f = (m, L) if L > 1 and m else (m,)
        assert post.sample(Xs, 2, seed=0).shape == (2, m)
        assert post.sample(Xs, 2, seed=0, latent=True).shape == (2, *of_f)
    if post.can("components"):
        assert [(c.mean.shape, c.std.shape) for c in post.components(Xs)] == [((m,), (m,))] * len(
            post.components(Xs)
        )
    if post.can("smoother"):
        assert post.smoother(Xs).shape == (m, N)


@pytest.mark.parametrize("name", CASES)
def test_mean_variance_and_standard_deviation_agree(name):
    post = posterior(name)
    for latent in (False, True):
        mean, std = post.mean_and_std(XS, latent)
        variance = post.variance(XS, latent)
        np.testing.assert_allclose(mean, post.mean(XS, latent), **EXACT)
        np.testing.assert_array_equal(std, post.std(XS, latent))
        inside = np.einsum("mll->ml", variance) if latent and variance.ndim == 3 else variance
        np.testing.assert_allclose(std**2, inside, **EXACT)
    np.testing.assert_array_equal(post.latent_moments(XS)[0], post.mean(XS, latent=True))
    if post.model.likelihood.mean_is_latent:
        assert np.all(post.std(XS) > post.std(XS, latent=True))


@pytest.mark.parametrize("name", CASES)
def test_one_test_input_at_a_time_is_all_at_once(name):
    post = posterior(name)
    for ask in (post.mean, post.std, lambda at: post.std(at, latent=True)):
        np.testing.assert_allclose(np.concatenate([ask(XS[[i]]) for i in range(3)]), ask(XS), rtol=1e-9)


# ------------------------------------------------------------------------------------------ distributions


@pytest.mark.representative("EP", "averaged", "draws of f")
@pytest.mark.parametrize("name", CONTINUOUS)
def test_density_has_mass_one_and_the_moments_and_quantiles_it_is_said_to_have(name):
    """By the trapezoidal rule, which is exact to many digits for smooth densities that vanish at the ends."""
    post, where = posterior(name), XS[[1]]
    (mean,), (std,) = post.mean_and_std(where)
    grid = np.linspace(mean - 16 * std, mean + 16 * std, 3001)
    p = np.exp(post.log_density(np.repeat(where, grid.size, 0), grid))
    step = grid[1] - grid[0]
    assert p.sum() * step == pytest.approx(1.0, abs=1e-9)
    assert p @ grid * step == pytest.approx(mean, abs=1e-8)
    assert p @ (grid - mean) ** 2 * step == pytest.approx(std**2, rel=1e-7)
    levels = np.array([0.02, 0.3, 0.5, 0.9])
    found = post.quantile(where, levels)[0]
    assert np.all(np.diff(found) > 0) and found[1] == pytest.approx(post.quantile(where, 0.3)[0])
    below = CubicSpline(grid, p).antiderivative()(found)
    np.testing.assert_allclose(below, levels, atol=CASES[name].inexact)


@pytest.mark.parametrize("name", CLASSES)
def test_probabilities_are_those_of_the_labels(name):
    post, C = posterior(name), CASES[name].classes
    p = post.class_probabilities(XS)
    np.testing.assert_allclose(p.sum(1), 1.0, atol=1e-5 if C > 2 else 1e-12)
    np.testing.assert_allclose(post.probability(XS), p if C > 2 else p[:, 1], **EXACT)
    np.testing.assert_allclose(post.mean(XS), p if C > 2 else p[:, 1], **EXACT)
    for label in range(C):
        given = np.full(3, 2.0 * label - 1.0 if C == 2 else float(label))
        np.testing.assert_allclose(np.exp(post.log_density(XS, given)), p[:, label], rtol=1e-9)
    at_mean = post.class_probabilities(XS, how="map")
    assert at_mean.shape == p.shape and not np.allclose(at_mean, p)
    if C == 2 and post.can("quantile"):
        assert np.all(np.isin(post.quantile(XS, [0.05, 0.95]), (0.0, 1.0)))


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.latents == 1])
def test_draws_have_the_moments_they_are_said_to_have(name):
    """5 standard errors of 4,000 draws, seeded; classes, which vary less, of 1,000."""
    post, size = posterior(name), 1000 if CASES[name].classes else 4000
    f = post.sample(XS, size, seed=1, latent=True)
    covariance = post.covariance(XS, latent=True)
    np.testing.assert_allclose(np.diag(covariance), post.variance(XS, latent=True), rtol=1e-8)
    np.testing.assert_allclose(covariance, covariance.T, rtol=1e-12, atol=1e-15)
    spread = np.sqrt(np.diag(covariance))
    assert np.all(np.abs(f.mean(0) - post.mean(XS, latent=True)) < 5 * spread / np.sqrt(size))
    error = np.abs(np.cov(f.T) - covariance) / np.outer(spread, spread)
    assert error.max() < 5 * np.sqrt(3.0 / size)  # the fourth moment of a mixture exceeds a Gaussian's
    np.testing.assert_array_equal(f, post.sample(XS, size, seed=1, latent=True))
    y = post.sample(XS, size, seed=2)
    y = (y + 1) / 2 if CASES[name].classes else y  # draws of two classes are +-1
    assert np.all(np.abs(y.mean(0) - post.mean(XS)) < 5 * post.std(XS) / np.sqrt(size))
    assert np.all(np.abs(y.var(0) / post.variance(XS) - 1) < 0.25)


@pytest.mark.parametrize("name", CASES)
def test_noise_at_the_test_inputs_is_for_gaussian_noise(name):
    post, noise = posterior(name), np.array([0.2, 0.5, 1.0])
    if not isinstance(post.model.likelihood, lk.Gaussian):
        with pytest.raises(PosteriorError, match="noise_variance is defined for Gaussian noise"):
            post.std(XS, noise_variance=noise)
        if post.can("covariance"):
            with pytest.raises(PosteriorError, match="latent=True gives that of f"):
                post.covariance(XS)
        return
    np.testing.assert_allclose(
        post.variance(XS, noise_variance=noise), post.variance(XS, latent=True) + noise, rtol=1e-10
    )
    latent = post.covariance(XS, latent=True)
    np.testing.assert_allclose(
        post.covariance(XS, noise_variance=noise), latent + np.diag(noise), rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(np.diag(post.covariance(XS)), post.variance(XS), rtol=1e-9)
    narrow, wide = (post.quantile(XS, 0.9, noise_variance=v) for v in (noise, 4 * noise))
    assert np.all(wide > narrow)
    y = post.quantile(XS, 0.5, noise_variance=noise)
    each = [post.log_density(XS[[i]], y[[i]], noise_variance=noise[i]) for i in range(3)]
    np.testing.assert_allclose(post.log_density(XS, y, noise_variance=noise), np.concatenate(each), rtol=1e-9)


# ----------------------------------------------------------------------- what it can say, and what it cannot


def ask(post, question):
    """The question, asked."""
    with_inputs = ("probability", "covariance", "sample", "quantile", "components", "smoother")
    if question == "log_evidence":
        return post.log_evidence
    if question == "quantile":
        return post.quantile(XS, 0.3)
    if question == "covariance":
        return post.covariance(XS, latent=True)
    if question == "left_out":
        return post.left_out(XS, [0, 0, 4])
    if question == "predict_uncertain":
        return post.predict_uncertain(XS[0], 0.2)
    return getattr(post, question)(XS) if question in with_inputs else getattr(post, question)()


@pytest.mark.parametrize("name", CASES)
def test_what_is_declared_is_what_happens(name):
    post = posterior(name)
    assert post.offers | post.cannot.keys() == QUESTIONS and not post.offers & post.cannot.keys()
    for question, reason in post.cannot.items():
        assert post.why_not(question) == reason and not post.can(question)
        assert any(word in reason for word in REMEDIES) and reason.endswith("."), reason
        if question != "save":
            with pytest.raises(PosteriorError) as error:
                ask(post, question)
            assert str(error.value) == reason
    for question in post.offers - {"save"}:
        assert ask(post, question) is not None


@pytest.mark.parametrize("name", CASES)
def test_answers_about_the_data(name):
    """The same question has the same kind of answer."""
    case, post = CASES[name], posterior(name)
    if post.can("loo"):
        loo = post.loo()
        assert isinstance(loo, LeaveOneOut) and loo.log_density.shape == (N,)
        assert loo.mean.shape == loo.variance.shape == ((N, case.classes) if case.latents > 1 else (N,))
        assert (loo.probability is None) == (case.classes == 0)
        if case.classes:
            assert loo.probability.shape == (N, case.classes)
            observed = np.where(post.y > 0, 1, 0) if case.classes == 2 else post.y.astype(int)
            np.testing.assert_allclose(np.exp(loo.log_density), loo.probability[np.arange(N), observed])
    if post.can("loo_latent"):
        mean, variance = post.loo_latent()
        several = (case.latents,) if case.latents > 1 else ()
        assert mean.shape == (N, *several) and variance.shape == (N, *several, *several)
        if post.model.likelihood.log_concave and not several:
            assert np.all(variance > 0.999 * post.variance(X, latent=True))  # one datum less says less
    if post.can("left_out"):
        for found, expected in zip(post.left_out(X, np.arange(N)), post.loo_latent(), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)
    if post.can("outlier_score"):
        score = post.outlier_score()
        assert score.shape == (N,) and np.all((score >= 0) & (score <= 1))
        if post.model.likelihood is NOISE and not isinstance(post, AveragedPosterior):
            assert np.argmax(score) == 3 or name == "draws of f, mixture noise"
    if post.can("evidence_terms"):
        terms = post.evidence_terms()
        assert isinstance(terms, EvidenceTerms) and terms.total == pytest.approx(post.log_evidence)
        assert "data fit" in str(terms)
    if post.can("evidence_bounds"):
        bounds = post.evidence_bounds()
        assert isinstance(bounds, EvidenceBounds) and bounds.gap == bounds.upper - bounds.lower >= 0
        exact = GAUSSIAN.condition(X, Y).log_evidence
        assert bounds.lower <= exact <= bounds.upper
    if post.can("components"):
        total = sum(c.mean for c in post.components(XS))
        if post.model.gp.basis is None:
            np.testing.assert_allclose(total + 0.1, post.mean(XS, latent=True), rtol=1e-9)
    if post.can("prequential"):
        assert post.prequential().sum() == pytest.approx(post.log_evidence)


@pytest.mark.parametrize("name", CASES)
def test_says_what_it_is(name):
    post = posterior(name)
    assert type(post).__name__ in repr(post) and post.one_posterior() is post
    noted = post.noting("mind the gap")
    assert noted.notes == (*post.notes, "mind the gap") and "note: mind the gap" in noted.summary()
    assert f"data: n = {N}, d = 1" in post.summary() and str(post.model.kernels[0]) in post.summary()
    np.testing.assert_array_equal(noted.mean(XS), post.mean(XS))
    assert isinstance(post.status.converged, bool)
    with pytest.raises(dataclasses.FrozenInstanceError):
        post.notes = ()
    with pytest.raises(ValueError, match="Xs has 2 columns but the model was conditioned on 1"):
        post.mean(np.zeros((3, 2)))
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        post.quantile(XS, [0.5, 1.0])


# ------------------------------------------------------------------------------------------- equivalences


@pytest.mark.parametrize("name", ["gaussian", "gaussian with a basis"])
def test_without_a_datum_is_conditioning_on_the_others(name):
    """Elsewhere than at the data, too."""
    post = posterior(name)
    model = post.model
    for row in (0, 3):
        others = np.delete(np.arange(N), row)
        expected = model.condition(X[others], Y[others]).latent_moments(XS)
        for found, e in zip(post.left_out(XS, [row] * len(XS)), expected, strict=True):
            np.testing.assert_allclose(found, e, rtol=1e-7, atol=1e-9)


def same(a, b, questions=("mean", "variance", "quantile", "density", "covariance", "sample")):
    """Two posteriors of Gaussian or additive noise say the same."""
    for p, q in zip(a.latent_moments(XS), b.latent_moments(XS), strict=True):
        np.testing.assert_allclose(p, q, rtol=1e-8, atol=1e-10)
    pairs = {
        "mean": lambda post: post.mean(XS),
        "variance": lambda post: post.variance(XS),
        "quantile": lambda post: post.quantile(XS, [0.1, 0.8]),
        "density": lambda post: post.log_density(XS, Y[:3]),
        "covariance": lambda post: post.covariance(XS, latent=True),
    }
    for question in questions:
        if question in pairs:
            np.testing.assert_allclose(pairs[question](a), pairs[question](b), rtol=1e-7, atol=1e-9)


def test_an_average_of_one_part_is_the_part():
    part = posterior("gaussian")
    one = AveragedPosterior((part,), np.ones(1), part.log_evidence)
    same(one, part)
    assert one.log_evidence == part.log_evidence and one.model is part.model
    same(AveragedPosterior((part, part), np.array([0.3, 0.7])), part)
    classes = posterior("gaussian of two classes")
    np.testing.assert_allclose(
        AveragedPosterior((classes,), np.ones(1)).class_probabilities(XS), classes.class_probabilities(XS)
    )
    several = posterior("gaussian of three classes")
    for a, b in zip(
        AveragedPosterior((several, several), np.full(2, 0.5)).latent_moments(XS),
        several.latent_moments(XS),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_an_average_has_the_moments_of_a_mixture():
    post = posterior("averaged")
    means, variances = (
        np.stack(x) for x in zip(*(p.latent_moments(XS) for p in post.posteriors), strict=True)
    )
    mean = post.weights @ means
    np.testing.assert_allclose(post.mean(XS, latent=True), mean, rtol=1e-12)
    second = post.weights @ (variances + means**2)
    np.testing.assert_allclose(post.variance(XS, latent=True), second - mean**2, rtol=1e-9)


def test_copies_of_one_draw_are_one_gaussian():
    exact = MODELS[1].condition(X, Y)
    same(drawn(MODELS[1], Y, GivenHyperparameters(solvers.Dense()), [MODELS[1]] * 4), exact)
    noise = np.full((6, N), 0.07)
    part = drawn(MIXED, Y, scales(noise))
    same(part, GAUSSIAN.condition(X, Y), ("covariance",))
    one = GivenLatents(latents().whitened[:1])
    many = GivenLatents(np.repeat(one.whitened, 5, 0))
    same(drawn(GAUSSIAN, Y, many), drawn(GAUSSIAN, Y, one))


def test_without_outliers_the_enumeration_is_exact_regression():
    model = mc.Model(PRIOR, lk.GaussianMixtureNoise(1e-14, 0.07, 60.0))
    post, exact = model.condition(X, Y, Enumeration()), GAUSSIAN.condition(X, Y)
    same(post, exact)
    assert post.log_evidence == pytest.approx(exact.log_evidence, rel=1e-9)
    assert post.outlier_score().max() < 1e-6


@pytest.mark.parametrize("name", ("draws of f", "draws of hyperparameters"))
def test_blocks_of_test_inputs_change_nothing(name, monkeypatch):
    post, noise = posterior(name), np.array([0.2, 0.5, 1.0])
    whole = [ask(XS, noise_variance=noise) for ask in (post.std, lambda at, **v: post.quantile(at, 0.3, **v))]
    monkeypatch.setattr(draws, "CELLS", 1)
    parts = [ask(XS, noise_variance=noise) for ask in (post.std, lambda at, **v: post.quantile(at, 0.3, **v))]
    np.testing.assert_allclose(parts, whole, rtol=1e-9)


def test_noise_given_for_each_datum_is_unknown_elsewhere():
    post = mc.GP(k.SE(0.9)).condition(X, Y, noise_variance=np.full(N, 0.1))
    assert post.mean(XS).shape == (3,) and post.std(XS, latent=True).shape == (3,)
    for call in (post.std, lambda at: post.quantile(at, 0.5), lambda at: post.log_density(at, Y[:3])):
        with pytest.raises(PosteriorError, match="pass noise_variance="):
            call(XS)


def test_averages_of_parts_that_did_not_converge_say_so():
    part = posterior("gaussian")
    lost = dataclasses.replace(part, status=dataclasses.replace(part.status, converged=False))
    assert not AveragedPosterior((part, lost), np.full(2, 0.5)).status.converged
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert AveragedPosterior((part, part), np.full(2, 0.5)).status.converged
