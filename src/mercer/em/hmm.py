"""Hidden Markov models λ = (A, B, π) and their EM steps, the Baum-Welch algorithm (Bilmes, section 4)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from mercer.em.emission import drawn, expected, updated
from mercer.em.forward import Chunks, Smoothed, filtered, smooth
from mercer.em.gathered import gathered
from mercer.em.mixture import dirichlet, known_labels, shares, simplex
from mercer.em.scores import choose, scores
from mercer.registry import Saved

ENUMERATED = 2**16  # sequences that the exact information goes through


@Saved.register
@dataclass(frozen=True)
class HMM:
    """A time-homogeneous hidden Markov model.

    initial: (N,) π_i, probability of the first state
    transition: (N, N) a_ij, probability of going from i to j; rows have the sum one. Zeros stay zeros under
        EM
    emission: CategoricalEmission, GaussianEmission, GaussianMixtureEmission, StudentTEmission,
        PoissonEmission or MultinomialEmission
    pseudo_count: added to the expected counts of transitions that are not impossible, a Dirichlet prior: one
        number, or (N, N)
    initial_pseudo_count: the same of first states: one number, or (N,)
    keep: what EM leaves as it is: some of "initial", "transition", "emission"

    >>> symbols = CategoricalEmission([[0.5, 0.4, 0.1], [0.1, 0.3, 0.6]])
    >>> model = HMM([0.6, 0.4], [[0.7, 0.3], [0.4, 0.6]], symbols)
    >>> model.log_likelihood([[0, 1, 2]])
    array([-3.31648865])
    """

    initial: np.ndarray
    transition: np.ndarray
    emission: Any
    pseudo_count: Any = 0.0
    initial_pseudo_count: Any = 0.0
    keep: tuple[str, ...] = ()

    def __post_init__(self):
        N = self.emission.states
        object.__setattr__(self, "keep", (self.keep,) if isinstance(self.keep, str) else tuple(self.keep))
        if unknown := sorted(set(self.keep) - {"initial", "transition", "emission"}):
            raise ValueError(f'keep is some of "initial", "transition" and "emission", not {unknown}.')
        object.__setattr__(self, "initial", simplex(self.initial, "initial", (N,)))
        object.__setattr__(self, "transition", simplex(self.transition, "transition", (N, N)))

    @property
    def states(self) -> int:
        """Number of hidden states N."""
        return len(self.initial)

    def parameters(self) -> int:
        """How many numbers are free."""
        free = {
            "initial": int((self.initial > 0).sum()) - 1,
            "transition": int((self.transition > 0).sum()) - self.states,
            "emission": self.emission.parameters(),
        }
        return sum(number for name, number in free.items() if name not in self.keep)

    # -- EM --------------------------------------------------------------------------------------------------

    def prepare(self, sequences: Sequence[Any] | Prepared, labels: Any = None) -> Prepared:
        """Sequences, checked and laid out for the recursions; what `expect` takes, and makes of a list by
        itself.

        labels: states that are known, an array (T,) for each sequence, −1 where they are not
        """
        return prepared(self.emission, sequences, labels)

    def log_emissions(self, data: Prepared) -> np.ndarray:
        """log b_i(o_t), (N, slots); zero in empty slots."""
        return data.log_emissions(self.emission)

    def expect(self, sequences: Sequence[Any] | Prepared) -> Expected:
        """The E-step (forward-backward): expected first states, transitions and emissions, with the
        log-likelihood.
        """
        data = self.prepare(sequences)
        found = gathered(
            self.initial,
            self.transition,
            lambda some: data.log_emissions(self.emission, some),
            lambda some, gamma: self.emission.summarise(data.rows[some], gamma),
            data.chunks,
        )
        if found is None:
            return Expected.of(self.smooth(data), data, self.emission)
        total = float(found.log_likelihood.sum())
        return Expected(total, found.first, found.transitions, found.summary)

    def maximise(self, summary: Expected) -> HMM:
        """The M-step: the model that explains the summary best, under its prior."""
        changed = {
            "initial": lambda: updated(self.initial, summary.first, self.initial_pseudo_count),
            "transition": lambda: updated(self.transition, summary.transitions, self.pseudo_count),
            "emission": lambda: self.emission.maximise(summary.emission),
        }
        return replace(self, **{name: make() for name, make in changed.items() if name not in self.keep})

    def log_prior(self) -> float:
        """Log density of the parameters under their prior, up to a constant; zero without one."""
        first = dirichlet(self.initial, self.initial_pseudo_count)
        return first + dirichlet(self.transition, self.pseudo_count) + self.emission.log_prior()

    # -- what the data say of the states ---------------------------------------------------------------------

    def smooth(self, sequences: Sequence[Any] | Prepared) -> Smoothed:
        """Forward and backward over all sequences, in the slots of `prepare`."""
        data = self.prepare(sequences)
        return smooth(self.initial, self.transition, self.log_emissions(data), data.chunks)

    def log_likelihood(self, sequences: Sequence[Any] | Prepared) -> np.ndarray:
        """log p(O) of each sequence (E,); −inf for an impossible one."""
        data = self.prepare(sequences)
        return filtered(self.initial, self.transition, self.log_emissions(data), data.chunks)[1]

    def scores(
        self, sequences: Sequence[Any], parameters: Any = None, coordinates: str = "logits"
    ) -> np.ndarray:
        """Fisher scores (E, p): derivatives of log p(O), see `mercer.em.scores` for the coordinates.

        parameters: some of "initial", "transition" and those of the emission: "emission", or "weights",
        "means", "covariances"; None is all of them. For probabilities they are expected counts less what the
        model expects of them.
        """
        checked = [self.emission.check(s, f"sequence {i}") for i, s in enumerate(sequences)]
        if not checked:
            raise ValueError("there is no sequence.")
        groups = choose(parameters, ("initial", "transition", *self.emission.groups))
        return scores(self.initial, self.transition, self.emission.parts(), checked, groups, coordinates)

    def information(self, length: int | None, parameters: Any = None) -> np.ndarray:
        """The exact Fisher information (p, p) of sequences with `length` symbols,
        by going through all of them: for short ones.
        """
        count = self.emission.symbols
        if length is None or count is None or count**length > ENUMERATED:
            raise ValueError(
                "the exact information of a hidden Markov model is a sum over all sequences of length= "
                "symbols (at most "
                f"{ENUMERATED:,}): use information='empirical' with data=, for example sequences drawn by "
                "the model's sample()."
            )
        every = np.array(list(itertools.product(range(count), repeat=length)), np.intp).reshape(-1, length)
        p = np.exp(self.log_likelihood(list(every)))
        phi = self.scores(list(every[p > 0]), parameters)
        return phi.T @ (p[p > 0, None] * phi)

    def posterior(self, sequence: Any) -> np.ndarray:
        """γ: p(q_t = i | O), (T, N)."""
        data = self.prepare([sequence])
        found = self.smooth(data)
        _possible(found.log_likelihood)
        return found.gamma[:, data.chunks.back].T

    def filter(self, sequence: Any) -> np.ndarray:
        """p(q_t = i | o_1 … o_t), (T, N)."""
        data = self.prepare([sequence])
        alpha, log_likelihood = filtered(self.initial, self.transition, self.log_emissions(data), data.chunks)
        _possible(log_likelihood)
        return alpha[:, data.chunks.back].T

    def pairs(self, sequence: Any) -> np.ndarray:
        """ξ: p(q_t = i, q_{t+1} = j | O), (T − 1, N, N)."""
        rows = self.emission.check(sequence, "the sequence")
        log_b, alpha, gamma = self.emission.log_prob(rows), self.filter(rows), self.posterior(rows)
        b = np.exp(log_b - log_b.max(0)).T[1:]
        ahead = alpha[:-1] @ self.transition
        ratio = np.divide(gamma[1:], ahead * b, out=np.zeros_like(b), where=ahead * b > 0)
        return alpha[:-1, :, None] * self.transition * (b * ratio)[:, None, :]

    def viterbi(self, sequence: Any) -> tuple[np.ndarray, float]:
        """The most probable path (T,) and its log p(O, q)."""
        from mercer.em.logspace import viterbi

        data = self.prepare([sequence])
        path, value = viterbi(self.initial, self.transition, self.log_emissions(data), data.chunks)
        _possible(value)
        return path, float(value[0])

    def likeliest(self, sequence: Any) -> tuple[np.ndarray, float]:
        """At each step the state (T,) that is most probable by itself, and how many of them are expected to
        be right. Their path may be impossible, which that of `viterbi` never is.
        """
        gamma = self.posterior(sequence)
        return gamma.argmax(1), float(gamma.max(1).sum())

    def stationary(self) -> np.ndarray:
        """The distribution (N,) of states that a transition leaves as it is: their shares in a long
        sequence.
        """
        values, vectors = np.linalg.eig(self.transition.T)
        unit = np.flatnonzero(np.abs(values - 1) < 1e-9 * self.states)
        if len(unit) != 1:
            raise ValueError(
                "the chain has several stationary distributions: it falls into parts that are never left, "
                "and where it ends depends on where it begins."
            )
        found = np.abs(np.real(vectors[:, unit[0]]))
        return found / found.sum()

    def log_joint(self, sequence: Any, path: Any) -> float:
        """log p(O, q) of a path q (T,)."""
        rows, q = self.emission.check(sequence, "the sequence"), np.asarray(path)
        with np.errstate(divide="ignore"):
            chain = np.log(self.initial[q[0]]) + np.log(self.transition[q[:-1], q[1:]]).sum()
        return float(chain + self.emission.log_prob(rows)[q, np.arange(len(q))].sum())

    # -- draws -----------------------------------------------------------------------------------------------

    def sample(
        self, length: int, rng: np.random.Generator, first: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Observations of one sequence and its states (length,). first: the state it begins in, instead of a
        draw.
        """
        levels, draws = np.cumsum(self.transition, axis=1), rng.random(length)
        path = np.empty(length, np.intp)
        for t, u in enumerate(draws):
            now = np.cumsum(self.initial) if t == 0 else levels[path[t - 1]]
            path[t] = min(int((u > now).sum()), self.states - 1) if t or first is None else first
        return self.emission.sample(path, rng), path

    def sample_paths(self, sequence: Any, count: int, rng: np.random.Generator) -> np.ndarray:
        """Paths (count, T) drawn from p(q | O): filtered forward, drawn backward."""
        alpha = self.filter(sequence)
        paths = np.empty((count, len(alpha)), np.intp)
        for t in range(len(alpha) - 1, -1, -1):
            weights = np.broadcast_to(alpha[t], (count, self.states))
            if t + 1 < len(alpha):
                weights = weights * self.transition[:, paths[:, t + 1]].T
            paths[:, t] = drawn(shares(weights), rng)
        return paths

    def q(self, before: HMM, sequences: Sequence[Any]) -> Q:
        """Q(this, before), Bilmes' equation 11 divided by p(O | before), in its three parts."""
        data = before.prepare(sequences)
        found = before.smooth(data)
        with np.errstate(divide="ignore"):
            initial = expected(found.gamma[:, data.chunks.first].sum(1), np.log(self.initial))
            transition = expected(found.transitions, np.log(self.transition))
        found.gamma[:, data.chunks.empty] = 0.0
        return Q(initial, transition, self.emission.q(before.emission, data.rows, found.gamma))


