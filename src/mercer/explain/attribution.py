"""What each column adds to one prediction, and how sure that is."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from mercer.conditioned import AbstractConditioned, Bars
from mercer.explain.function import AbstractFitted, PosteriorFunction
from mercer.explain.functionals import additive, background_size, by_kernel, shapley_of
from mercer.explain.influence import Influence, influences
from mercer.explain.shapley import ROWS
from mercer.explain.shares import Groups, checked_groups
from mercer.inputs import InputError, as_inputs
from mercer.posteriors.protocol import AbstractPosterior
from mercer.tables import text_table

ROUNDING = 1e-13  # relative to a prediction: less than this is nothing
SMALL = 0.02  # of all that is added: columns that add less are not worth a sentence
CELLS = 2e7  # covariances of functionals with the data that are held at a time
SAID = 3  # columns and rows in a sentence


@dataclasses.dataclass(frozen=True, eq=False)
class Attributions:
    """What each column adds to predictions of m rows. Made by `model.explain(rows)` or
    `explain.attributions`.

    The Shapley values of f: of a column, the difference that its value makes beside those that it has in the
    rows of a background, averaged over all orders in which columns may be set to the values of the row. Of an
    additive function that is its term less the average of the term. They are linear in f, and so each is
    Gaussian under the posterior: `std`.

    names: the columns (G,)
    values (m, G): what each adds, in units of f; base + values.sum(1) = prediction
    std (m, G) or None: posterior standard deviations of the values
    error (m, G): standard errors where orders were sampled; zero: the values are exact
    base (m,): the average prediction over the background, which is the same for all rows of one function
    prediction, prediction_std (m,): mean and standard deviation of f at the rows
    parts: what the additive parts of the model are called, and part_values, part_std (m, P): what each adds,
        less its average over the background, which sum to the same; empty where there is but one
    influences: for each row the training rows of the largest weight (`Influence`)
    labels, given: what the rows are called, and what their columns are there, as text (m, G)
    what: what is predicted of each row, in words; also: a remark on each row, or none
    method, notes: how the values were computed, and what a person should know

    >>> found = GPRegressor().fit(df[["a", "b"]], df["y"]).explain(df[["a", "b"]].head(1))
    >>> print(found); found["a"]; found.to_frame(); found.influences[0]
    """

    names: tuple[str, ...]
    values: np.ndarray
    std: np.ndarray | None
    error: np.ndarray
    base: np.ndarray
    prediction: np.ndarray
    prediction_std: np.ndarray
    parts: tuple[str, ...]
    part_values: np.ndarray
    part_std: np.ndarray
    influences: tuple[tuple[Influence, ...], ...]
    labels: tuple[str, ...]
    given: tuple[tuple[str, ...], ...]
    what: tuple[str, ...]
    also: tuple[str, ...] = ()
    method: str = ""
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, name: str) -> np.ndarray:
        """What a column adds (m,)."""
        if name not in self.names:
            raise KeyError(f"no column {name!r}; there are {list(self.names)}.")
        return self.values[:, self.names.index(name)]

    def to_frame(self) -> Any:
        """A row for each prediction and column, the largest values first: a pandas frame, or a dict of arrays
        where pandas is not installed.
        """
        orders = self.orders()
        rows = np.repeat(np.arange(len(self)), len(self.names))
        columns = np.concatenate(orders) if len(self) else np.zeros(0, int)
        text = [self.given[i][g] for i, g in zip(rows, columns, strict=True)]
        table: dict[str, Any] = {
            "row": np.array([self.labels[i] for i in rows], dtype=object),
            "column": np.array([self.names[g] for g in columns], dtype=object),
            "given": np.array(text, dtype=object),
            "value": self.values[rows, columns],
        }
        if self.std is not None:
            table["std"] = self.std[rows, columns]
        if self.error.any():
            table["error"] = self.error[rows, columns]
        try:
            import pandas as pd
        except ImportError:
            return table
        return pd.DataFrame(table)

    def orders(self) -> list[np.ndarray]:
        """For each row the positions of the columns, those that add most first."""
        return [np.argsort(-np.abs(values), kind="stable") for values in self.values]

    def bars(self, row: int = 0, most: int = 12) -> Bars:
        """What a picture of one of the rows shows; what columns beyond `most` add is one bar."""
        if not -len(self) <= row < len(self):
            raise IndexError(f"there are {len(self)} rows, counted from 0; got {row}.")
        first, rest = np.split(self.orders()[row], [most if len(self.names) > most + 1 else len(self.names)])
        names = [
            f"{self.names[g]} = {text}" if (text := self.given[row][g]) else self.names[g] for g in first
        ]
        std = np.full(self.values.shape, np.nan) if self.std is None else self.std
        lengths, spread = self.values[row, first], std[row, first]
        if len(rest):
            names.append(f"{len(rest)} others")
            lengths, spread = np.append(lengths, self.values[row, rest].sum()), np.append(spread, np.nan)
        what = self.what[row].removesuffix(",")
        title = f"{self.labels[row]}: {self._predicted(row)}"
        return Bars(tuple(names), lengths, spread, what, title, float(self.base[row]))

    def table(self, i: int) -> tuple[list[str], list[list[str]]]:
        """Header and rows of what the columns add to prediction i, as text."""
        header = ["column", "value", "adds"]
        rows = [["average prediction", "", f"{self.base[i]:.4g}"]]
        for g in self.orders()[i]:
            rows.append([self.names[g], self.given[i][g], self._adds(i, g)])
        return header, [*rows, ["prediction", "", self._predicted(i)]]

    def sentences(self, i: int) -> list[str]:
        """Prediction i in words."""
        said = [
            f"{self.labels[i]}: {self.what[i]} is {self._predicted(i)}, where it is {self.base[i]:.4g} on "
            f"average{self._because(i)}."
        ]
        if self.also:
            said.append(self.also[i])
        if len(self.parts) > 1:
            each = zip(self.parts, self.part_values[i], self.part_std[i], strict=True)
            said.append("By parts: " + ", ".join(f"{p} {v:+.3g} ± {s:.2g}" for p, v, s in each) + ".")
        if self.influences[i]:
            rows = ", ".join(
                f"{one.label} (weight {one.weight:.2g}, y = {_cell(one.target)}; without it "
                f"{0.0 - one.shift:+.2g})"
                for one in self.influences[i]
            )
            said.append(f"It rests most on the training rows {rows}.")
        return said

    def __str__(self) -> str:
        lines = []
        for i in range(len(self)):
            lines += [*self.sentences(i), "", *text_table(*self.table(i)), ""]
        return "\n".join([*lines, *self._about()])

    def _because(self, i: int) -> str:
        total = max(float(np.abs(self.values[i]).sum()), self._rounding(i) / SMALL)
        told = [g for g in self.orders()[i] if abs(self.values[i, g]) > SMALL * total][:SAID]
        said = [
            f"{self.names[g]}{f' = {self.given[i][g]}' * bool(self.given[i][g])} "
            f"{'raises' if self.values[i, g] > 0 else 'lowers'} it by {self._adds(i, g).lstrip('+-')}"
            for g in told
        ]
        return f": {', '.join(said)}" if said else ""

    def _adds(self, i: int, g: int) -> str:
        spread = "" if self.std is None else f" ± {self.std[i, g]:.2g}"
        value = float(self.values[i, g])
        return f"{value if abs(value) > self._rounding(i) else 0.0:+.3g}{spread}"

    def _rounding(self, i: int) -> float:
        """What is not told from nothing beside prediction i."""
        return ROUNDING * max(abs(float(self.prediction[i])), abs(float(self.base[i])))

    def _predicted(self, i: int) -> str:
        return f"{self.prediction[i]:.4g} ± {self.prediction_std[i]:.2g}"

    def _about(self) -> list[str]:
        return [f"method: {self.method}", *(f"note: {note}" for note in self.notes)]


def attributions(
    model: Any,
    rows: Any,
    background: Any = None,
    groups: Groups | None = None,
    contrast: Any = None,
    most: int = 5,
    seed: int = 0,
) -> Attributions:
    """What each column adds to what a posterior, a fit or an estimator says of f at rows (m, d).

    Exact for kernels that are sums of products over columns, or mixtures of those (SE, Matern, rational
    quadratic, periodic and linear kernels on any number of columns, their sums, and products), and for any
    kernel on up to 10 columns, where all coalitions are looked at; else by random orders, with their standard
    errors. In every case the values sum to the prediction less the average.

    background: rows (B, d) that the row is set beside; None: rows of the training data. Of either, up to 100
        drawn at random, fewer where the work would be too much; a note says how many
    groups: the positions of the inputs that belong together, by name; default: each column for itself
    contrast: (L,), which combination of several latent functions is explained; None: the first
    most: training rows that are named for each prediction
    seed: of rows of the background and of orders

    >>> print(explain.attributions(post, Xs[:1]))
    """
    posterior = _posterior(model)
    inputs = posterior.inputs
    named = checked_groups(groups, inputs)
    positions = list(named.values())
    Z = _read(posterior, rows, "rows")
    block = max(1, int(CELLS / (len(named) * len(inputs.values))))
    if len(Z) > block:  # memory does not grow with the number of rows
        each = [
            attributions(posterior, Z[i : i + block], background, groups, contrast, most, seed)
            for i in range(0, len(Z), block)
        ]
        labels = tuple(f"row {i}" for i in range(len(Z)))
        return dataclasses.replace(stacked(each, np.arange(len(Z))), labels=labels)
    around = inputs.values if background is None else _read(posterior, background, "background")
    size = background_size(posterior, positions, ROWS)
    chosen = np.sort(np.random.default_rng(seed).permutation(len(around))[:size])
    beside = around[chosen]
    L = posterior.model.likelihood.latents
    one = np.eye(L)[0] if contrast is None else np.asarray(contrast, float)
    mean, variance = posterior.latent_moments(Z)
    assert variance is not None
    prediction, std = _combined(mean, variance, one)
    average = posterior.latent_moments(beside, variance=False)[0]
    base = float(np.mean(average if average.ndim == 1 else average @ one))
    moments = shapley_of(posterior, Z, beside, positions, one, seed)
    # what rounding leaves of the sum is shared out evenly
    rest = prediction - base - moments.mean.sum(1)
    values = moments.mean + rest[:, None] / len(positions)
    parts, part_values, part_std = part_values_of(posterior, Z, beside)
    whose = "the training data" if background is None else "the background"
    some = f"{len(beside)} rows" if len(beside) < len(around) else f"all {len(beside)} rows"
    notes = [f"± is one posterior standard deviation; the average is over {some} of {whose}"]
    if moments.std is None:
        notes.append(f"how sure the values are is not known: {posterior.why_not('sample')}")
    if moments.error.any():
        notes.append(
            f"orders of columns were sampled: standard errors of the values up to {moments.error.max():.2g}"
        )
    text = [[_text(row, group) for group in positions] for row in Z]
    return Attributions(
        names=tuple(named),
        values=values,
        std=moments.std,
        error=moments.error,
        base=np.full(len(Z), base),
        prediction=prediction,
        prediction_std=std,
        parts=parts,
        part_values=part_values,
        part_std=part_std,
        influences=influences(posterior, Z, most),
        labels=tuple(f"row {i}" for i in range(len(Z))),
        given=tuple(map(tuple, text)),
        what=("f",) * len(Z),
        method=f"Shapley values, {moments.method}",
        notes=tuple(notes),
    )


def _posterior(model: Any) -> AbstractPosterior:
    if isinstance(model, PosteriorFunction):
        return model.posterior
    if isinstance(model, AbstractFitted) or not isinstance(model, AbstractConditioned):
        raise TypeError(
            f"cannot explain predictions of a {type(model).__name__}: give a posterior (what condition "
            "returns), a Fit or a fitted estimator."
        )
    posterior: AbstractPosterior = model.one_posterior()
    return posterior


def _read(posterior: AbstractPosterior, X: Any, name: str) -> np.ndarray:
    """Rows (m, d) as the posterior reads them; one row (d,) is one of them."""
    objects, d = posterior.model.reads_objects(), posterior.inputs.values.shape[1]
    one = isinstance(X, np.ndarray) and X.ndim == 1 and not objects
    values = as_inputs(X[None] if one else X, name, posterior.inputs.names, objects).values
    if values.shape[1] != d or not len(values):
        raise InputError(
            f"{name} has shape {values.shape}, but the model was conditioned on {d} "
            f"column{'s' if d != 1 else ''}: give at least one row of them, (m, {d})."
        )
    return values


def together(found: Sequence[Attributions], weights: Sequence[float]) -> Attributions:
    """What columns add to a weighted sum of independent functions, from what they add to each."""
    w = np.asarray(weights, float)

    def spread(stds: Sequence[np.ndarray]) -> np.ndarray:
        return np.sqrt(np.einsum("k,k...->...", w**2, np.square(np.stack(stds))))

    def added(values: Sequence[np.ndarray]) -> np.ndarray:
        return np.einsum("k,k...->...", w, np.stack(values))

    stds = [one.std for one in found if one.std is not None]
    first, nothing = found[0], np.zeros((len(found[0]), 0))
    return dataclasses.replace(
        first,
        values=added([one.values for one in found]),
        std=spread(stds) if len(stds) == len(found) else None,
        error=spread([one.error for one in found]),
        base=added([one.base for one in found]),
        prediction=added([one.prediction for one in found]),
        prediction_std=spread([one.prediction_std for one in found]),
        parts=(),
        part_values=nothing,
        part_std=nothing,
        influences=((),) * len(first),
    )


def stacked(found: Sequence[Attributions], order: np.ndarray) -> Attributions:
    """The rows of several, one after the other, in another order."""

    def rows(arrays: Sequence[np.ndarray]) -> np.ndarray:
        return np.concatenate(arrays)[order]

    def listed(values: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
        every = [value for each in values for value in each]
        return tuple(every[i] for i in order) if every else ()

    stds, same = [one.std for one in found if one.std is not None], len({one.parts for one in found}) == 1
    nothing = np.zeros((len(order), 0))
    return dataclasses.replace(
        found[0],
        values=rows([one.values for one in found]),
        std=rows(stds) if len(stds) == len(found) else None,
        error=rows([one.error for one in found]),
        base=rows([one.base for one in found]),
        prediction=rows([one.prediction for one in found]),
        prediction_std=rows([one.prediction_std for one in found]),
        parts=found[0].parts if same else (),
        part_values=rows([one.part_values for one in found]) if same else nothing,
        part_std=rows([one.part_std for one in found]) if same else nothing,
        influences=listed([one.influences for one in found]),
        labels=listed([one.labels for one in found]),
        given=listed([one.given for one in found]),
        what=listed([one.what for one in found]),
        also=listed([one.also for one in found]),
    )


def _combined(mean: np.ndarray, variance: np.ndarray, contrast: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation (m,) of a combination of latent functions."""
    if mean.ndim == 1:
        return mean, np.sqrt(variance)
    return mean @ contrast, np.sqrt(np.einsum("l,mlk,k->m", contrast, variance, contrast))


