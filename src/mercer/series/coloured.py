"""Noise that remembers: the ARMA process as a kernel of whole times,
to be learned with the rest of a model (GPML 9.2, B.3).
"""

from __future__ import annotations

from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mercer.inputs import InputError
from mercer.kernels.base import AbstractKernel
from mercer.kernels.statespace import TOLERANCE, AbstractKernelForm, state_space
from mercer.kernels.traits import Traits
from mercer.params import Hyper, ParameterError, hyper, interval, positive, real
from mercer.series.autoregressive import ARMA

BITS = 24  # of a lag


class Coloured(AbstractKernel):
    """The covariance of a stationary ARMA(p, q) process at times that are whole multiples of `step`: coloured
    noise.

    partial: the p partial autocorrelations, between -1 and 1; any values make a stationary process
    ma: b_1 ... b_q over b_0, or None
    variance: of the process
    step: the time between neighbours, not learned

    Add it to the kernel of the signal; `posterior.components` tells the two apart. With `solver="markov"` all
    of it is O(n).

    >>> kernel = kernels.SE(10.0) + Coloured([0.6])
    >>> fit = mercer.fit(mercer.GP(kernel), t[:, None], y, noise_variance=0.1)
    """

    partial: Hyper = hyper((0.5,), interval(-1.0, 1.0))
    ma: Hyper | None = hyper(None, real)
    variance: Hyper = hyper(1.0, positive)
    step: float = eqx.field(default=1.0, static=True)

    def __check_init__(self):
        if np.ndim(self.partial) != 1 or (self.ma is not None and np.ndim(self.ma) != 1):
            raise ParameterError(
                "Coloured.partial and Coloured.ma must be vectors: Coloured([0.6]) is an AR(1)."
            )
        if not self.step > 0:
            raise ParameterError(f"Coloured.step must be positive, got {self.step!r}.")

    @classmethod
    def of(cls, process: ARMA, step: float = 1.0) -> Coloured:
        """The kernel of a process with known coefficients."""
        partial, ar = [], np.array(process.ar)
        while ar.size:
            last = ar[-1]
            partial.append(last)
            ar = (ar[:-1] + last * ar[:-1][::-1]) / (1.0 - last**2)
        ma = process.ma[1:] / process.ma[0] if process.ma.size > 1 else None
        return cls(np.array(partial[::-1]), ma, float(process.covariance([0])[0]), step)

    def process(self) -> ARMA:
        """The process with the coefficients as they are now."""
        ma = np.concatenate([[1.0], np.zeros(0) if self.ma is None else self.ma])
        unit = ARMA(np.asarray(self._ar()), ma)
        return ARMA(unit.ar, ma * np.sqrt(float(self.variance) / unit.covariance([0])[0]))

    def bind(self, d: int, names: tuple[str, ...] | None = None) -> Self:
        if d != 1:
            raise ParameterError(
                f"Coloured reads one column, a time; the inputs have {d}: choose one with .on(...)."
            )
        return self

    def encode(self, X: Any) -> Any:
        X = super().encode(X)
        if not isinstance(X, jax.core.Tracer):
            steps = np.asarray(X)[:, 0] / self.step
            wrong = np.flatnonzero(np.abs(steps - np.round(steps)) > 1e-6 * np.maximum(np.abs(steps), 1.0))
            if wrong.size:
                raise InputError(
                    f"Coloured is defined at whole multiples of step = {self.step:g}, but row {wrong[0]} has "
                    f"{np.asarray(X)[wrong[0], 0]:g}: for times at any distance use Matern kernels."
                )
        return X

    def block(self, A: jax.Array, B: jax.Array) -> jax.Array:
        Phi, _, Pi = self.matrices()
        lag = self.steps(A, B.T)

        def double(carry, bit):
            state, Phi = carry
            return (jnp.where(((lag >> bit) & 1)[..., None] == 1, state @ Phi.T, state), Phi @ Phi), None

        start = jnp.broadcast_to(Pi[:, 0], (*lag.shape, Pi.shape[0]))
        return jax.lax.scan(double, (start, Phi), jnp.arange(BITS))[0][0][..., 0]

    def diag(self, A: jax.Array) -> jax.Array:
        return jnp.full(A.shape[0], self.variance)

    def steps(self, a: jax.Array, b: jax.Array) -> jax.Array:
        """The lag in whole steps."""
        return jnp.round(jnp.abs(a - b) / self.step).astype(int)

    def matrices(self) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Phi, Q and Pi (r, r) of the vector AR(1) whose first entry is the process."""
        ar, q = self._ar(), 0 if self.ma is None else self.ma.shape[0]
        r = max(ar.shape[0], q + 1)
        Phi = jnp.diag(jnp.ones(r - 1), 1).at[: ar.shape[0], 0].set(ar)
        noise = jnp.zeros(r).at[0].set(1.0)
        noise = noise if self.ma is None else noise.at[1 : q + 1].set(self.ma)
        Q = jnp.outer(noise, noise)
        Pi = jnp.linalg.solve(jnp.eye(r * r) - jnp.kron(Phi, Phi), Q.ravel()).reshape(r, r)
        scale = self.variance / Pi[0, 0]
        return Phi, scale * Q, scale * Pi

    def _ar(self):
        """The coefficients with these partial autocorrelations (Durbin's recursion)."""
        ar = jnp.zeros(0)
        for p in range(self.partial.shape[0]):
            last = self.partial[p]
            ar = jnp.append(ar - last * ar[::-1], last)
        return ar

    def traits(self, d: int = 1) -> Traits:
        return Traits(stationary=True, max_dimension=1, beyond="returns to the mean")


@state_space.register
def _(kernel: Coloured, tolerance=TOLERANCE):
    q = 0 if kernel.ma is None else kernel.ma.shape[0]
    return ColouredForm(kernel, max(kernel.partial.shape[0], q + 1))


class ColouredForm(AbstractKernelForm):
    """The vector AR(1); many steps at once by repeated squaring."""

    states: int = eqx.field(static=True)

    @property
    def size(self) -> int:
        return self.states

    def transition(self, t0: jax.Array, t1: jax.Array) -> tuple[jax.Array, jax.Array]:
        Phi, Q, _ = self.kernel.matrices()
        steps = self.kernel.steps(t1, t0)

        def double(carry, bit):
            total, spread, Phi, Q = carry
            now = (((steps >> bit) & 1) == 1)[:, None, None]
            total = jnp.where(now, Phi @ total, total)
            spread = jnp.where(now, Phi @ spread @ Phi.T + Q, spread)
            return (total, spread, Phi @ Phi, Q + Phi @ Q @ Phi.T), None

        start = self._spread(jnp.eye(self.states), t0), self._spread(jnp.zeros_like(Q), t0), Phi, Q
        return jax.lax.scan(double, start, jnp.arange(BITS))[0][:2]

    def covariance(self, t: jax.Array) -> jax.Array:
        return self._spread(self.kernel.matrices()[2], t)

    def observation(self, t: jax.Array) -> jax.Array:
        return self._spread(jnp.eye(self.states)[0], t)
