"""KISS-GP: covariances interpolated from a regular grid, for much data in a few columns (Wilson and Nickisch
2015).

f is the cubic interpolation S u of its values u on a grid of g points, so that K = S K_u S' with 4^d weights
in a row of S, and K_u Toeplitz in every direction (`mercer.linalg.lattice`). With T = W^1/2 S and A = T'T,
the matrix B = I + T K_u T' maps vectors z a + T v of n numbers to vectors of the same kind,

    B (z a + T v) = z a + T (v + K_u m),     m = T'(z a + T v) = c a + A v,  c = T'z,

and their products are z'z a a' + ... = a mu + v.m with mu = z'z a + c.v: conjugate gradients run on the g + 1
numbers (v, a) and their images (m, mu), and no iteration costs anything that grows with n (Yadav, Sheldon and
Musco 2021). The preconditioner is P = I + T G G' T', G the pivoted Cholesky factor of K_u, and

    log|B| = log|P| + E[r' P^-1/2 log(P^-1/2 B P^-1/2) P^-1/2 r],     r = e + T G e', independent e and e',

by Lanczos quadrature, with a standard error that the State reports (as in `mercer.solvers.iterative`).
"""

from __future__ import annotations

import dataclasses
import functools
import warnings
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.linalg import solve_triangular

from mercer.linalg import cg, tiles
from mercer.linalg.lattice import Lattice, LatticeToeplitz
from mercer.params import strip
from mercer.prior import AbstractPrior
from mercer.selection.pivoted import pivoted_cholesky
from mercer.solvers.host import AbstractHostState, Columns, KernelBar, Pulled
from mercer.solvers.protocol import AbstractSolver, AbstractState, AbstractWorkspace, Cost, Sites, SolverError
from mercer.solvers.toeplitz import at_lag

MOST_COLUMNS = 4
MOST_POINTS, FEWEST = 2**16, 8  # of a grid that is chosen; in each direction
UNSEEN = 1e-4  # share of the variance between the points of a grid that is chosen, at half the length-scales
COARSE = 0.02  # from here on the notes speak up
BLOCK = 32  # right-hand sides solved at once
LAG_ROWS = 4096  # lags evaluated at once, where there are many
ITERATIONS = 30  # what `cost` takes for granted


@dataclasses.dataclass(frozen=True)
class KISS(AbstractSolver):
    """Covariances interpolated from a regular grid (KISS-GP, structured kernel interpolation): for very many
    data in one to four columns and a stationary kernel, with any noise.

    grid: points in each column, one number or one for each; by default as many as the kernel needs, up to
        65,536 in total
    box: (lowest, highest) of each column that the grid covers; by default those of the data
    rank: columns of the pivoted Cholesky preconditioner
    tol: relative residual at which a solution is good enough
    probes: random vectors for the log-determinant and its derivatives; their standard errors, which fall as 1
        / sqrt(probes), are in the State's notes
    max_iterations: where to give up (with a warning)
    seed: of the probes, which stay the same during a fit

    Time O(n) once, then O(g log g) for each iteration on g points of the grid. What f does between the points
    is not seen: the notes say which share of its variance that is, and speak up where it is more than 2 %,
    because length-scales have become short for the grid. Means take O(1) an input, variances a block of
    iterations for every 32; outside the box the kernel itself is used.

    >>> mercer.GPRegressor(kernels.Matern([1.0, 1.0]), solver=KISS()).fit(X, y)
    >>> KISS(grid=(200, 100)).factor(prior, X, sites)
    """

    grid: int | tuple[int, ...] | None = None
    box: tuple[tuple[float, float], ...] | None = None
    rank: int = 100
    tol: float = 1e-6
    probes: int = 16
    max_iterations: int = 1000
    seed: int = 0

    offers: ClassVar[frozenset[str]] = frozenset({"variance", "logdet", "sample", "full"})
    pilot: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.rank < 1 or self.probes < 2 or self.max_iterations < 1 or not 0 < self.tol < 1:
            raise ValueError(
                "KISS needs rank >= 1, probes >= 2 (for a standard error), max_iterations >= 1 and "
                f"0 < tol < 1, got {self}."
            )
        counts = () if self.grid is None else np.atleast_1d(self.grid).tolist()
        if any(m < 2 or m != int(m) for m in counts):
            raise ValueError(f"KISS.grid must be at least 2 points in each column, got {self.grid}.")
        if any(not low <= high for low, high in self.box or ()):
            raise ValueError(f"KISS.box must be (lowest, highest) of each column, got {self.box}.")

    def prepare(self, prior: Any, X: np.ndarray, y: np.ndarray, noise_variance: Any = None) -> KISS:
        """With a grid for these data and the kernel's length-scales of now."""
        d = _columns(prior, X)
        low, high = X.min(0).tolist(), X.max(0).tolist()
        box = tuple(zip(low, high, strict=True)) if self.box is None else self.box
        if len(box) != d:
            raise SolverError(f"KISS.box has {len(box)} columns, the inputs have {d}.")
        counts = chosen_counts(prior, box) if self.grid is None else _for_each(self.grid, d)
        return dataclasses.replace(self, grid=counts, box=box)

    def workspace(self, prior: Any, X: np.ndarray) -> KISSWorkspace:
        return KISSWorkspace(self.prepare(prior, X, X), prior, X)

    def factor(self, prior: Any, X: np.ndarray, sites: Sites, workspace: Any = None) -> AbstractState:
        return KISSState(prior, X, sites, workspace or self.workspace(prior, X))

    def cost(self, n: int, d: int, L: int = 1) -> Cost:
        g = MOST_POINTS if self.grid is None else float(np.prod(_for_each(self.grid, d)))
        iteration = g * (self.probes + 1) * (2.0**d * 80 + 2 * 7**d + 8 * self.rank)
        stored = 4**d * 2 * n + 7**d * 2 * g + (self.probes + 4) * n
        return Cost(
            flops=L * (4.0**d * n * (2 * self.probes + 2 * self.rank) + ITERATIONS * iteration),
            bytes=8.0 * L * (stored + g * (4 * self.rank + 2.0**d * 40) + n * self.rank),
            rate=4e9,
        )


