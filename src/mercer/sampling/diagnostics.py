"""How far draws can be trusted: rank-normalised split R-hat, bulk and tail effective sample sizes,
autocorrelation, energy.

Arrays of draws are (chains, draws) or (chains, draws, quantities); results are numbers or (quantities,).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from mercer.sampling.multimodal import Mode, described, modes
from mercer.tables import text_table

FEW = 4  # fewer draws than this say nothing of convergence


def r_hat(draws: ArrayLike) -> float | np.ndarray:
    """Rank-normalised split R-hat: the larger of that of the values and that of their distance from the
    median. 1 is perfect.

    Above 1.01 chains have not forgotten where they began; above 1.1 they should not be used.
    """
    x = _split(draws)
    folded = np.abs(x - np.median(x, axis=(0, 1)))
    return _shape(draws, np.fmax(_r_hat(_normalise(x)), _r_hat(_normalise(folded))))


def effective_sample_size(draws: ArrayLike, kind: str = "bulk") -> float | np.ndarray:
    """How many independent draws would estimate as well: "bulk" (centre of the distribution, by ranks),
    "tail" (its 5 % and 95 % quantiles), or "mean" (the mean of the values as they are).
    """
    x = _split(draws)
    if kind == "mean":
        return _shape(draws, _ess(x))
    if kind == "bulk":
        return _shape(draws, _ess(_normalise(x)))
    if kind != "tail":
        raise ValueError(f"kind must be 'bulk', 'tail' or 'mean', got {kind!r}.")
    low, high = np.quantile(x, [0.05, 0.95], axis=(0, 1))
    return _shape(draws, np.fmin(_ess((x <= low).astype(float)), _ess((x <= high).astype(float))))


def autocorrelation(chain: ArrayLike) -> np.ndarray:
    """Autocorrelation (draws,) of one chain (draws,) at lags 0, 1, ..."""
    covariance = _autocovariance(np.asarray(chain, float)[None, :, None])[0, :, 0]
    return covariance / covariance[0] if covariance[0] > 0 else np.ones_like(covariance)


def autocorrelation_time(draws: ArrayLike) -> float | np.ndarray:
    """Integrated autocorrelation time 1 + 2 sum of autocorrelations:
    steps of the chain for one independent draw.
    """
    x = _three(draws)
    return _shape(draws, x.shape[0] * x.shape[1] / _ess(x))


@dataclasses.dataclass(frozen=True, eq=False)
class Diagnostics:
    """What the chains say of themselves. Arrays have an entry for each quantity in `names`.

    `energy_fraction` (chains,) compares how fast the energy changes with how much it varies: below 0.3 the
    momenta are too weak to explore the tails. `step_size` is what tuning chose. `modes` are those that the
    chains sit in, where they have settled.
    """

    names: tuple[str, ...]
    r_hat: np.ndarray
    ess_bulk: np.ndarray
    ess_tail: np.ndarray
    acceptance: float
    divergences: int
    energy_fraction: np.ndarray
    step_size: float
    chains: int
    draws: int
    evaluations: float
    seconds: float
    modes: tuple[Mode, ...] = ()

    @property
    def worst_r_hat(self) -> float:
        """The largest R-hat of any coordinate; infinite where one is not defined."""
        return float(np.max(self.r_hat)) if np.isfinite(self.r_hat).all() else float("inf")

    @property
    def least_ess(self) -> float:
        """The smallest effective sample size, of bulk or tail, of any coordinate."""
        return (
            float(min(self.ess_bulk.min(), self.ess_tail.min())) if np.isfinite(self.ess_bulk).all() else 0.0
        )

    @property
    def trusted(self) -> bool:
        """R-hat at most 1.05 for every quantity, at least 25 effective draws for each chain,
        divergences below one per cent.
        """
        few = self.least_ess < 25 * self.chains
        return self.worst_r_hat <= 1.05 and not few and self.divergences <= 0.01 * self.chains * self.draws

    def problems(self) -> tuple[str, ...]:
        """What a person should know before using the draws, in words; empty where nothing is wrong."""
        out = []
        if len(self.modes) > 1:
            out.append(described(self.modes, self.worst_r_hat))
        elif not self.worst_r_hat <= 1.05:
            name = self.names[int(np.argmax(np.where(np.isnan(self.r_hat), np.inf, self.r_hat)))]
            out.append(
                f"the chains disagree: R-hat is {self.worst_r_hat:.3f} for {name} (it should be below "
                "1.05); draw or tune longer"
            )
        if self.least_ess < 25 * self.chains:
            out.append(
                f"the draws are worth only {self.least_ess:.0f} independent ones where they are fewest; "
                "draw more"
            )
        if self.divergences:
            share = self.divergences / (self.chains * self.draws)
            out.append(
                f"{self.divergences} divergent transitions ({100 * share:.2g} %): draws may miss a part of "
                "the posterior"
            )
        if np.isfinite(self.energy_fraction).all() and self.energy_fraction.min() < 0.2:
            out.append(
                f"the energy moves slowly (fraction {self.energy_fraction.min():.2f}): tails may be "
                "under-explored"
            )
        return tuple(out)

    def __str__(self) -> str:
        order = np.argsort(-np.where(np.isnan(self.r_hat), np.inf, self.r_hat))[:8]
        rows = [
            (self.names[i], f"{self.r_hat[i]:.3f}", f"{self.ess_bulk[i]:.0f}", f"{self.ess_tail[i]:.0f}")
            for i in order
        ]
        lines = text_table(("quantity", "R-hat", "ESS bulk", "ESS tail"), rows)
        more = len(self.names) - len(order)
        if more > 0:
            lines.append(f"... and {more} more with smaller R-hat")
        lines.append(
            f"{self.chains} chains of {self.draws} draws, acceptance {self.acceptance:.2f}, "
            f"{self.divergences} divergences, "
            f"step size {self.step_size:.3g}, {self.evaluations:.1f} evaluations a draw, {self.seconds:.1f} s"
        )
        return "\n".join([*lines, *(f"warning: {p}" for p in self.problems())])


def diagnose(values: np.ndarray, names: tuple[str, ...], chains: Any) -> Diagnostics:
    """Diagnostics of the quantities (chains, draws, q) computed from `chains` (a `Chains`)."""
    count, draws = values.shape[:2]
    with np.errstate(invalid="ignore", divide="ignore"):
        change = np.mean(np.diff(chains.energy, axis=1) ** 2, 1) / np.var(chains.energy, axis=1)
        return Diagnostics(
            names,
            np.atleast_1d(r_hat(values)),
            np.atleast_1d(effective_sample_size(values)),
            np.atleast_1d(effective_sample_size(values, "tail")),
            float(np.mean(chains.acceptance)),
            int(chains.divergent.sum()),
            change,
            chains.step_size,
            count,
            draws,
            float(np.mean(chains.evaluations)),
            chains.seconds,
            modes(values, chains.log_density),
        )


# ------------------------------------------------------------------------------------------------- inside


def _three(draws) -> np.ndarray:
    x = np.asarray(draws, float)
    if x.ndim not in (2, 3):
        raise ValueError(
            f"draws must be (chains, draws) or (chains, draws, quantities), got shape {x.shape}."
        )
    return x[..., None] if x.ndim == 2 else x


def _shape(draws, out: np.ndarray) -> Any:
    return float(out[0]) if np.ndim(draws) == 2 else out


def _split(draws) -> np.ndarray:
    """Every chain cut into two halves."""
    x = _three(draws)
    if x.shape[1] < FEW or x.shape[0] < 1:
        raise ValueError(
            f"diagnostics need at least one chain of {FEW} draws, got {x.shape[0]} of {x.shape[1]}."
        )
    half = x.shape[1] // 2
    return np.concatenate([x[:, :half], x[:, -half:]])


def _normalise(x: np.ndarray) -> np.ndarray:
    """Ranks over all chains, as normal scores."""
    size = x.shape[0] * x.shape[1]
    from scipy.stats import rankdata  # slow to import, and only needed here

    ranks = rankdata(x.reshape(size, -1), axis=0)
    return ndtri((ranks - 0.375) / (size + 0.25)).reshape(x.shape)


def _r_hat(x: np.ndarray) -> np.ndarray:
    n = x.shape[1]
    within = np.mean(np.var(x, axis=1, ddof=1), 0)
    between = n * np.var(np.mean(x, 1), axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.sqrt((n - 1) / n + between / (n * within))
    return np.where(within > 0, ratio, np.where(between > 0, np.inf, np.nan))


def _autocovariance(x: np.ndarray) -> np.ndarray:
    """(chains, draws, q), by Fourier transform."""
    n = x.shape[1]
    x = x - x.mean(1, keepdims=True)
    size = 1 << int(np.ceil(np.log2(2 * n)))
    spectrum = np.fft.rfft(x, size, axis=1)
    return np.fft.irfft(np.abs(spectrum) ** 2, size, axis=1)[:, :n] / n


def _ess(x: np.ndarray) -> np.ndarray:
    """Effective number of draws by Geyer's initial monotone sequence."""
    m, n, _ = x.shape
    covariance = _autocovariance(x)
    within = np.mean(covariance[:, 0], 0) * n / (n - 1)
    total = within * (n - 1) / n
    if m > 1:
        total = total + np.var(x.mean(1), axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        rho = 1.0 - (within - np.mean(covariance, 0)) / total
    rho[0] = 1.0
    pairs = rho[: n - n % 2].reshape(n // 2, 2, -1).sum(1)
    positive = np.cumprod(pairs > 0, axis=0, dtype=bool)
    monotone = np.minimum.accumulate(np.where(positive, pairs, 0.0), axis=0)
    tau = np.maximum(-1.0 + 2.0 * monotone.sum(0), 1.0 / np.log10(m * n))
    return np.where(total > 0, m * n / tau, np.nan)