def part_values_of(
    posterior: AbstractPosterior, rows: np.ndarray, background: np.ndarray
) -> tuple[tuple[str, ...], np.ndarray, np.ndarray]:
    """Names of the additive terms of the kernel, what each adds (m, P) beyond its average over the
    background, and the standard deviation (m, P) of that; none where there is one, or where they are not
    known.
    """
    nothing = (), np.zeros((len(rows), 0)), np.zeros((len(rows), 0))
    if not by_kernel(posterior):
        return nothing
    this: Any = posterior
    state = this.state
    terms = additive(state.prior.kernel)
    if len(terms) < 2:
        return nothing
    X, alpha = np.asarray(state.X), np.asarray(state.alpha, float).reshape(-1)
    values, stds = [], []
    for term in terms:
        a = np.asarray(term(rows, X)) - np.asarray(term(background, X)).mean(0)
        own = np.asarray(term.diag(term.encode(rows)))
        prior = own - 2.0 * np.asarray(term(rows, background)).mean(1) + np.asarray(term(background)).mean()
        variance = prior - np.einsum("mn,nm->m", a, state.apply(a.T))
        values.append(a @ alpha)
        stds.append(np.sqrt(np.maximum(variance, 0.0)))
    return tuple(term.formula(3) for term in terms), np.stack(values, 1), np.stack(stds, 1)


def _text(row: np.ndarray, group: Sequence[int]) -> str:
    """The values of some columns of a row, as text."""
    return ", ".join(map(_cell, row[list(group)]))


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, int | float | np.number) else str(value)