def _columns(prior: Any, X: np.ndarray) -> int:
    """d, of data that KISS can take."""
    if isinstance(prior, tuple):
        raise SolverError("KISS has one latent function; for several use solver='dense'.")
    d = X.shape[1]
    if X.dtype == object or d > MOST_COLUMNS or not prior.kernel.traits(d).stationary:
        raise SolverError(
            f"KISS needs a stationary kernel on one to {MOST_COLUMNS} numeric columns, not {prior.kernel} on "
            f"{d}; use solver='auto', which chooses among the others."
        )
    return d


def _for_each(grid: Any, d: int) -> tuple[int, ...]:
    counts = tuple(int(m) for m in np.broadcast_to(grid, (d,))) if np.size(grid) in (1, d) else ()
    if not counts:
        raise SolverError(f"KISS.grid has {np.size(grid)} numbers, the inputs have {d} columns.")
    return counts


def chosen_counts(prior: AbstractPrior, box: tuple[tuple[float, float], ...]) -> tuple[int, ...]:
    """Points in each column: as few as see all but 1e-4 of the variance if length-scales were half of what
    they are, fewer where that is more than 65,536.
    """
    d, most = len(box), MOST_POINTS if len(box) == 1 else 4096
    counts = np.unique(np.geomspace(FEWEST, most, 60).round().astype(int))
    chosen = []
    for j, (low, high) in enumerate(box):
        enough = unseen(prior, d, j, 2.0 * (high - low) / (counts - 1)) <= UNSEEN
        chosen.append(counts[np.argmax(enough)] if enough.any() else most)
    shrink = min(1.0, (MOST_POINTS / np.prod(np.array(chosen, float))) ** (1 / d))
    return tuple(max(FEWEST, int(m * shrink)) for m in chosen)


def unseen(prior: AbstractPrior, d: int, j: int, spacing: np.ndarray) -> np.ndarray:
    """The variance of f halfway between two points of a grid along column j, given its interpolation, over
    the variance of f, for every spacing (c,): (c,).
    """
    steps = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0])
    lags = np.zeros((steps.size * spacing.size, d))
    lags[:, j] = np.outer(spacing, steps).ravel()
    k = prior.kernel(lags, np.zeros((1, d))).reshape(-1, steps.size)
    between = k @ np.array([164 / 256, -18 / 8, 126 / 256, 2 / 8, -36 / 256, 2 / 256])
    return np.maximum(1.0 + between / k[:, 0], 0.0)


