"""Free hyperparameters as an unconstrained vector inside compiled code, with the log density of their priors.

Bounds become part of the constraint, so that no chain can leave them. A hyperparameter without a prior gets a
wide one on the unconstrained scale: a normal of standard deviation 3 around its start, which for a positive
one is LogNormal(log start, 3).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mercer.hyperpriors import AbstractHyperprior, Each
from mercer.params import Constraint, element_names, flatten, named_leaves, strip

WIDE = 3.0  # standard deviation of the prior of a hyperparameter that has none, on its unconstrained scale


@dataclasses.dataclass(frozen=True)
class Slot:
    """One free hyperparameter: which leaves it sets, where it stands in the vector, its shape,
    constraint and prior.
    """

    leaves: tuple[int, ...]
    start: int
    stop: int
    shape: tuple[int, ...]
    constraint: Constraint
    prior: AbstractHyperprior | None


@dataclasses.dataclass(frozen=True)
class Spec:
    """Everything about the hyperparameters that compiled code is made for."""

    treedef: Any
    slots: tuple[Slot, ...]

    def build(self, z: jax.Array, data: Mapping[str, Any]) -> tuple[Any, Any]:
        """The model at z (p,), whose leaves are traced,
        and the log density of the priors on the unconstrained scale.
        """
        leaves = list(data["hyper_leaves"])
        total: Any = 0.0
        for s in self.slots:
            u = z[s.start : s.stop]
            value = on_traced(s.constraint.value, u)
            if s.prior is None:
                e = (u - data["hyper_start"][s.start : s.stop]) / data["hyper_width"][s.start : s.stop]
                total += jnp.sum(
                    -0.5 * e**2 - jnp.log(data["hyper_width"][s.start : s.stop]) - 0.5 * np.log(2 * np.pi)
                )
            else:
                slope = on_traced(s.constraint.slope, value)
                total += jnp.sum(log_prob(s.prior, value)) + jnp.sum(
                    jnp.log(jnp.broadcast_to(slope, u.shape))
                )
            for i in s.leaves:
                leaves[i] = jnp.reshape(value, s.shape)
        return jax.tree.unflatten(self.treedef, leaves), total


class Hyperparameters:
    """The free hyperparameters of a model. `vector` (p,) is the start; `values(z)` are the visible ones (...,
    p).
    """

    def __init__(self, model: Any, spread: float = 1.0):
        bare = strip(model)
        index = {name: i for i, (name, _) in enumerate(named_leaves(bare))}
        self.model = model
        self.leaves, treedef = jax.tree.flatten(bare)
        slots: dict[int, Slot] = {}
        names: dict[int, list[str]] = {}
        for p, where in flatten(model).slots:
            if where.start in slots:  # tied to one that is there already
                old = slots[where.start]
                slots[where.start] = dataclasses.replace(old, leaves=(*old.leaves, index[p.name]))
                continue
            constraint = p.constraint if p.info.bounds is None else _bounded(p.constraint, p.info.bounds)
            slots[where.start] = Slot(
                (index[p.name],), where.start, where.stop, np.shape(p.value), constraint, p.info.prior
            )
            names[where.start] = list(element_names(p.name, np.shape(p.value)))
        self.spec = Spec(treedef, tuple(slots.values()))
        self.names = tuple(n for group in names.values() for n in group)
        self.size = len(self.names)
        self.vector, self.width = np.zeros(self.size), np.full(self.size, WIDE)
        for s in self.spec.slots:
            value = np.ravel(np.asarray(self.leaves[s.leaves[0]], float))
            self.vector[s.start : s.stop] = s.constraint.unconstrained(_inside(s.constraint, value))
            if not np.isfinite(s.constraint.lower):
                self.width[s.start : s.stop] = 10.0 * np.maximum(np.abs(value), spread)

    def data(self) -> dict[str, Any]:
        return {"hyper_leaves": self.leaves, "hyper_start": self.vector, "hyper_width": self.width}

    def values(self, z: np.ndarray) -> np.ndarray:
        """What people see, for unconstrained z (..., p)."""
        return np.concatenate([s.constraint.value(z[..., s.start : s.stop]) for s in self.spec.slots], -1)

    def model_at(self, values: np.ndarray) -> Any:
        """The model (with priors and bounds kept) at visible values (p,)."""
        from mercer.params import replace_leaves

        names = [name for name, _ in named_leaves(strip(self.model))]
        new = {
            names[i]: values[s.start : s.stop].reshape(s.shape).copy()
            for s in self.spec.slots
            for i in s.leaves
        }
        return replace_leaves(self.model, new)

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        """One draw of the priors, on the unconstrained scale (p,)."""
        z = np.empty(self.size)
        for s in self.spec.slots:
            part = slice(s.start, s.stop)
            if s.prior is None:
                z[part] = self.vector[part] + self.width[part] * rng.standard_normal(s.stop - s.start)
            else:
                z[part] = s.constraint.unconstrained(np.ravel(s.prior.sample(rng, s.shape)))
        return z

    def bounded(self) -> list[Any]:
        """Free hyperparameters with bounds."""
        return [p for p, _ in flatten(self.model).slots if p.info.bounds is not None]

    def without_prior(self) -> list[str]:
        """Names of hyperparameters that have no proper prior of their own."""
        return [self.names[s.start] for s in self.spec.slots if s.prior is None or not s.prior.proper]


def _bounded(constraint: Constraint, bounds: tuple[float, float]) -> Constraint:
    lower, upper = max(bounds[0], constraint.lower), min(bounds[1], constraint.upper)
    return Constraint(f"between {lower:g} and {upper:g}", lower, upper, closed=True)


def _inside(constraint: Constraint, value: np.ndarray) -> np.ndarray:
    if not (np.isfinite(constraint.lower) and np.isfinite(constraint.upper)):
        return value
    margin = 1e-3 * (constraint.upper - constraint.lower)
    return np.clip(value, constraint.lower + margin, constraint.upper - margin)


# ------------------------------------------------------------------------------------------------- NumPy
# formulas on traced values


def log_prob(prior: AbstractHyperprior, value: jax.Array) -> jax.Array:
    """The log density of a prior at a traced value."""
    if isinstance(prior, Each):
        return jnp.stack([jnp.reshape(log_prob(p, value[i]), ()) for i, p in enumerate(prior.priors)])
    return on_traced(prior.log_prob, value)


def on_traced(function: Callable[[Any], Any], value: jax.Array) -> jax.Array:
    """A formula written with NumPy, at a JAX value:
    every NumPy function it calls is replaced by JAX's of the same name.
    """
    out = function(_Traced(value))
    return out.value if isinstance(out, _Traced) else jnp.asarray(out)


class _Traced(np.lib.mixins.NDArrayOperatorsMixin):
    def __init__(self, value):
        self.value = value

    shape = property(lambda self: self.value.shape)
    ndim = property(lambda self: self.value.ndim)
    dtype = property(lambda self: self.value.dtype)

    def __array_ufunc__(self, ufunc, method, *inputs, **kw):
        if method != "__call__" or kw:
            return NotImplemented
        return _Traced(_jax_name(ufunc.__name__)(*map(_open, inputs)))

    def __array_function__(self, function, types, args, kw):
        return _Traced(_jax_name(function.__name__)(*jax.tree.map(_open, args), **kw))


def _open(a):
    return a.value if isinstance(a, _Traced) else a


def _jax_name(name: str):
    import jax.scipy.special as special

    found = getattr(jnp, name, None) or getattr(special, name, None)
    if found is None:
        raise TypeError(
            f"a prior's formula uses {name}, which JAX does not have: write log_prob with other NumPy "
            "functions."
        )
    return found