class Q(NamedTuple):
    """Parts of the Q function: of the first states, of the transitions, of the emissions."""

    initial: float
    transition: float
    emission: float

    @property
    def total(self) -> float:
        """The sum of its three parts."""
        return sum(self)


@Saved.register
@dataclass(frozen=True)
class Prepared:
    """Sequences in the slots of `chunks`; what stands in an empty slot does not matter. `HMM.prepare` makes
    them.

    lengths: (E,) of the sequences; length: of the chunks they are cut into
    labels: (slots,) states that are known, −1 where they are not; None where none is
    """

    rows: np.ndarray
    lengths: np.ndarray
    length: int
    labels: np.ndarray | None = None
    chunks: Chunks = field(init=False)

    def __post_init__(self):
        object.__setattr__(self, "chunks", Chunks(self.lengths, 0, self.length))

    def log_emissions(self, emission: Any, some: slice = slice(None)) -> np.ndarray:
        """log b_i(o_t), (N, slots), of all or some slots; zero in empty ones, −inf in states that are known
        not to be the one.
        """
        log_b = emission.log_prob(self.rows[some])
        if len(self.chunks.empty):
            log_b[:, self.chunks.index[some] == self.chunks.total] = 0.0
        if self.labels is not None:
            labels = self.labels[some]
            log_b[(labels >= 0) & (labels != np.arange(len(log_b))[:, None])] = -np.inf
        return log_b


