"""Fits to data in chunks: the optimum and the posterior of all rows, files that do not fit, checkpoints."""

import dataclasses
import itertools
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mercer as mc
from mercer.distributed.chunks import Here
from mercer.learning import chunked

RNG = np.random.default_rng(5)
N = 400
X = RNG.normal(size=(N, 2))
Y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.1 * RNG.normal(size=N)
XS = RNG.normal(size=(6, 2))
CUTS = [0, 3, 200, 200, 400]
MODEL = mc.Model(mc.GP(mc.kernels.SE([1.0, 2.0], 1.5)), mc.likelihoods.Gaussian(0.05))
SOURCE = mc.inputs.chunks([(X[a:b], Y[a:b]) for a, b in itertools.pairwise(CUTS)])
FEW = pytest.mark.filterwarnings("ignore::mercer.learning.unconverged.UnconvergedWarning")  # evaluations


@pytest.fixture
def few_sampled(monkeypatch):
    """A sample that is not all rows, of which few are kept."""
    monkeypatch.setattr(chunked.survey, "__defaults__", (False, 250, 0))
    monkeypatch.setattr(chunked, "KEPT", 20)


def test_a_sample_is_of_all_rows_alike():
    seen = chunked.survey(SOURCE, Here(), size=100, seed=1)
    assert seen.sizes == (3, 197, 0, 200) and len(seen.y) == 100
    np.testing.assert_array_equal(seen.inputs.values, X[seen.rows])
    np.testing.assert_array_equal(seen.y, Y[seen.rows])
    assert 30 < np.sum(seen.rows < 200) < 70


def test_the_optimum_and_the_posterior_are_those_of_all_rows(few_sampled):
    found = mc.fit(MODEL, SOURCE, solver=mc.solvers.VFE(m=12))
    assert found.status.converged and found.history[-1].size == N
    post, base = found.posterior, found.posterior.solver.base
    again = mc.fit(found.model, X, Y, solver=base, starts="given")
    assert found.value == pytest.approx(again.value, abs=1e-3)
    whole = found.model.condition(X, Y, solver=base)
    assert post.log_evidence == pytest.approx(whole.log_evidence, rel=1e-10)
    np.testing.assert_allclose(post.mean(XS), whole.mean(XS), rtol=1e-8)
    np.testing.assert_allclose(post.std(XS), whole.std(XS), rtol=1e-8)
    assert post.inputs.values.shape == (20, 2) and "400 rows in 4 chunks" in " ".join(post.notes)
    rows = [int(np.flatnonzero((x == X).all(1))[0]) for x in post.inputs.values]
    np.testing.assert_allclose(post.loo().log_density, whole.loo().log_density[rows], rtol=1e-6)
    for question in (post.degrees_of_freedom, post.evidence_terms, post.prior_divergence):
        with pytest.raises(ValueError, match="fitted in chunks"):
            question()
    assert "data: n = 400, d = 2" in found.summary() and "n=400" in repr(post)


@FEW
@pytest.mark.slow
def test_noise_of_heavy_tails(few_sampled):
    model = mc.Model(MODEL.gp, mc.likelihoods.StudentT(0.1))
    found = mc.fit(model, SOURCE, solver=mc.solvers.VFE(m=8), max_evaluations=2)
    whole = found.model.condition(X, Y, solver=found.posterior.solver.base)
    assert found.posterior.log_evidence == pytest.approx(whole.log_evidence, rel=1e-8)
    np.testing.assert_allclose(found.posterior.mean(XS), whole.mean(XS), rtol=1e-6)


@FEW
def test_parquet_by_names_and_a_checkpoint(tmp_path, few_sampled):
    for i, (a, b) in enumerate(itertools.pairwise(CUTS)):
        columns = {"b": X[a:b, 1], "y": Y[a:b], "a": X[a:b, 0]}
        pq.write_table(pa.table(columns), tmp_path / f"part-{i}.parquet")
    source = mc.inputs.parquet(tmp_path, target="y", features=["a", "b"])
    settings = dict(solver=mc.solvers.VFE(m=12), max_evaluations=4, checkpoint=tmp_path / "fit.npz")
    first = mc.fit(MODEL, source, **settings)
    asked = []

    class Counting(Here):
        def sum(self, work, *rest, **more):
            asked.append(work.__name__)
            return super().sum(work, *rest, **more)

    seen = chunked.survey(source, Counting())
    assert seen.reader.names == ("a", "b")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mercer.distributed.on_dask.executor_for", lambda source, parallel: Counting())
        again = mc.fit(MODEL, source, **settings)
    assert asked == ["summarise"]  # the last conditioning alone
    assert again.value == first.value
    np.testing.assert_array_equal(again.posterior.mean(XS), first.posterior.mean(XS))


