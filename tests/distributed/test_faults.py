"""A worker that dies changes nothing; a scheduler that dies is an error, after which the call goes on."""

import collections
import dataclasses
import os
import signal
import socket
import subprocess
import sys

import numpy as np
import pytest

import mercer as mc
from mercer.columns import Reader
from mercer.distributed.chunks import Here
from mercer.distributed.on_dask import ClusterError, Workers
from mercer.inference import EP
from mercer.inference.ep import in_chunks
from mercer.learning import chunked

RNG = np.random.default_rng(2)
X = RNG.normal(size=(240, 2))
Y = np.sin(2 * X[:, 0]) + 0.1 * RNG.normal(size=240)
XS = RNG.normal(size=(5, 2))
MODEL = mc.Model(mc.GP(mc.kernels.SE([1.0, 2.0], 1.5)), mc.likelihoods.Gaussian(0.05))
PAIRS = [(X[:100], Y[:100]), (X[100:103], Y[100:103]), (X[103:], Y[103:])]
SETTINGS = dict(solver=mc.solvers.VFE(m=10), progress=False)


class Deadly(collections.abc.Sequence):
    """Pairs whose reader is killed the moment it asks for the last of so many."""

    def __init__(self, count, last, pairs=PAIRS):
        self.count, self.last, self.pairs = str(count), last, pairs

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, i):
        with open(self.count, "ab") as file:
            file.write(b".")
        if os.path.getsize(self.count) == self.last:
            os.kill(os.getpid(), signal.SIGKILL)
        return self.pairs[i]


def fit(pairs, executor=None, **settings):
    """A fit on an executor, from a survey in this process."""
    seen = chunked.survey(mc.inputs.chunks(pairs), Here())
    if executor is not None:
        seen = dataclasses.replace(seen, executor=executor)
    return mc.fit(MODEL, seen, **SETTINGS, **settings)


def same(found, expected):
    assert found.value == pytest.approx(expected.value, rel=1e-10)
    np.testing.assert_allclose(found.posterior.mean(XS), expected.posterior.mean(XS), rtol=1e-10)
    np.testing.assert_allclose(found.posterior.std(XS), expected.posterior.std(XS), rtol=1e-10)


@pytest.fixture(scope="module")
def expected():
    return fit(PAIRS)


def test_a_worker_killed_in_the_middle_of_a_fit_changes_nothing(client, tmp_path, expected):
    count = tmp_path / "loads"
    pairs = Deadly(count, 20)  # the survey takes 6
    found = fit(pairs, Workers(client))
    assert count.stat().st_size > 20  # so that one was killed
    same(found, expected)


def test_sites_that_a_killed_worker_held_are_found_again(client, tmp_path):
    client.wait_for_workers(2)
    model = mc.Model(MODEL.gp, mc.likelihoods.Bernoulli())
    labels = [(x, np.where(y > 0, 1.0, -1.0)) for x, y in PAIRS]
    count = tmp_path / "loads"
    here, there = (
        in_chunks.run(
            executor, mc.inputs.chunks(pairs), Reader(None, 2), model, mc.solvers.VFE(inducing=X[:10]), EP()
        )
        for executor, pairs in ((Here(), labels), (Workers(client), Deadly(count, 14, labels)))
    )
    sweeps = there.status.iterations
    assert here.status == there.status and sweeps > 4  # it is killed in the fifth pass
    assert count.stat().st_size >= 3 * (sweeps + 1) + 4  # the sites of one chunk, at least, were found again
    assert there.log_evidence == pytest.approx(here.log_evidence, rel=1e-10)
    ours, theirs = there.gradient(), here.gradient()
    for name in theirs:
        np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-10, atol=1e-12)


def started(*arguments):
    command = [sys.executable, "-m", "dask", *arguments]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def cluster():
    """A scheduler and a worker as the command line of Dask starts them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    scheduler = started("scheduler", "--host", address, "--no-dashboard", "--no-show", "--no-jupyter")
    worker = started(
        "worker", address, "--nthreads", "1", "--no-dashboard", "--no-nanny", "--memory-limit", "0"
    )
    return address, scheduler, worker


class Asking(Workers):
    """Workers whose passes are noted; `then` is called before the one of this number."""

    def sum(self, work, *rest, **more):
        self.noted.append(work.__name__)
        if len(self.noted) == self.last:
            self.then()
        return super().sum(work, *rest, **more)


def asking(client, last=None, then=None):
    workers = Asking(client)
    vars(workers).update(noted=[], last=last, then=then)
    return workers


def test_a_lost_scheduler_is_a_clear_error_and_the_same_call_goes_on(tmp_path, expected):
    import dask
    from dask.distributed import Client

    checkpoint, processes = tmp_path / "fit.npz", []
    try:
        address, *processes = cluster()
        client = Client(address, timeout="60s", set_as_default=False)
        before = asking(client, 6, processes[0].kill)
        with dask.config.set({"distributed.comm.timeouts.connect": "1s"}):
            with pytest.raises(ClusterError, match=r"scheduler was lost .*with checkpoint= the same call"):
                fit(PAIRS, before, checkpoint=checkpoint)
            client.close(timeout=1)
        assert before.noted == ["summarise", "pull"] * 3
        address, *others = cluster()
        processes += others
        with Client(address, timeout="60s", set_as_default=False) as client:
            after, whole = asking(client), asking(client)
            same(fit(PAIRS, after, checkpoint=checkpoint), expected)
            same(fit(PAIRS, whole), expected)
        assert len(after.noted) <= len(whole.noted) - 4  # two evaluations, at least, were there
    finally:
        for process in processes:
            process.kill()
            process.wait()
