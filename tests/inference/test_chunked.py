"""Rows in chunks say what they say together: evidence, gradient and predictions, whatever the cuts."""

import dataclasses
import itertools
import pickle

import numpy as np
import pytest

import mercer as mc
from mercer.columns import Reader
from mercer.distributed.chunks import Here
from mercer.distributed.parcel import Parcel
from mercer.inference import by_name, chunked, pointwise
from mercer.inference.ep import in_chunks
from mercer.inference.ep.point import log_scales
from mercer.posteriors.cavity import cavity
from mercer.solvers.chunked import InChunks, stand_in

N = 120
CUTS = {1: [0, 120], 2: [0, 31, 120], 3: [0, 70, 70, 120], 7: [0, 1, 40, 40, 41, 90, 118, 120]}
RNG = np.random.default_rng(3)
X = RNG.normal(size=(N, 2))
F = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1]
Y = F + 0.1 * RNG.standard_t(3, size=N)
LABELS = np.where(F + 0.3 * RNG.normal(size=N) > 0, 1.0, -1.0)
XS = RNG.normal(size=(9, 2))
READER = Reader(None, 2)
PRIOR = mc.GP(mc.kernels.SE([1.0, 2.0], 1.5), mc.means.Constant(mc.param(0.3)))


def source(cuts, y):
    return mc.inputs.chunks([(X[a:b], y[a:b]) for a, b in itertools.pairwise(cuts)])


def model(likelihood, mean=None):
    gp = PRIOR if mean is None else mc.GP(PRIOR.kernel, mean)
    return mc.Model(gp, likelihood).bind(mc.inputs.Inputs(X))


def agree(found, expected, rtol=1e-8):
    assert set(found) == set(expected)
    for name, bar in expected.items():
        np.testing.assert_allclose(found[name], bar, rtol=rtol, atol=rtol * np.abs(bar).max(), err_msg=name)


@pytest.mark.parametrize("chunks", CUTS)
@pytest.mark.parametrize("solver", ["VFE", "FITC", "ProjectedProcess"])
def test_exact_inference_is_two_passes_of_sums(solver, chunks):
    solver = getattr(mc.solvers, solver)(inducing=X[:15] + 0.02, learn=chunks == 3)
    this = model(mc.likelihoods.Gaussian(0.05))
    value, gradient = mc.log_evidence_and_gradient(this, X, Y, solver=solver)
    there = source(CUTS[chunks], Y)
    found, by_name, all_rows = chunked.evidence_and_gradient(Here(), there, READER, this, solver)
    assert found == pytest.approx(value, rel=1e-12)
    agree(by_name, gradient)
    assert all_rows.n == N
    # predictions, of which only the core and a few rows are known
    sites, _ = chunked.gaussian_sites(this, X[:5], Y[:5])
    some = all_rows.condensed().factor(this.gp, X[:5], sites)
    whole = this.condition(X, Y, solver=solver).state
    for ours, theirs in zip(some.predict(XS), whole.predict(XS), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)
    for ours, theirs in zip(some.dual(), whole.dual(), strict=True):
        np.testing.assert_allclose(ours, theirs[:5], rtol=1e-8)
    assert some.evidence_bounds() == pytest.approx(whole.evidence_bounds())


def test_a_mean_that_reads_inputs_and_a_warp():
    mean = mc.means.Linear([0.1, -0.2], 0.4)
    solver, positive = mc.solvers.VFE(inducing=X[:10]), np.exp(Y)
    for likelihood, y in (
        (mc.likelihoods.Gaussian(0.05), Y),
        (mc.likelihoods.Warped(mc.warps.BoxCox(mc.param(0.3)), mc.likelihoods.Gaussian(0.05)), positive),
    ):
        this = model(likelihood, mean)
        value, gradient = mc.log_evidence_and_gradient(this, X, y, solver=solver)
        found, by_name, _ = chunked.evidence_and_gradient(Here(), source(CUTS[7], y), READER, this, solver)
        assert found == pytest.approx(value, rel=1e-12)
        agree(by_name, gradient)