def test_what_is_wrong_is_said(tmp_path):
    vfe = mc.solvers.VFE(m=5)
    bad = X.copy()
    bad[210, 1] = np.nan
    pairs = [(bad[a:b], Y[a:b]) for a, b in itertools.pairwise(CUTS)]
    with pytest.raises(mc.inputs.InputError, match="partition 3 of 4: X contains NaN in row 10, column 1"):
        mc.fit(MODEL, mc.inputs.chunks(pairs), solver=vfe)
    with pytest.raises(mc.inputs.InputError, match="partition 1 of 2 has 3 columns, where partition 0 has 2"):
        mc.fit(MODEL, mc.inputs.chunks([(X, Y), (np.ones((2, 3)), Y[:2])]), solver=vfe)
    named = [({"a": X[:, 0]}, Y), ({"b": X[:, 0]}, Y)]
    with pytest.raises(mc.inputs.InputError, match="has the columns b, where partition 0 has the columns a"):
        mc.fit(MODEL, mc.inputs.chunks(named), solver=vfe)
    with pytest.raises(mc.inputs.InputError, match="own y"):
        mc.fit(MODEL, SOURCE, Y, solver=vfe)
    with pytest.raises(mc.solvers.SolverError, match="Dense does not work on data in chunks"):
        mc.fit(MODEL, SOURCE)
    with pytest.raises(ValueError, match="objective='evidence'"):
        mc.fit(MODEL, SOURCE, solver=vfe, objective="loo")


def test_a_committee_has_its_members_in_the_chunks(few_sampled):
    solver = mc.solvers.Committee(size=150)
    found = mc.fit(MODEL, SOURCE, solver=solver)
    whole = [found.model.condition(X[a:b], Y[a:b], solver=solver) for a, b in ((0, 3), (3, 200), (200, 400))]
    assert found.posterior.log_evidence == pytest.approx(sum(post.log_evidence for post in whole), rel=1e-10)
    assert found.value == pytest.approx(found.posterior.log_evidence, rel=1e-10)
    from mercer.solvers.committee import together

    said = [answer for post in whole for answer in post.state.answers(XS)]
    mean, variance = together("bcm", (found.model.gp,), XS, said)
    assert len(said) == 5  # of 3, twice 98 or 99, and twice 100 rows
    np.testing.assert_allclose(found.posterior.mean(XS), mean[:, 0], rtol=1e-10)
    np.testing.assert_allclose(found.posterior.std(XS, latent=True) ** 2, variance[:, 0, 0], rtol=1e-8)
    assert "n = 400" in found.summary()
    assert "with the chunks" in found.posterior.why_not("save")
    with pytest.raises(mc.solvers.SolverError, match="with their chunks"):
        found.posterior.loo()


def test_batches_in_chunks(few_sampled, tmp_path):
    rule = mc.inference.SVGP(m=10, epochs=2, batch=40)
    found = mc.fit(MODEL, SOURCE, inference=rule, checkpoint=tmp_path / "a.npz")
    whole = found.model.condition(X, Y, solver=found.posterior.solver.base)
    assert found.posterior.log_evidence == pytest.approx(whole.log_evidence, rel=1e-10)
    assert found.history[-1].start == "epoch 2 of 2" and found.history[-1].size == N
    # an epoch, and then the other from the checkpoint, are the two
    mc.fit(MODEL, SOURCE, inference=dataclasses.replace(rule, epochs=1), checkpoint=tmp_path / "b.npz")
    again = mc.fit(MODEL, SOURCE, inference=rule, checkpoint=tmp_path / "b.npz")
    assert again.value == found.value
    with pytest.raises(mc.inputs.InputError, match="draws are of data in memory"):
        mc.fit(MODEL, SOURCE, inference="mcmc")


def test_one_chunk_and_one_batch_are_an_array():
    rule = mc.inference.SVGP(m=10, epochs=15, batch=N)
    found, whole = (mc.fit(MODEL, *data, inference=rule) for data in ((mc.inputs.chunks([(X, Y)]),), (X, Y)))
    assert found.value == pytest.approx(whole.value, rel=1e-8)
    np.testing.assert_allclose(found.posterior.mean(XS), whole.posterior.mean(XS), rtol=1e-6)


def test_files_need_no_dask_and_what_does_says_so(monkeypatch):
    for module in ("dask", "distributed", "dask.distributed"):
        monkeypatch.setitem(sys.modules, module, None)
    found = mc.fit(MODEL, SOURCE, solver=mc.solvers.VFE(m=5), max_evaluations=0)
    assert np.isfinite(found.value)
    from mercer.distributed.on_dask import Workers

    with pytest.raises(ImportError, match=r"pip install 'mercer\[cluster\]'"):
        Workers(None)