class KISSWorkspace(AbstractWorkspace):
    """The grid, the weights of the data on it, and what depends on the kernel alone for the last one seen."""

    def __init__(self, solver: KISS, prior: AbstractPrior, X: np.ndarray):
        assert solver.box is not None and isinstance(solver.grid, tuple)
        self.solver, self.columns = solver, Columns(X)
        self.lattice = Lattice.over(solver.box, solver.grid)
        if (outside := ~self.lattice.inside(X)).any():
            raise SolverError(
                f"row {int(np.argmax(outside))} of X lies outside the box of KISS, {solver.box}: give a "
                "larger one, or none."
            )
        self.S = self.lattice.interpolation(X)
        self.toeplitz = LatticeToeplitz(self.lattice)
        lags = self.toeplitz.lags
        pair = prior.kernel.encode(lags), prior.kernel.encode(np.zeros_like(lags))
        self.lags = tiles.Panels(pair, LAG_ROWS if len(lags) > LAG_ROWS else tiles.tile_size(len(lags)))
        self.points = prior.kernel.encode(self.lattice.points())
        self._seen: Any = None
        self._known: tuple[np.ndarray, np.ndarray]

    @functools.cached_property
    def signs(self) -> np.ndarray:
        """The probes (n, p)."""
        rng = np.random.default_rng(self.solver.seed)
        return rng.choice([-1.0, 1.0], (self.S.shape[0], self.solver.probes))

    @functools.cached_property
    def _gram(self) -> sp.csr_array:
        return sp.csr_array(self.S.T @ self.S)

    @functools.cached_property
    def _signs_on_grid(self) -> np.ndarray:
        return np.asarray(self.S.T @ self.signs)

    def gram(self, W: np.ndarray) -> tuple[sp.csr_array, np.ndarray]:
        """A = S'WS (g, g), and S'W^1/2 times the probes (g, p)."""
        if np.ptp(W) == 0:
            return W[0] * self._gram, np.sqrt(W[0]) * self._signs_on_grid
        A = sp.csr_array(self.S.T @ sp.csr_array(self.S * W[:, None]))
        return A, np.asarray(self.S.T @ (np.sqrt(W)[:, None] * self.signs))

    def hold(self, prior: Any) -> None:
        self.known(prior)

    def share(self, other: KISSWorkspace) -> None:
        if other.lattice == self.lattice:
            self._seen, self._known = other._seen, other._known

    def known(self, prior: AbstractPrior) -> tuple[np.ndarray, np.ndarray]:
        """The spectrum of K_u, and G (g, k) with G G' close to K_u."""
        if self._seen is not prior.kernel:
            kernel = strip(prior.kernel)
            spectrum = self.toeplitz.spectrum(tiles.map_rows(at_lag, kernel, self.lags))
            panels = tiles.Panels(self.points, tiles.tile_size(self.lattice.size))
            self._known = spectrum, pivoted_cholesky(kernel, panels, self.solver.rank)[0]
            self._seen = prior.kernel
        return self._known


class Vectors(NamedTuple):
    """Vectors z a + T v, in columns: `place` (g + 1, q) are v and, in the last row, a; `image` (g + 1, q) are
    m and mu.
    """

    place: np.ndarray
    image: np.ndarray

    def times(self, other: Vectors) -> np.ndarray:
        """The product of each column with that of the other: (q,)."""
        return np.einsum("ij,ij->j", self.place, other.image)


class Solved(NamedTuple):
    """What `KISSState.solve` found for B X = R: X, Y = P^-1 R, R'Y of each column (q,), and the course of the
    iterations.
    """

    X: Vectors
    Y: Vectors
    whole: np.ndarray
    course: cg.Solution


