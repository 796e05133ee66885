"""The same on the workers of a Dask cluster."""

import threading
import time

import numpy as np
import pytest
from sklearn.base import clone

import mercer as mc
from mercer import kernels as k
from mercer.distributed import JobError, cluster, team, versions
from mercer.linalg.identities import parallel_sum
from mercer.params import flatten

A = np.diag([1.0, 2.0, 3.0])
JOBS = [{"B": np.diag([1.0, 1.0, s])} for s in (1.0, 2.0, 5.0)]


def test_jobs_in_order_errors_named(client):
    with team(client) as there, team(None) as here:
        assert there.size == 2
        assert np.array_equal(there.map(parallel_sum, JOBS, {"A": A}), here.map(parallel_sum, JOBS, {"A": A}))
        with pytest.raises(ValueError, match="broadcast") as caught:
            there.map(parallel_sum, [{"B": np.eye(2)}], {"A": A}, ["the sum"])
    assert "in the sum, worker tcp://127.0.0.1" in caught.value.__notes__[0]


def test_an_estimator_climbs_on_a_cluster_and_is_cloned_and_saved(client, tmp_path):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 2))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=40)
    here = mc.GPRegressor(k.SE(), restarts=2).fit(X, y)
    model = mc.GPRegressor(k.SE(), restarts=2, parallel=client)
    there = clone(model)
    assert there.parallel is client and model.parallel is client
    there.fit(X, y)
    assert np.array_equal(flatten(here.model_).vector, flatten(there.model_).vector)
    there.save(tmp_path / "m.mercer")
    assert mc.load(tmp_path / "m.mercer").parallel is None


def test_a_lost_worker_changes_nothing(client):
    """The job's worker is killed while it works: another does it."""

    def kill():
        for _ in range(200):
            time.sleep(0.1)
            busy = [worker for worker, tasks in client.processing().items() if tasks]
            if busy:
                client.run(exec, "import os; os._exit(9)", workers=busy[:1], on_error="ignore")
                killed.extend(busy[:1])
                return

    killed = []
    killer = threading.Thread(target=kill)
    X = np.random.default_rng(0).normal(size=(150, 2))
    killer.start()
    settings = dict(restarts=3, tol=0.0, max_evaluations=300, progress=False)
    there = mc.GaussianMixture(3, parallel=client, **settings).fit(X)
    killer.join()
    assert killed
    here = mc.GaussianMixture(3, **settings).fit(X)
    np.testing.assert_allclose(there.means_, here.means_, rtol=0, atol=1e-10)


def test_another_version_is_refused_by_name(client):
    client.wait_for_workers(2)
    worker = sorted(client.scheduler_info(n_workers=-1)["workers"])[0]
    client.run(exec, "import mercer; mercer.__version__ = '0.0.9'", workers=[worker])
    try:
        with pytest.raises(versions.VersionError, match=f"{worker} has mercer 0.0.9"), team(client):
            pass
        with pytest.raises(versions.VersionError, match=r"worker tcp.* has mercer 0\.0\.9"):
            client.submit(versions.check_here, versions.mine(), workers=[worker], pure=False).result()
    finally:
        client.run(exec, f"import mercer; mercer.__version__ = {mc.__version__!r}", workers=[worker])


def test_an_optimiser_evaluates_on_a_cluster(client):
    def bowl(x):
        if x > 1.9:
            raise ValueError("too far")
        return (x - 0.3) ** 2

    found = mc.optimise(bowl, {"x": (-2.0, 2.0)}, evaluations=4, parallel=client, progress=False)
    assert len(found.history) == 4 and found.value == (found.point["x"] - 0.3) ** 2


def test_a_closed_client_is_refused(client):
    from distributed import Client

    closed = Client(client.scheduler.address)
    closed.close()
    with pytest.raises(JobError, match=r"client is closed: hand in one that is connected"), team(closed):
        pass


def test_a_cluster_without_workers_is_refused_in_bounded_time(monkeypatch):
    from distributed import Client

    monkeypatch.setattr(cluster, "WAIT", 0.2)
    settings = dict(n_workers=0, processes=False, dashboard_address=None, set_as_default=False)
    source = mc.inputs.chunks([(np.zeros((5, 1)), np.zeros(5))])
    with Client(**settings) as nobody:
        with pytest.raises(
            JobError, match=r"has no workers, and none came .* `dask worker \S+ --nthreads 1`"
        ):
            mc.GPRegressor(k.SE(), parallel=nobody).fit(source, None)
        with pytest.raises(JobError, match=r"has no workers, .*cluster.scale\(2\)"), team(nobody):
            pass
    with pytest.raises(JobError, match="client is closed"):
        mc.GPRegressor(k.SE(), parallel=nobody).fit(source, None)


def test_em_goes_through_chunks_on_a_cluster(client):
    """Seven chunks of uneven sizes, one of them empty: the same as the whole array."""
    rng = np.random.default_rng(2)
    X = np.concatenate([rng.normal(c, 0.5, size=(40, 2)) for c in (-2.0, 2.0)])
    pieces = [(part, None) for part in np.split(X, [1, 9, 9, 40, 55, 79])]
    settings = dict(restarts=0, tol=0.0, max_evaluations=6)
    whole = mc.GaussianMixture(2, **settings).fit(X)
    found = mc.GaussianMixture(2, parallel=client, **settings).fit(mc.inputs.chunks(pieces))
    np.testing.assert_allclose(found.means_, whole.means_, rtol=0, atol=1e-10)
    np.testing.assert_allclose(found.history_, whole.history_, rtol=1e-10)
    sequences = [piece for piece, _ in pieces if len(piece)]
    hmm = mc.HMM(2, restarts=0, tol=0.0, max_evaluations=4, parallel=client).fit(mc.inputs.chunks(pieces))
    here = mc.HMM(2, restarts=0, tol=0.0, max_evaluations=4).fit(sequences)
    np.testing.assert_allclose(hmm.transition_, here.transition_, rtol=0, atol=1e-10)


def test_files_are_predicted_on_a_cluster(client, tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rng = np.random.default_rng(1)
    X = {"a": rng.normal(size=20)}
    model = mc.GPRegressor(k.SE(), learn=False).fit(X, np.sin(X["a"]))
    for i, n in enumerate((3, 0, 7, 2, 1)):
        pq.write_table(pa.table({"a": rng.normal(size=n)}), tmp_path / f"{i}.parquet")
    here = mc.predict_files(model, tmp_path / "*.parquet", tmp_path / "here")
    there = mc.predict_files(model, tmp_path / "*.parquet", tmp_path / "there", parallel=client)
    assert here == there == 13
    tables = [pq.read_table(tmp_path / name).to_pandas() for name in ("here", "there")]
    np.testing.assert_allclose(*tables, rtol=1e-12)