def prepared(emission: Any, sequences: Sequence[Any] | Prepared, labels: Any = None) -> Prepared:
    """What `HMM.prepare` gives, for any emission with `check` and `states`."""
    if isinstance(sequences, Prepared):
        return sequences
    checked = [emission.check(s, f"sequence {i}") for i, s in enumerate(sequences)]
    if not checked:
        raise ValueError("there is no sequence.")
    chunks = Chunks([len(s) for s in checked], emission.states)
    rows = np.concatenate([*checked, checked[0][:1]])[chunks.index]
    if labels is None:
        return Prepared(rows, chunks.lengths, chunks.length)
    known = known_states(labels, chunks.lengths, emission.states)
    labels = np.append(np.concatenate(known), -1)[chunks.index]
    return Prepared(rows, chunks.lengths, chunks.length, labels)


def known_states(labels: Any, lengths: Any, states: int) -> list[np.ndarray]:
    """Labels of each sequence (T,) as whole numbers, −1 (or NaN) where a state is not known; checked."""
    if len(labels) != len(lengths):
        raise ValueError(f"labels are given for {len(labels)} sequences, and there are {len(lengths)}.")
    return [known_labels(part, n, states, f"labels of sequence {i}")
            for i, (part, n) in enumerate(zip(labels, lengths, strict=True))]  # fmt: skip


