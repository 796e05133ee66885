"""What EM found, in words: components, states, experts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mercer.estimators.hidden.shared import names_of
from mercer.tables import text_table

LEAST = 0.01  # share of a component that is spoken of


def mixture(model: Any, objective: str, selection: Mapping[int, float] | None = None) -> str:
    """Of a Gaussian mixture: how many components and how large, then where each is and how wide.

    objective: what EM climbed and where it ended. selection: numbers of components that were tried.
    """
    weights, means, spread = model.weights_, model.means_, _spread(model.model_.gaussians)
    many, used = len(weights), np.sort(weights[weights >= LEAST])[::-1]
    sizes = ", ".join(f"{100 * share:.0f} %" for share in used)
    components = f"{many}" if len(used) == many else f"{len(used)} of {many}"
    rows = [[str(j), f"{weights[j]:.3f}", *_places(means[j], spread[j])] for j in range(many)]
    return "\n".join(
        [
            f"{components} component{'s' * (many != 1)} with {sizes} of the rows{_chosen(selection)}",
            _ended(model, objective),
            "",
            *text_table(["component", "share", *_names(model, means.shape[1])], rows),
        ]
    )


def states(model: Any, objective: str, selection: Mapping[int, float] | None = None) -> str:
    """Of a hidden Markov model: how long its states last, then what is seen in each and what follows it."""
    stay = np.diag(model.transition_)
    many = len(stay)
    lasts = [f"{1 / (1 - a):.3g} steps" if a < 1 else "for ever" for a in stay]
    seen = emissions(model)
    header = ["state", "at first", "lasts", *(f"to {j}" for j in range(many)), *seen[0]]
    rows = [
        [
            str(i),
            f"{model.initial_[i]:.3f}",
            lasts[i],
            *(f"{a:.3f}" for a in model.transition_[i]),
            *seen[1][i],
        ]
        for i in range(many)
    ]
    said = ", ".join(f"state {i} lasts {last}" for i, last in enumerate(lasts))
    return "\n".join(
        [
            f"{many} hidden state{'s' * (many != 1)}{_chosen(selection)}: once entered, {said} on average",
            _ended(model, objective),
            "",
            *text_table(header, rows),
        ]
    )


def experts(model: Any) -> str:
    """Of a mixture of experts: how much of the data each made, how surely, and how noisy it is."""
    shared = model.responsibilities_
    sure = float(np.mean(shared.max(1)))
    noise = [float(np.sqrt(one.likelihood.noise_variance)) for one in model.model_.experts]
    many = len(noise)
    shares = ", ".join(f"expert {j} {100 * share:.0f} %" for j, share in enumerate(shared.mean(0)))
    rows = [
        [str(j), f"{shared[:, j].mean():.3f}", f"{noise[j]:.4g}", str(one.gp.kernel)]
        for j, one in enumerate(model.model_.experts)
    ]
    return "\n".join(
        [
            f"{many} expert{'s' * (many != 1)} made these {len(shared)} rows: {shares}; which one made a "
            f"row is known with {100 * sure:.0f} % certainty on average",
            _ended(model, f"lower bound of the log evidence {model.lower_bound_:.3f}"),
            "",
            *text_table(["expert", "share", "noise sd", "kernel"], rows),
        ]
    )


def _chosen(selection: Mapping[int, float] | None) -> str:
    """Among how many, where the number was chosen."""
    return f" (chosen among {', '.join(map(str, sorted(selection)))})" if selection else ""


def _ended(model: Any, objective: str) -> str:
    ended = "converged" if model.converged_ else "NOT converged"
    return f"{objective}; EM {ended} after {model.n_iter_} steps"


def _names(model: Any, d: int) -> list[str]:
    return names_of(model) or [f"x{j}" for j in range(d)]


def _spread(gaussians: Any) -> np.ndarray:
    """Standard deviations (k, d) of the columns."""
    return np.sqrt(np.diagonal(gaussians.matrices(), axis1=1, axis2=2))


def _places(mean: np.ndarray, spread: np.ndarray) -> list[str]:
    return [f"{m:.4g} ± {s:.2g}" for m, s in zip(mean, spread, strict=True)]


def emissions(model: Any) -> tuple[list[str], list[list[str]]]:
    """Columns on what each state emits: its means, or the probabilities of symbols."""
    known = model.model_.emission.learned()
    if "emission" in known:
        symbols = known["emission"]
        return [f"p({s})" for s in range(symbols.shape[1])], [[f"{p:.3f}" for p in row] for row in symbols]
    means = known["means"].reshape(model.n_states_, -1, known["means"].shape[-1])  # (N, M, d)
    several = [f" ({g})" for g in range(means.shape[1])] if means.shape[1] > 1 else [""]
    names = [f"mean x{j}{which}" for which in several for j in range(means.shape[2])]
    return names, [[f"{m:.4g}" for m in row] for row in means.reshape(model.n_states_, -1)]