@pytest.mark.parametrize("chunks", CUTS)
@pytest.mark.parametrize(
    ("likelihood", "rule", "y"),
    [(mc.likelihoods.Bernoulli(), "ep", LABELS), (mc.likelihoods.StudentT(0.1), None, Y)],
    ids=["Bernoulli by EP", "Student-t"],
)
def test_rules_that_look_for_sites_find_the_same_ones(likelihood, rule, y, chunks):
    this, rule = model(likelihood), by_name(rule, likelihood)
    solver = mc.solvers.VFE(inducing=X[:12] + 0.02)
    whole = rule.run(this, X, y, solver)
    there = InChunks(solver, source(CUTS[chunks], y), Here(), READER, tuple(np.diff(CUTS[chunks])))
    found = rule.run(this, stand_in(N, 2), y, there)
    assert found.log_evidence == pytest.approx(whole.log_evidence, rel=1e-10)
    agree(rule.gradient(this, y, found), rule.gradient(this, y, whole))
    state = found.state
    sites = mc.solvers.Sites(*(None if a is None else a[:4] for a in dataclasses.astuple(state.sites)[:3]))
    some = state.condensed().factor(this.gp, X[:4], sites)
    for ours, theirs in zip(some.predict(XS), whole.state.predict(XS), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-10)
    assert some.log_normaliser == pytest.approx(whole.state.log_normaliser, rel=1e-10)
    np.testing.assert_allclose(some.alpha, whole.state.alpha[:4], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("chunks", CUTS)
@pytest.mark.parametrize("solver", ["VFE", "FITC", "ProjectedProcess"])
def test_sites_of_ep_stay_with_their_chunks(solver, chunks):
    this, rule = model(mc.likelihoods.Bernoulli()), mc.inference.EP(tol=1e-10)
    solver = getattr(mc.solvers, solver)(inducing=X[:12] + 0.02, learn=chunks == 3)
    whole = rule.run(this, X, LABELS, solver)
    found = in_chunks.run(Here(), source(CUTS[chunks], LABELS), READER, this, solver, rule)
    assert found.status.converged and found.notes == ()
    assert found.log_evidence == pytest.approx(whole.log_evidence, rel=1e-10)
    agree(found.gradient(), rule.gradient(this, LABELS, whole))
    rows = [np.arange(min(b - a, 4)) for a, b in itertools.pairwise(CUTS[chunks])]
    at = np.concatenate([a + r for a, r in zip(CUTS[chunks], rows, strict=False)])
    some = found.whole.condensed().factor(this.gp, X[at], found.sites(rows))
    for ours, theirs in zip(some.predict(XS), whole.state.predict(XS), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(some.alpha, whole.state.alpha[at], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(some.marginals()[1], whole.state.marginals()[1][at], rtol=1e-6)


def test_ep_in_chunks_says_when_it_has_not_converged():
    there, solver = source(CUTS[3], LABELS), mc.solvers.VFE(inducing=X[:12])
    this = model(mc.likelihoods.Bernoulli())
    short = in_chunks.run(Here(), there, READER, this, solver, mc.inference.EP(max_iterations=3))
    assert not short.status.converged and "did not converge" in short.notes[0]
    # the evidence is that of the sites that are there
    sites = short.sites([np.arange(n) for n in np.diff(CUTS[3])])
    state = solver.factor(this.gp, X, sites)
    c = cavity(state)
    log_Z = pointwise.tilted(this.likelihood, LABELS, c.mean, c.variance)[0]
    assert short.log_evidence == pytest.approx(
        state.log_normaliser + log_scales(sites, c, log_Z).sum(), rel=1e-12
    )


def test_what_is_not_a_sum_over_chunks_is_refused():
    there, vfe = source(CUTS[2], Y), mc.solvers.VFE(inducing=X[:5])
    for likelihood, reason in (
        (mc.likelihoods.Gaussian(0.0), "above zero"),
        (mc.likelihoods.Gaussian(0.1, weight=np.ones(N)), "known of each row"),
    ):
        with pytest.raises(mc.solvers.SolverError, match=reason):
            chunked.evidence(Here(), there, READER, model(likelihood), vfe)
    basis = mc.Model(mc.GP(PRIOR.kernel, basis=mc.means.Polynomial(1)))
    with pytest.raises(mc.solvers.SolverError, match="basis"):
        chunked.evidence(Here(), there, READER, basis, vfe)
    counts = model(mc.likelihoods.Poisson(exposure=np.ones(N)))
    for this, reason in ((basis, "basis functions do not"), (counts, "known of each row")):
        with pytest.raises(mc.solvers.SolverError, match=reason):
            mc.fit(this, source(CUTS[2], LABELS.clip(0)), solver=vfe, inference="ep", progress=False)
    empty = mc.inputs.chunks([(X[:0], Y[:0])])
    with pytest.raises(mc.solvers.SolverError, match="no rows"):
        chunked.evidence(Here(), empty, READER, model(mc.likelihoods.Gaussian()), vfe)
    reading = model(mc.likelihoods.StudentT(0.1), mc.means.Linear([0.1, 0.2], 0.0))
    with pytest.raises(mc.solvers.SolverError, match="prior mean is a number"):
        InChunks(vfe, there, Here(), READER, (31, 89)).factor(reading.gp, X, None)


def test_a_parcel_is_json_on_the_way():
    this, solver = model(mc.likelihoods.Gaussian(0.05)), mc.solvers.VFE(inducing=X)
    parcel = Parcel(READER, this, solver)
    assert parcel.values[1] is this
    text = pickle.dumps(parcel)
    assert b"mercer.kernels" not in text and b"kernels.SE" in text  # names, no modules
    reader, there, again = pickle.loads(text).values
    assert reader == READER and again == solver and np.array_equal(again.inducing, X)
    assert mc.log_evidence(there, X, Y, solver=again) == mc.log_evidence(this, X, Y, solver=solver)
