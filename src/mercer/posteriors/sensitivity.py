"""How much a posterior owes to its prior: the draws made under one,
weighted to stand for another (Kuss 2.1).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.params import parameters
from mercer.sampling.hyper import Hyperparameters
from mercer.sampling.importance import Weighted
from mercer.tables import text_table

if TYPE_CHECKING:
    from mercer.posteriors.draws import DrawsPosterior

ENOUGH = 0.1  # share of the draws that must be left for the weights to be believed
LEVELS = (0.05, 0.5, 0.95)


@dataclasses.dataclass(frozen=True, eq=False)
class Sensitivity:
    """Quantiles (5 %, 50 %, 95 %) of every hyperparameter `before` and `after` (names, 3) under the new
    priors.

    weighted: the draws (S, names) with log weights; trusted: whether at least a tenth of them are left to say
    anything, otherwise the new prior asks for places that were not drawn and the model should be fitted again
    with it. posterior: the same posterior with its draws chosen anew by their weights, for predictions under
    the new priors.
    """

    names: tuple[str, ...]
    before: np.ndarray
    after: np.ndarray
    weighted: Weighted
    posterior: DrawsPosterior

    @property
    def share(self) -> float:
        """Effective draws as a share of all."""
        return self.weighted.effective_sample_size / len(self.weighted.draws)

    @property
    def trusted(self) -> bool:
        """Whether at least a tenth of the draws are left to say anything under the new priors."""
        return self.share >= ENOUGH

    def shift(self) -> np.ndarray:
        """How far each median moved, in units of half the 90 % interval it had."""
        moved, width = self.after[:, 1] - self.before[:, 1], self.before[:, 2] - self.before[:, 0]
        return np.asarray(moved / (0.5 * width))

    def __str__(self) -> str:
        rows = []
        for name, a, b, s in zip(self.names, self.before, self.after, self.shift(), strict=True):
            old, new = (f"{q[1]:.4g} ({q[0]:.4g} to {q[2]:.4g})" for q in (a, b))
            rows.append((name, old, new, f"{s:+.2f}"))
        lines = text_table(("hyperparameter", "median (90 %) before", "after", "shift"), rows)
        lines.append(f"{100 * self.share:.0f} % of the draws are left")
        if not self.trusted:
            lines.append("warning: too few to be believed: fit again with the new priors")
        return "\n".join(lines)


def sensitivity(post: DrawsPosterior, priors: Mapping[str, Any], seed: int = 0) -> Sensitivity:
    """`post.under(priors)`."""
    shape = post.chains.draws.shape[:2]
    names = tuple(n for n, v in post.draws.items() if n not in ("f", "u") and v.shape == shape)
    if not names:
        raise ValueError(
            "these draws are at fixed hyperparameters: sample them with mercer.fit(..., inference=MCMC()) "
            "first."
        )
    known = {p.name: p for p in parameters(post.model) if p.free}
    unknown = sorted(set(priors) - set(known))
    if unknown:
        raise ValueError(f"no free hyperparameter is named {unknown}; there are {sorted(known)}.")
    values = np.stack([post.draws[n].reshape(-1) for n in names], 1)
    hyper = Hyperparameters(post.model)
    logs = np.zeros(len(values))
    for name, new in priors.items():
        old = known[name].info.prior
        if old is None:
            raise ValueError(
                f"{name} was sampled without a prior of its own: give it one (mercer.param(prior=)) to "
                "compare with."
            )
        columns = [i for i, n in enumerate(hyper.names) if n == name or n.startswith(f"{name}[")]
        x = values[:, columns].reshape(-1, *np.shape(known[name].value))
        logs += np.array([np.sum(new.log_prob(v)) - np.sum(old.log_prob(v)) for v in x])
    weighted = Weighted(values, logs)
    w = weighted.weights
    after = np.array([_quantiles(x, w) for x in values.T])
    rng = np.random.default_rng(seed)
    points = (rng.random() + np.arange(post.used)) / post.used
    chosen = np.minimum(np.searchsorted(np.cumsum(w), points), len(w) - 1)
    models = [hyper.model_at(values[i]) for i in chosen]
    left = 100 * weighted.effective_sample_size / len(values)
    note = f"under other priors of {', '.join(priors)}: {left:.0f} % of the draws are left"
    new = dataclasses.replace(
        post, models=models, given=post.given.chosen(post.draws, chosen), notes=(*post.notes, note)
    )
    return Sensitivity(names, np.quantile(values, LEVELS, axis=0).T, after, weighted, new)


def _quantiles(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    order = np.argsort(x)
    middle = np.cumsum(w[order]) - 0.5 * w[order]
    return np.asarray(np.interp(LEVELS, middle, x[order]))
