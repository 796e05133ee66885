"""Posteriors that average, as arrays in a saved model: hyperparameters of every part with their weights,
or draws of chains.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from mercer.gp import choose_solver
from mercer.params import strip
from mercer.posteriors.average import AveragedPosterior
from mercer.posteriors.draws import DrawsPosterior
from mercer.posteriors.given import GivenHyperparameters, GivenLatents
from mercer.sampling.chains import Chains
from mercer.sampling.hyper import Hyperparameters
from mercer.serialise import SerialiseError

_CHAINS = ("draws", "log_density", "acceptance", "divergent", "energy", "evaluations", "variance")


def pack(posterior: Any, arrays: dict[str, np.ndarray], where: str) -> dict[str, Any]:
    """What JSON says of the posterior; its arrays go to `arrays` under names that start with `where`."""
    if isinstance(posterior, AveragedPosterior):
        arrays[f"{where}.values"] = np.stack(
            [_values(posterior.model, p.model) for p in posterior.posteriors]
        )
        arrays[f"{where}.weights"] = posterior.weights
        return {"kind": "average", "log_evidence": posterior.evidence, "notes": list(posterior.notes)}
    arrays[f"{where}.values"] = np.stack([_values(posterior.model, m) for m in posterior.models])
    if isinstance(posterior.given, GivenLatents):
        arrays[f"{where}.whitened"] = posterior.given.whitened
    for name, value in posterior.draws.items():
        arrays[f"{where}.drawn.{name}"] = value
    chains = posterior.chains
    for name in _CHAINS:
        arrays[f"{where}.chains.{name}"] = np.asarray(getattr(chains, name))
    status = posterior.status
    return {
        "kind": "draws",
        "drawn": list(posterior.draws),
        "names": list(posterior.diagnostics.names),
        "notes": list(posterior.notes),
        "step_size": chains.step_size,
        "interrupted": bool(chains.interrupted),
        "seconds": chains.seconds,
        "status": [bool(status.converged), int(status.iterations), status.message],
    }


def unpack(
    tree: Any, arrays: dict[str, np.ndarray], where: str, model: Any, inputs: Any, y: np.ndarray, solver: Any
) -> Any:
    """The posterior that `pack` described. `model` has the free hyperparameters whose values the arrays
    hold.
    """
    from mercer.inference import InferenceStatus

    hyper = Hyperparameters(model)
    values = _array(arrays, f"{where}.values", 2)
    if values.shape[1] != hyper.size or not len(values):
        raise SerialiseError(
            f"the saved hyperparameters have {values.shape[1]} columns but the model has {hyper.size} free "
            "ones."
        )
    models = [hyper.model_at(v) if hyper.size else model for v in values]
    if tree["kind"] == "average":
        parts = tuple(m.condition(inputs, y, None, solver) for m in models)
        return AveragedPosterior(
            parts, _array(arrays, f"{where}.weights", 1), tree["log_evidence"], tuple(tree["notes"])
        )
    if tree["kind"] != "draws":
        raise SerialiseError(f"there is no averaged posterior of kind {tree['kind']!r}.")
    whitened = _array(arrays, f"{where}.whitened", 3) if f"{where}.whitened" in arrays else None
    L, n = model.likelihood.latents, len(y)
    if whitened is not None and (whitened.shape[1:] != (L, n) or len(models) not in (1, len(whitened))):
        raise SerialiseError(
            f"the saved draws have shape {whitened.shape}, which does not go with {n} data and "
            f"{len(models)} models."
        )
    draws = {str(name): _array(arrays, f"{where}.drawn.{name}") for name in tree["drawn"]}
    kept = {name: _array(arrays, f"{where}.chains.{name}", finite=name != "energy") for name in _CHAINS}
    chains = Chains(
        **kept,
        step_size=float(tree["step_size"]),
        interrupted=bool(tree["interrupted"]),
        seconds=float(tree["seconds"]),
    )
    if any(v.shape[:2] != chains.draws.shape[:2] for v in draws.values()):
        raise SerialiseError("the saved draws and chains differ in length.")
    quantities = np.concatenate([v.reshape(*v.shape[:2], -1) for v in draws.values()], -1)
    if quantities.shape[2] != len(tree["names"]):
        raise SerialiseError(
            f"{len(tree['names'])} quantities are named but {quantities.shape[2]} were drawn."
        )
    diagnostics = chains.diagnostics(tuple(map(str, tree["names"])), quantities)
    chosen = choose_solver(model, solver)
    return DrawsPosterior(
        model,
        inputs,
        y,
        draws,
        chains,
        diagnostics,
        models,
        GivenHyperparameters(chosen) if whitened is None else GivenLatents(whitened),
        chosen,
        tuple(tree["notes"]),
        InferenceStatus(*tree["status"]),
    )


def _values(base: Any, model: Any) -> np.ndarray:
    """Free hyperparameters of the model (p,), in the order of those of `base`."""
    leaves = jax.tree.leaves(strip(model))
    return np.concatenate(
        [
            np.zeros(0),
            *(np.ravel(np.asarray(leaves[s.leaves[0]], float)) for s in Hyperparameters(base).spec.slots),
        ]
    )


def _array(
    arrays: dict[str, np.ndarray], name: str, ndim: int | None = None, finite: bool = True
) -> np.ndarray:
    value = arrays.get(name)
    if value is None or (ndim is not None and value.ndim != ndim) or value.dtype.kind not in "fbiu":
        raise SerialiseError(f"the array {name!r} is missing or has no sensible shape.")
    if finite and not np.isfinite(value).all():
        raise SerialiseError(f"the array {name!r} is not finite.")
    return value
