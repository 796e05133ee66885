"""Data one at a time: the projected process of Csato and Opper, with a bounded active set (GPML 8.3.4, SP12,
SP17).

The posterior is kept on an active set of inputs Z: mean m(x) + k(x, Z) a and covariance k(x, x') + k(x, Z) C
k(Z, x'). A datum at x is seen through the projection e = K_zz^-1 k(Z, x). With q and r the first two
derivatives of log E[p(y | f)] in the mean of f,

    s = C k(Z, x) + e,    a += q s,    C += r s s'.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

from mercer.inference import pointwise
from mercer.inputs import as_inputs, as_targets
from mercer.likelihoods.base import AbstractLikelihood
from mercer.linalg import tiles
from mercer.linalg.cholesky import cholesky
from mercer.linalg.updates import inverse_append, inverse_remove
from mercer.params import strip
from mercer.prior import AbstractPrior

BLOCK = 64  # data whose covariances are computed together


class OnlineProjectedProcess:
    """A GP that learns from a stream: O(m^2) for each datum and m^2 numbers, m at most `capacity`.

    gp: the prior. likelihood: of one latent function, such as Gaussian(0.1) or Bernoulli(). A datum whose
    prior variance given the active set is more than `novelty` k(x, x) joins it; when that makes more than
    `capacity`, one leaves and its part is projected on the others. forget: which one, "redundant" (that of
    the least prior variance given the others, 1 / [K_zz^-1]_ii) or "mean" (that which the mean would miss
    least, |a_i| / [K_zz^-1]_ii: Csato and Opper's score, which on noisy data replaces good inputs by new ones
    all the time). active: inputs (m, d) to use instead, which then never change.

    variance: which variance of f at a new datum its likelihood is averaged over. "projected", that of the
    projection alone: one pass over Gaussian data on a fixed active set is then the batch projected process
    (8.20-8.27). "full", with the variance that the active set leaves open: then it is FITC. Both do not
    depend on the order of Gaussian data.

    >>> online = OnlineProjectedProcess(gp, likelihood, capacity=100)
    >>> online.update(X, y).predict(Xs)
    """

    def __init__(
        self,
        gp: AbstractPrior,
        likelihood: AbstractLikelihood,
        capacity: int = 100,
        novelty: float = 1e-6,
        variance: Literal["projected", "full"] = "projected",
        forget: Literal["redundant", "mean"] = "redundant",
        active: Any = None,
    ):
        if variance not in ("projected", "full"):
            raise ValueError(f"variance must be 'projected' or 'full', got {variance!r}.")
        if forget not in ("redundant", "mean"):
            raise ValueError(f"forget must be 'redundant' or 'mean', got {forget!r}.")
        if likelihood.latents > 1 or likelihood.per_datum:
            raise ValueError(
                f"{type(likelihood).__name__}: online learning takes one latent function, and no "
                "parameters per datum."
            )
        if capacity < 1 or not novelty > 0:
            raise ValueError(
                f"capacity must be 1 or more and novelty positive, got {capacity} and {novelty}."
            )
        if gp.basis is not None:
            raise ValueError("online learning takes no basis functions: add a Linear kernel instead.")
        self.gp, self.likelihood, self.novelty = gp, likelihood, novelty
        self.variance, self.forget = variance, forget
        self.capacity, self.fixed, self._bound = capacity, active is not None, False
        self.log_evidence, self.seen = 0.0, 0
        self._tilted = pointwise.tilted_one(likelihood)
        self._a = np.zeros(0)
        self._names: tuple[str, ...] | None = None
        if active is not None:
            Z = self._values(active, "active")
            self.capacity = Z.shape[0]
            self._start(Z)

    @property
    def active(self) -> np.ndarray:
        """The active inputs (m, d)."""
        return self._Z[: self._a.size] if self._bound else np.zeros((0, 0))

    def update(self, X: Any, y: Any) -> OnlineProjectedProcess:
        """Learn from data (X (n, d), y (n,)) in the order given.
        Adds log p(y_i | all before) to `log_evidence`.
        """
        values = self._values(X, "X")
        y = self.likelihood.targets(as_targets(y, values.shape[0]))
        if not self._bound:
            self._start(values[:0])
        mean = np.asarray(self.gp.mean.value(values), float)
        for rows in _blocks(values.shape[0]):
            self._look(values[rows])
            for i in range(rows.stop - rows.start):
                self._learn(i, mean[rows.start + i], y[rows.start + i])
        return self

    def refine(self, X: Any, y: Any, tol: float = 1e-8, max_iterations: int = 100) -> int:
        """Forget all data but not the active set, and learn from X, y by expectation propagation: sweeps
        until no site changes by more than `tol` (in units of the marginal's standard deviation). Returns the
        number of sweeps; the first is `update`'s pass.

        With all data in the active set this is EP for the full GP.
        """
        values = self._values(X, "X")
        y = self.likelihood.targets(as_targets(y, values.shape[0]))
        if not self._bound or not self._a.size:
            raise ValueError("there is no active set yet: update with some data first, or give `active`.")
        m = self._a.size
        self._a, self._C, self.log_evidence, self.seen = np.zeros(m), np.zeros((m, m)), 0.0, 0
        mean = np.asarray(self.gp.mean.value(values), float)
        sites = [_Site(0.0, 0.0)] * values.shape[0]
        for sweep in range(1, max_iterations + 1):
            change = 0.0
            for rows in _blocks(values.shape[0]):
                self._look(values[rows])
                for i in range(rows.start, rows.stop):
                    x = self._see(i - rows.start)
                    sites[i], moved = self._visit(x, mean[i], y[i], sites[i], sweep == 1)
                    change = max(change, moved)
            if change <= tol:
                return sweep
        raise RuntimeError(
            f"expectation propagation did not settle in {max_iterations} sweeps (last change {change:.1e})."
        )

    def predict(self, Xs: Any, full: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Mean (m,) of f at Xs (m, d), and its variance (m,), or with `full` its covariance (m, m)."""
        values = self._values(Xs, "Xs")
        mean = np.asarray(self.gp.mean.value(values), float)
        if not self._bound:
            self._start(values[:0])
        A = self._encode(values)
        K = (
            tiles.matrix(self._kernel, A, self._encode(self.active))
            if self._a.size
            else np.zeros((values.shape[0], 0))
        )
        mean = mean + K @ self._a
        if full:
            return mean, tiles.matrix(self._kernel, A, A) + K @ self._C @ K.T
        prior = tiles.diagonal(self._kernel, tiles.Panels(A, tiles.tile_size(values.shape[0])))
        return mean, np.maximum(prior + np.einsum("ij,ij->i", K @ self._C, K), 0.0)

    # -- inside ----------------------------------------------------------------------------------------------

    def _values(self, X: Any, name: str) -> np.ndarray:
        inputs = as_inputs(X, name, self._names, self.gp.kernel.reads_objects())
        if not self._bound:
            self.gp, self._names = self.gp.bind(inputs), inputs.names
        elif inputs.values.shape[1] != self._Z.shape[1]:
            raise ValueError(
                f"{name} has {inputs.values.shape[1]} columns but the active inputs have {self._Z.shape[1]}."
            )
        return inputs.values

    def _start(self, Z: np.ndarray) -> None:
        """An active set of these inputs, nothing learned yet."""
        m = Z.shape[0]
        self._kernel, self._bound, self._changes = strip(self.gp.kernel), True, 0
        self._encode, (leaves, treedef) = self._kernel.encode, jax.tree.flatten(self._kernel)
        self._block = functools.partial(tiles.compiled(_block, treedef), leaves)
        self._Z = np.concatenate([Z, np.zeros((self.capacity + 1 - m, Z.shape[1]), Z.dtype)])
        self._a, self._C, self._K = np.zeros(m), np.zeros((m, m)), np.zeros((m, m))
        if m:
            self._K = tiles.matrix(self._kernel, *[self._encode(Z)] * 2)
        self._refresh()

    def _refresh(self) -> None:
        """The inverse of K_zz afresh: rounding errors of rank-one changes do not pile up."""
        m = self._K.shape[0]
        if m:
            L, _ = cholesky(self._K)
            root = np.linalg.inv(L)
            self._Q = root.T @ root
        else:
            self._Q = np.zeros((0, 0))
        self._changes = 0

    def _look(self, X: np.ndarray) -> None:
        """Covariances of a block of data with the active set and with each other, in one compiled call for
        every size of the set: whichever of them joins it, nothing is left to compute.
        """
        b, m, room = X.shape[0], self._a.size, self.capacity + 1
        padded = np.concatenate([X, np.repeat(X[:1], (BLOCK if b > 1 else 1) - b, 0)])
        both = np.concatenate([self._Z[:m], np.repeat(X[:1], room - m, 0), padded])
        self._X, self._covariances = X, np.asarray(self._block(self._encode(padded), self._encode(both)))
        self._own, self._columns = room, list(range(m))

    def _see(self, i: int) -> _Seen:
        """Datum i of the block from the active set."""
        row = self._covariances[i]
        k = row[self._columns]
        return _Seen(k, self._Q @ k, float(row[self._own + i]))

    def _learn(self, i: int, mean: float, y: float) -> None:
        seen = self._see(i)
        rest = seen.prior - seen.k @ seen.e
        if not self.fixed and rest > self.novelty * seen.prior:
            self._append(i, seen, rest)
            itself = np.append(np.zeros(seen.k.size), 1.0)
            seen = _Seen(np.append(seen.k, seen.prior), itself, seen.prior)
        self._visit(seen, mean, y, _Site(0.0, 0.0), True)
        if self._a.size > self.capacity:
            weight = np.abs(self._a) if self.forget == "mean" else 1.0
            self._remove(int(np.argmin(weight / np.diag(self._Q))))

    def _visit(self, x: _Seen, mean: float, y: float, site: _Site, first: bool) -> tuple[_Site, float]:
        """Replace the site of a datum by the one that its likelihood asks for now, where that is proper: what
        it is afterwards, and how much it changed in units of the marginal's standard deviation.

        first: the datum was not seen before, so that it adds to the evidence.
        """
        precision, shift = site
        s = self._C @ x.k + x.e
        mu, v = mean + float(x.k @ self._a), max(float(x.k @ s), 0.0)  # of the projection
        slope = shift - precision * mu  # of the old site where the mean is now
        share = 1.0 - precision * v
        if not share > 0:
            return site, 0.0
        cavity = v / share
        centre = mu - cavity * slope
        open_ = max(x.prior - float(x.k @ x.e), 0.0) if self.variance == "full" else 0.0
        log_Z, d, D = self._tilted(y, centre, cavity + open_)
        if first:
            self.log_evidence, self.seen = self.log_evidence + log_Z, self.seen + 1
        scale = 1.0 - cavity * D
        if not (np.isfinite(d) and np.isfinite(D) and scale > 0):
            return site, 0.0
        W, g = D / scale, d / scale
        dW, dg = W - precision, g + W * (centre - mu) - slope
        if not 1.0 + dW * v > 0:
            return site, 0.0
        self._a = self._a + (dg / (1.0 + dW * v)) * s
        self._C = self._C - (dW / (1.0 + dW * v)) * np.outer(s, s)
        return _Site(W, g + W * centre), max(abs(dW) * v, abs(dg) * np.sqrt(v))

    def _append(self, i: int, seen: _Seen, rest: float) -> None:
        m = self._a.size
        self._Z[m] = self._X[i]
        self._columns.append(self._own + i)
        self._K = np.block([[self._K, seen.k[:, None]], [seen.k[None, :], np.array([[seen.prior]])]])
        self._Q = inverse_append(self._Q, seen.k, seen.prior) if m else np.array([[1.0 / rest]])
        self._a, self._C = np.append(self._a, 0.0), np.pad(self._C, (0, 1))
        self._changed()

    def _remove(self, i: int) -> None:
        """Take an input out: f there is replaced by its mean given f at the others,
        whose posterior stays what it was.
        """
        keep = np.delete(np.arange(self._a.size), i)
        self._Q, Q = inverse_remove(self._Q, i), self._Q
        e = -Q[keep, i] / Q[i, i]  # k(., z_i) is approximated by k(., Z) e
        c = self._C[keep, i]
        self._C = (
            self._C[np.ix_(keep, keep)] + np.outer(e, c) + np.outer(c, e) + self._C[i, i] * np.outer(e, e)
        )
        self._a = self._a[keep] + self._a[i] * e
        self._K = self._K[np.ix_(keep, keep)]
        self._Z[: keep.size] = self._Z[keep]
        del self._columns[i]
        self._changed()

    def _changed(self) -> None:
        self._changes += 1
        if self._changes > max(20, self._a.size):
            self._refresh()


class _Site(NamedTuple):
    """What is left of a datum: a Gaussian factor of f, with its precision and precision times centre."""

    precision: float
    shift: float


class _Seen(NamedTuple):
    """Covariances k of a datum with the active set, its projection e, and its prior variance."""

    k: np.ndarray
    e: np.ndarray
    prior: float


def _blocks(n: int) -> Iterator[slice]:
    """Of rows 0 to n."""
    return (slice(a, min(a + BLOCK, n)) for a in range(0, n, BLOCK))


def _block(kernel: Any, A: Any, B: Any) -> jax.Array:
    return kernel.block(A, B)
