"""A posterior from a file: it predicts as before, and is factored when something needs the factor."""

import json
import pickle
import threading

import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer import likelihoods as lik
from mercer import means, progress, solvers
from mercer.persist import from_json, to_json
from mercer.posteriors.packing import Again
from mercer.posteriors.source import Recalled

RNG = np.random.default_rng(0)
X = np.sort(RNG.uniform(-2, 2, (30, 2)), 0)
XS = RNG.uniform(-2, 2, (7, 2))
Y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.05 * RNG.standard_normal(30)
SE = k.SE([1.0, 1.5])
NOISE = lik.Gaussian(0.01)


def case(gp=None, likelihood=NOISE, solver=None, inference=None, y=Y, at_once=True, columns=2):
    """A model with its rule and solver; whether its mean needs no factor."""
    return mc.Model(mc.GP(SE) if gp is None else gp, likelihood), inference, solver, y, at_once, columns


CASES = {
    "dense": case(),
    "dense by JAX": case(solver=solvers.Dense("jax"), at_once=False),
    "single precision": case(solver=solvers.SinglePrecision()),
    "mean": case(mc.GP(SE, mean=means.Linear([1.0, 2.0]))),
    "basis": case(mc.GP(SE, basis=means.Polynomial(1))),
    "basis with a prior": case(mc.GP(SE, basis=means.Polynomial(1, covariance=2.0, weights=0.5))),
    "noise of each row": case(likelihood=lik.Gaussian(mc.fixed(np.linspace(0.01, 0.1, 30)))),
    "conjugate gradients": case(solver=solvers.ConjugateGradient(tol=1e-10)),
    "inducing inputs": case(solver=solvers.VFE(m=8)),
    "FITC": case(solver=solvers.FITC(m=8)),
    "basis on inducing inputs": case(
        mc.GP(SE, basis=means.Polynomial(1)), solver=solvers.VFE(m=8), at_once=False
    ),
    "Nystrom": case(solver=solvers.Nystrom(m=25), at_once=False),
    "weights": case(mc.GP(k.Linear([1.0, 1.0]) + k.Constant()), solver="weight-space", at_once=False),
    "Vecchia": case(solver=solvers.Vecchia(neighbours=10), at_once=False),
    "committee": case(solver=solvers.Committee(size=10), at_once=False),
    "Markov": case(mc.GP(k.Matern(1.0, nu=1.5)), solver="markov", at_once=False, columns=1),
    "EP": case(likelihood=lik.Bernoulli(), inference="ep", y=Y > 0),
    "Laplace": case(likelihood=lik.Bernoulli(), inference="laplace", y=Y > 0),
    "Laplace, inducing inputs": case(
        likelihood=lik.Poisson(), inference="laplace", solver=solvers.VFE(m=8), y=np.round(np.exp(Y))
    ),
    "negative sites": case(likelihood=lik.StudentT(0.1, 4.0), inference="laplace"),
    "several latent functions": case(likelihood=lik.Softmax(3), y=np.digitize(Y, [-0.5, 0.5])),
    "several priors": case((mc.GP(SE), mc.GP(k.SE(2.0))), likelihood=lik.Heteroscedastic()),
}


def conditioned(name):
    model, inference, solver, y, _, columns = CASES[name]
    return model.condition(X[:, :columns], y, inference, solver)


def recalled(post):
    """The posterior as a file gives it back."""
    arrays = {}
    text = json.dumps(to_json({"packed": post.packed(), "solver": post.solver}, arrays))
    said = from_json(json.loads(text), arrays)
    return type(post).unpacked(said["packed"], Again(post.model, post.inputs, post.y, said["solver"]))


def factored(post):
    return "_state" in vars(post.source)