class KISSState(AbstractHostState):
    """`logdet` with its standard error `logdet_error`; `notes` say both, how the iterations ended, and what
    the grid does not see.
    """

    pulls = frozenset({"log_normaliser", "mean", "alpha", "apply"})  # the others need all of R
    exact = False

    def __init__(self, prior: AbstractPrior, X: np.ndarray, sites: Sites, workspace: KISSWorkspace):
        super().__init__(prior, X, sites, workspace.columns)
        self.solver, self.kernel, self.jitter = workspace.solver, strip(prior.kernel), 0.0
        self.lattice, self.toeplitz, self.S, self.work = (
            workspace.lattice,
            workspace.toeplitz,
            workspace.S,
            workspace,
        )
        self.root = np.sqrt(self.precision)
        self.spectrum, G = workspace.known(prior)
        self.A, self.signs_on_grid = workspace.gram(self.precision)
        AG = self.A @ G
        core = np.linalg.cholesky(np.eye(G.shape[1]) + G.T @ AG)
        self.near_logdet = 2.0 * float(np.sum(np.log(np.diag(core))))
        self.G, self.AG = G, AG
        self.F, self.AF = (solve_triangular(core, V.T, lower=True).T for V in (G, AG))  # P^-1 = I - T F F'T'
        self._found = self._start()

    def solve_sites(self) -> tuple[np.ndarray, float]:
        return self._found

    def _start(self) -> tuple[np.ndarray, float]:
        """One block of iterations for the data and the probes: alpha and the log normaliser."""
        g, delta = self.slope, self.centre - self.m
        Kg = np.zeros_like(delta) if g is None else self.times_K(g[:, None])[:, 0]
        rest = delta - Kg
        noise = np.random.default_rng(self.solver.seed + 1).normal(size=(self.G.shape[1], self.solver.probes))
        c = np.concatenate([self.S.T @ (self.precision * rest)[:, None], self.signs_on_grid], 1)
        squares = np.append(rest @ (self.precision * rest), np.full(self.solver.probes, float(rest.size)))
        start = Vectors(np.zeros((c.shape[0] + 1, c.shape[1])), np.empty((c.shape[0] + 1, c.shape[1])))
        start.place[-1] = 1.0
        start.place[:-1, 1:] = self.G @ noise
        start.image[:-1], start.image[-1] = c, squares
        start.image[:-1, 1:] += self.AG @ noise
        start.image[-1] += np.einsum("ij,ij->j", c, start.place[:-1])
        solved = self.solve(start, c)
        r = self.precision * (solved.X.place[-1, 0] * rest + self.S @ solved.X.place[:-1, 0])
        self._keep_probes(solved)
        alpha = r if g is None else g + r
        value = -0.5 * self.logdet - 0.5 * rest @ r
        return alpha, float(value if g is None else value - g @ delta + 0.5 * g @ Kg)

    def _keep_probes(self, solved: Solved) -> None:
        """The log-determinant and what its derivatives need; what to say of both."""
        course, whole, p = solved.course, solved.whole[1:], self.solver.probes
        mean = lambda f: whole * course.quadrature(f)[1:]  # noqa: E731
        logs = mean(np.log)
        self.logdet, self.logdet_error = self.near_logdet + float(logs.mean()), _standard_error(logs)
        gain, change = mean(lambda t: (t - 1) ** 2 / t).mean(), mean(lambda t: (t - 1) ** 2).mean()
        self.share = float(gain / change) if change > 0 else 1.0
        self.probe, self.inverse_probe = (
            Vectors(V.place[:, 1:], V.image[:, 1:]) for V in (solved.Y, solved.X)
        )
        along = whole - self.share * mean(lambda t: t) - self.probe.times(self._ahead(self.share))
        ended = (
            ""
            if (course.residual <= self.solver.tol).all()
            else f"DID NOT CONVERGE to {self.solver.tol:.1g}: a larger rank or max_iterations may help; "
        )
        self.notes = (
            f"conjugate gradients on the grid: {ended}{course.iterations.max()} iterations, relative "
            f"residual {course.residual.max():.1e}",
            f"log-determinant by {p} random probes: standard error of the log evidence "
            f"{0.5 * self.logdet_error:.2g}, of its derivative along the log amplitude "
            f"{0.5 * _standard_error(along):.2g}",
            self._grid_note(),
        )

    def _grid_note(self) -> str:
        d, spacing = len(self.lattice.shape), np.array(self.lattice.spacing)
        share = max(float(unseen(self.prior, d, j, spacing[[j]])[0]) for j in range(d))
        points = " x ".join(str(m - 2) for m in self.lattice.shape)
        said = f"a grid of {points} points, between which {share:.1g} of the variance of f is not seen"
        if share <= COARSE:
            return said
        return f"THE GRID IS TOO COARSE for these length-scales: {said}; fit again, or give a finer grid"

    # -- solutions -------------------------------------------------------------------------------------------

    def solve(self, R: Vectors, c: np.ndarray) -> Solved:
        """B X = R by conjugate gradients with the preconditioner P, all columns side by side."""
        tol, most = self.solver.tol, self.solver.max_iterations
        Y = self._near(R, c)
        first, R, P = Y, Vectors(R.place.copy(), R.image.copy()), Vectors(Y.place.copy(), Y.image.copy())
        X = Vectors(np.zeros_like(R.place), np.zeros_like(R.image))
        rest = R.times(Y)
        whole, q = rest.copy(), rest.size
        iterations = np.zeros(q, int)
        steps: list[np.ndarray] = []
        ratios: list[np.ndarray] = []
        active = rest > 0
        while active.any() and len(steps) < most:
            BP = self._times_B(P, c)
            curvature = P.times(BP)
            active &= curvature > 0
            step = np.divide(rest, curvature, out=np.zeros(q), where=active)
            for x, r, p, b in zip(X, R, P, BP, strict=True):
                x += step * p
                r -= step * b
            Y = self._near(R, c)
            new = np.where(active, np.maximum(R.times(Y), 0.0), rest)
            ratio = np.divide(new, rest, out=np.zeros(q), where=active)
            for p, y in zip(P, Y, strict=True):
                p *= ratio
                p += y
            iterations += active
            rest = new
            steps.append(step)
            ratios.append(ratio)
            active &= rest > tol**2 * whole
        residual = np.sqrt(np.divide(rest, whole, out=np.zeros(q), where=whole > 0))
        if (residual > tol).any():
            warnings.warn(
                f"conjugate gradients stopped after {len(steps)} iterations with a relative residual of "
                f"{residual.max():.1e}, above tol = {tol:.1e}: raise rank or max_iterations.",
                RuntimeWarning,
                stacklevel=3,
            )
        table = lambda rows: np.reshape(rows, (len(rows), q))  # noqa: E731
        course = cg.Solution(X.place, residual, iterations, table(steps), table(ratios))
        return Solved(X, first, whole, course)

    def _times_B(self, P: Vectors, c: np.ndarray) -> Vectors:
        Km = self.toeplitz.times(self.spectrum, P.image[:-1])
        place, image = P.place.copy(), P.image.copy()
        place[:-1] += Km
        image[:-1] += self.A @ Km
        image[-1] += np.einsum("ij,ij->j", c, Km)
        return Vectors(place, image)

    def _near(self, R: Vectors, c: np.ndarray) -> Vectors:
        """P^-1 R."""
        u = self.F.T @ R.image[:-1]
        Fu = self.F @ u
        place, image = R.place.copy(), R.image.copy()
        place[:-1] -= Fu
        image[:-1] -= self.AF @ u
        image[-1] -= np.einsum("ij,ij->j", c, Fu)
        return Vectors(place, image)

    def apply(self, V: np.ndarray) -> np.ndarray:
        out = np.empty_like(V, dtype=float)
        for j in range(0, V.shape[1], BLOCK):
            part = V[:, j : j + BLOCK]
            c = self.S.T @ (self.precision[:, None] * part)
            squares = np.einsum("ij,ij->j", part, self.precision[:, None] * part)
            place = np.zeros((c.shape[0] + 1, c.shape[1]))
            place[-1] = 1.0
            X = self.solve(Vectors(place, np.vstack([c, squares])), c).X.place
            out[:, j : j + BLOCK] = self.precision[:, None] * (X[-1] * part + self.S @ X[:-1])
        return out

    # -- covariances -----------------------------------------------------------------------------------------

    def times_K(self, V: np.ndarray) -> np.ndarray:
        return np.asarray(self.S @ self.toeplitz.times(self.spectrum, self.S.T @ V))

    def cross(self, Xs: np.ndarray, V: np.ndarray) -> np.ndarray:
        inside, out = self.lattice.inside(Xs), np.empty((Xs.shape[0], V.shape[1]))
        on_grid = self.S.T @ V
        if inside.any():
            S = self.lattice.interpolation(Xs[inside])
            out[inside] = S @ self.toeplitz.times(self.spectrum, on_grid)
        if not inside.all():
            far, points = self.kernel.encode(Xs[~inside]), self.work.points
            left, right = (tiles.Panels(A, tiles.tile_size(self.lattice.size)) for A in (far, points))
            out[~inside] = cg.times(self.kernel, left, right, on_grid)
        return out

    def _with_grid(self, Xs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """cov(u, f) (g, m) at test inputs, and the prior variance there (m,)."""
        inside, K = self.lattice.inside(Xs), np.empty((self.lattice.size, Xs.shape[0]))
        prior = np.empty(Xs.shape[0])
        if inside.any():
            S = self.lattice.interpolation(Xs[inside])
            K[:, inside] = self.toeplitz.times(self.spectrum, S.T.toarray())
            prior[inside] = (S * K[:, inside].T).sum(1)
        if not inside.all():
            far = tiles.Panels(self.kernel.encode(Xs[~inside]), tiles.tile_size(BLOCK))
            K[:, ~inside] = tiles.between(self.kernel, tiles.Panels(self.work.points, far.size), far)
            prior[~inside] = tiles.diagonal(self.kernel, far)
        return K, prior

    def _explained(self, K: np.ndarray) -> np.ndarray:
        """A x (g, m) with T x = B^-1 T K: what data say of f is K' times this."""
        nothing = np.zeros((1, K.shape[1]))
        start = Vectors(np.vstack([K, nothing]), np.vstack([self.A @ K, nothing]))
        return self.solve(start, np.zeros_like(K)).X.image[:-1]

    def predict(
        self, Xs: np.ndarray, full: bool = False, variance: bool = True
    ) -> tuple[np.ndarray, np.ndarray | None]:
        mean = np.asarray(self.prior.mean.value(Xs), float) + self.cross(Xs, self.alpha[:, None])[:, 0]
        if not variance:
            return mean[:, None], None
        blocks = [slice(j, j + BLOCK) for j in range(0, Xs.shape[0], BLOCK)]
        if not full:
            parts = [self._with_grid(Xs[rows]) for rows in blocks]
            out = [prior - np.einsum("ij,ij->j", K, self._explained(K)) for K, prior in parts]
            return mean[:, None], np.maximum(np.concatenate(out), 0.0)[:, None]
        K, _ = self._with_grid(Xs)
        inside = self.lattice.inside(Xs)
        covariance = np.asarray(self.prior.kernel(Xs))
        if inside.any():
            within = self.lattice.interpolation(Xs[inside]) @ K
            covariance[inside], covariance[:, inside] = within, within.T
        covariance -= K.T @ np.hstack([self._explained(K[:, rows]) for rows in blocks])
        return mean[:, None], 0.5 * (covariance + covariance.T)

    def smoother(self, Xs: np.ndarray) -> np.ndarray:
        return self.apply(np.asarray(self.S @ self._with_grid(Xs)[0])).T

    # -- variances at the data -------------------------------------------------------------------------------

    def variances(self) -> np.ndarray:
        return self._variances

    @functools.cached_property
    def _variances(self) -> np.ndarray:
        variance = self.predict(self.X)[1]
        assert variance is not None
        return variance[:, 0]

    def kappa(self) -> np.ndarray:
        return self.precision * (1.0 - self.precision * self.variances())

    def site_kappa(self) -> np.ndarray:
        """By the probes: a derivative of the evidence takes no solution for each datum."""
        return self.precision * self._estimated_diagonal()

    def site_variances(self) -> np.ndarray:
        """By the probes where sites say something; elsewhere by solutions."""
        told = self.precision > 0
        out = np.empty_like(self.precision)
        out[told] = (1.0 - self._estimated_diagonal()[told]) / self.precision[told]
        if not told.all():
            variance = self.predict(self.X[~told])[1]
            assert variance is not None
            out[~told] = variance[:, 0]
        return out

    def _estimated_diagonal(self) -> np.ndarray:
        """diag B^-1 (n,)."""
        exact = 1.0 - self.precision * np.square(self.S @ self.F).sum(1)
        ahead = self._ahead(1.0)
        probe, change = (
            V.place[-1] * self.work.signs + self.root[:, None] * (self.S @ V.place[:-1])
            for V in (self.probe, ahead)
        )
        return exact + np.mean(probe * change, 1)

    def _ahead(self, share: float) -> Vectors:
        """B^-1 - share P^-1 is the mean over the probes of this times `probe`'."""
        pairs = zip(self.inverse_probe, self.probe, strict=True)
        return Vectors(*(x - share * y for x, y in pairs))

    # -- cotangents ------------------------------------------------------------------------------------------

    def pull_kernel(self, bar: KernelBar, inputs: bool) -> Pulled:
        """S'RS by the probes: share (A - A F F' A) and the mean of their images, ahead probe'."""
        sums, c = self.toeplitz.lag_sums(self.S.T @ bar.P, self.S.T @ bar.Q), bar.coefficient
        if c:
            ahead, probe = self._ahead(self.share).image[:-1], self.probe.image[:-1]
            near = self.toeplitz.sparse_lag_sums(self.A) - self.toeplitz.lag_sums(self.AF, self.AF)
            sums += c * (self.share * near + self.toeplitz.lag_sums(ahead, probe) / self.solver.probes)
        return Pulled(tiles.pull_rows(at_lag, self.kernel, self.work.lags, sums))


def _standard_error(values: np.ndarray) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(values.size))
