"""Factor and inverse by panels equal LAPACK's."""

import numpy as np
import pytest

from mercer.linalg import blocked, lapack
from mercer.progress import shown


def upper(n, seed=0):
    A = np.random.default_rng(seed).normal(size=(n, n + 5))
    return np.ascontiguousarray(A @ A.T / n + np.eye(n))


@pytest.mark.parametrize(("n", "panel"), [(40, 16), (48, 16), (10, 16), (33, 8)])
def test_factor_and_inverse(n, panel, monkeypatch):
    monkeypatch.setattr(blocked, "STRIP", 13)
    M = upper(n)
    ours, theirs = M.copy(), M.copy()
    heard = []
    with shown("", lambda done, total, what: heard.append((what, done / total))):
        assert blocked.potrf(ours, panel) == 0
        assert lapack.potrf(theirs) == 0
        np.testing.assert_allclose(np.triu(ours), np.triu(theirs), rtol=1e-12, atol=1e-13)
        assert blocked.potri(ours, panel) == 0
    np.testing.assert_allclose(np.triu(ours), np.triu(np.linalg.inv(M)), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(np.tril(ours, -1), np.tril(M, -1))  # the other triangle is left alone
    for what in ("factor", "inverse"):
        shares = [share for kind, share in heard if kind == what]
        assert shares == sorted(shares) and shares[-1] == pytest.approx(1.0)


def test_says_where_a_matrix_fails():
    M = upper(40)
    M[25, 25] = -1.0
    assert blocked.potrf(M.copy(), 16) == lapack.potrf(M.copy()) == 26


def test_memory_is_foreseen(monkeypatch):
    import mercer as mc
    from mercer.linalg import memory
    from mercer.solvers import SolverError

    assert memory.parse("8GiB") == 8 * 2**30 and memory.parse("500 MB") == 5e8 and memory.parse(10) == 10.0
    assert memory.text(memory.parse("1.5GiB")) == "1.5 GiB"
    assert memory.available() > 1e6
    for bad in ("8 apples", -1, "0GB"):
        with pytest.raises(ValueError, match="memory must be"):
            memory.parse(bad)
    monkeypatch.setattr(memory, "available", lambda: 1e6)
    monkeypatch.setattr(blocked, "FROM", 100)
    x = np.linspace(0, 1, 500)[:, None]
    with pytest.raises(SolverError, match=r"1\.91 MiB for 500 data, but 977 KiB are free: use solvers\.VFE"):
        mc.GP(mc.kernels.SE()).condition(x, x[:, 0], 0.1)
