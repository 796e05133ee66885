"""What an action does, as Gaussian processes say it: the next state's mean and covariance, in JAX."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mercer.control.environments import ControlError
from mercer.control.episodes import Transitions
from mercer.control.rewards import as_arrays
from mercer.gp import GP, Model
from mercer.kernels import SE
from mercer.learning import fit
from mercer.likelihoods import Gaussian
from mercer.progress import Progress
from mercer.uncertain import Predictor


class GPTransition(eqx.Module):
    """The next state of a known state and action: one Gaussian process of (state, action) for each of D state
    variables, as the text has it (7.32). It is a module of arrays: a policy sought for one is sought for
    another without compiling again.

    predictor: of D functions of D + A columns
    differences: whether they are of changes of the state, or of the state itself

    `GPTransition.learn` learns them; posteriors of one's own are joined: `Predictor.joined([...])`.

    >>> transition = GPTransition.learn(mc.control.pooled(episodes))
    >>> mean, covariance = transition(state, action)
    """

    predictor: Predictor
    differences: bool = eqx.field(static=True, default=False)

    @classmethod
    def learn(
        cls,
        transitions: Transitions,
        differences: bool = False,
        max_evaluations: int = 200,
        progress: Progress = None,
    ) -> GPTransition:
        """SE kernels with a length-scale for each column, and noise, of the highest evidence."""
        inputs = np.concatenate([transitions.states, transitions.actions], 1)
        if len(inputs) < 5 or not np.isfinite(inputs).all() or not np.isfinite(transitions.next_states).all():
            raise ControlError(f"{len(inputs)} transitions: dynamics take five and more, of finite numbers.")
        targets = transitions.next_states - (transitions.states if differences else 0.0)
        found = []
        for y in targets.T:
            level = float(np.mean(y**2))
            start = Model(
                GP(SE(inputs.std(0) * 2.0 + 1e-6, 2.0 * level + 1e-8)), Gaussian(1e-3 * level + 1e-10)
            )
            found.append(fit(start, inputs, y, max_evaluations=max_evaluations, progress=progress).posterior)
        return cls(_in_steps(as_arrays(Predictor.joined([one.predictor() for one in found]))), differences)

    def __call__(self, state: Any, action: Any) -> tuple[jax.Array, jax.Array]:
        """Mean (D,) and covariance (D, D), which is diagonal."""
        x = jnp.concatenate([state, action])
        mean = self.predictor.mean(x) + (state if self.differences else 0.0)
        return mean, jnp.diag(jnp.maximum(self.predictor.variance(x), 0.0))


def _in_steps(predictor: Predictor) -> Predictor:
    """With rows of weight zero up to the next multiple of fifty: more data seldom are another shape."""
    more = (0, -predictor.X.shape[1] % 50)
    return eqx.tree_at(
        lambda p: (p.X, p.alpha, p.R),
        predictor,
        (
            jnp.pad(predictor.X, ((0, 0), more, (0, 0)), mode="edge"),
            jnp.pad(predictor.alpha, ((0, 0), more)),
            jnp.pad(predictor.R, ((0, 0), more, more)),
        ),
    )