@pytest.mark.representative("Vecchia", "conjugate", "dense by LAPACK", "EP")
@pytest.mark.parametrize("name", CASES)
def test_it_predicts_as_before(name):
    post, at_once, columns = conditioned(name), CASES[name][4], CASES[name][5]
    again, Xs = recalled(post), XS[:, :columns]
    assert again.log_evidence == post.log_evidence and again.notes == post.notes
    assert again.status == post.status and not factored(again)
    scale = np.std(Y)
    mean = again.latent_moments(Xs, variance=False)[0]
    np.testing.assert_allclose(
        mean, post.latent_moments(Xs, variance=False)[0], rtol=1e-12, atol=1e-12 * scale
    )
    assert factored(again) is not at_once
    once_more = recalled(again)  # saved again before it was factored, or after
    for one, two in zip(again.latent_moments(Xs), post.latent_moments(Xs), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-11, atol=1e-12 * scale)
    assert factored(again)
    np.testing.assert_array_equal(once_more.latent_moments(Xs, variance=False)[0], mean)
    np.testing.assert_allclose(again.loo().mean, post.loo().mean, rtol=1e-9, atol=1e-9)


def test_threads_share_one_factor(monkeypatch):
    again, made = recalled(conditioned("dense")), []
    factor = solvers.Dense.factor

    def counted(self, *args, **kwargs):
        made.append(1)
        return factor(self, *args, **kwargs)

    monkeypatch.setattr(solvers.Dense, "factor", counted)
    threads = [threading.Thread(target=again.std, args=(XS,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [1]


def test_progress_of_the_factor_is_heard(monkeypatch):
    again, heard = recalled(conditioned("dense")), []
    factor = solvers.Dense.factor

    def telling(self, *args, **kwargs):
        progress.tell(0.5, 1.0, "factor")
        return factor(self, *args, **kwargs)

    monkeypatch.setattr(solvers.Dense, "factor", telling)
    with progress.shown("asking", lambda *said: heard.append(said)):
        again.mean(XS)
        assert (0.5, 1.0, "factor") not in heard
        again.std(XS)
    assert (0.5, 1.0, "factor") in heard


def test_it_pickles_before_and_after():
    again = recalled(conditioned("dense"))
    for _ in range(2):
        copy = pickle.loads(pickle.dumps(again))
        np.testing.assert_array_equal(copy.mean(XS), again.mean(XS))
        np.testing.assert_array_equal(copy.std(XS), again.std(XS))


def changed(change):
    post = conditioned("dense")
    packed = post.packed()
    change(packed["source"])
    return lambda: type(post).unpacked(packed, Again(post.model, post.inputs, post.y, post.solver))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda s: s["sites"].update(centre=np.zeros((3, 1)), precision=np.ones((3, 1))),
            "does not go with 30",
        ),
        (
            lambda s: s["sites"].update(centre=np.zeros((30, 2)), precision=np.ones((30, 2))),
            "go with 30 data",
        ),
        (lambda s: s["sites"].update(slope=np.full((30, 1), np.nan)), "'slope' is not finite"),
        (lambda s: s["sites"].update(precision=np.ones(30)), "one shape"),
        (lambda s: s["sites"].update(magic=np.ones((30, 1))), "magic"),
        (lambda s: s["mean"]["weights"].update(weights=np.zeros((3, 1))), "do not go with the model"),
        (lambda s: s["mean"]["weights"].update(beta=np.zeros(3)), "do not go with the model"),
        (lambda s: s["mean"].update(probes=np.zeros((3, 1))), "do not go with the model"),
        (lambda s: s.pop("log_normaliser"), "log_normaliser"),
    ],
)
def test_what_makes_no_sense_is_refused(change, message):
    with pytest.raises((ValueError, TypeError, KeyError), match=message):
        changed(change)()


def test_what_does_not_belong_together_is_noticed():
    def other_weights(source):
        source["mean"]["weights"]["weights"] = source["mean"]["weights"]["weights"] * 1.01

    def other_sites(source):
        source["sites"]["centre"] = source["sites"]["centre"] + 0.1

    with pytest.warns(UserWarning, match="has a mean of .* the file was changed"):
        changed(other_weights)().mean(XS)
    with pytest.warns(UserWarning, match="has a log normaliser of .* the file was changed"):
        changed(other_sites)().std(XS)
    assert isinstance(changed(lambda _: None)().source, Recalled)