@dataclass(frozen=True)
class Expected:
    """Expected counts of first states and transitions, and what the emissions need."""

    log_likelihood: float
    first: np.ndarray
    transitions: np.ndarray
    emission: Any

    @classmethod
    def of(cls, found: Smoothed, data: Prepared, emission: Any) -> Expected:
        """What the posterior of the states says of sequences; without emissions where one is impossible.
        Overwrites `found.gamma` in empty slots.
        """
        log_likelihood, N = float(found.log_likelihood.sum()), len(found.gamma)
        if not np.isfinite(log_likelihood):
            return cls(log_likelihood, np.zeros(N), found.transitions, None)
        first = found.gamma[:, data.chunks.first].sum(1)
        found.gamma[:, data.chunks.empty] = 0.0
        return cls(log_likelihood, first, found.transitions, emission.summarise(data.rows, found.gamma))

    def __add__(self, other: Expected) -> Expected:
        emission = None if self.emission is None or other.emission is None else self.emission + other.emission
        return Expected(
            self.log_likelihood + other.log_likelihood,
            self.first + other.first,
            self.transitions + other.transitions,
            emission,
        )


class Filter:
    """Online filtering: one observation at a time.

    >>> online = Filter(model)
    >>> for o in stream:
    ...     p = online.update(o)        # p(q_t | o_1 … o_t), (N,)
    >>> online.log_likelihood
    """

    def __init__(self, model: HMM):
        self.model, self.log_likelihood, self.steps = model, 0.0, 0
        self._next = model.initial

    def update(self, observation: Any) -> np.ndarray:
        """Take one observation: a symbol, or a vector (d,); None where there was none.
        Returns p(q_t | o_1 … o_t), (N,).
        """
        if observation is None:
            now = self._next
        else:
            row = self.model.emission.check(np.asarray(observation)[None], "the observation")
            with np.errstate(divide="ignore"):
                joint = np.log(self._next) + self.model.emission.log_prob(row)[:, 0]
            top = joint.max()
            if not np.isfinite(top):
                raise ValueError(f"observation {self.steps} is impossible after those before it.")
            weights = np.exp(joint - top)
            self.log_likelihood += float(top + np.log(weights.sum()))
            now = weights / weights.sum()
        self.steps += 1
        self._next = now @ self.model.transition
        return now

    def predict(self, ahead: int = 1) -> np.ndarray:
        """p(q_{t + ahead} | o_1 … o_t), (N,)."""
        return self._next @ np.linalg.matrix_power(self.model.transition, ahead - 1)


def left_right(states: int, jump: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Initial and transition probabilities that begin in state 0 and go on by at most `jump` states;
    zero elsewhere.
    """
    initial = np.eye(states)[0]
    allowed = np.triu(np.ones((states, states))) - np.triu(np.ones((states, states)), jump + 1)
    return initial, shares(allowed)


def _possible(log_likelihood: np.ndarray) -> None:
    if not np.isfinite(log_likelihood).all():
        raise ValueError(
            "the sequence has probability zero under this model: no path of its states can have emitted it."
        )
