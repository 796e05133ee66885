"""kin40k and protein by solvers for large data: RMSE and NLPD against time.

ARD Matern 5/2 with inputs and targets standardised on the training rows. All solvers share hyperparameters learned from the
evidence of 2,048 random rows, except where a row says "learned": there they come from all rows by the method itself.
"""

from __future__ import annotations

import functools
import time
from pathlib import Path

import numpy as np

import mercer as mc
from experiments._table import table
from experiments.sarcos_sparse import Runs
from mercer import datasets, metrics
from mercer import kernels as k
from mercer.inference import SVGP
from mercer.solvers import VFE, Committee, Dense, SubsetOfData, Vecchia

SETS = ("kin40k", "protein")
METHODS = {
    "exact": Dense(),
    "subset of data, 2048": SubsetOfData(2048),
    "VFE, 512": VFE(512),
    "VFE, 1024": VFE(1024),
    "rBCM, blocks of 1000": Committee(size=1000, combine="rbcm"),
    "Vecchia, 30 neighbours": Vecchia(30),
    "VFE, 512, learned": VFE(512),
    "SVGP, 512, learned": SVGP(m=512, epochs=10),
}


def run(
    out=None, sets=SETS, methods=METHODS, start: int = 2048, rows: int | None = None, exact_rows: int = 12_000
) -> str:
    """`start`: rows that the shared hyperparameters are learned from. `rows`: use only so many training and test rows.
    `exact_rows`: the largest training set for an exact row (n^2 numbers of 8 bytes). Finished runs stand in `large_data.csv` in
    `out` and are not repeated.
    """
    values = ("rmse", "nlpd", "learning", "rest", "converged")
    runs = Runs(None if out is None else Path(out) / "large_data.csv", ("set", "method"), values)
    text, every = ["# Large data: solvers against time", ""], {}
    for name in sets:
        data = Data(name, start, rows)
        for method, how in methods.items():
            if method != "exact" or len(data.y) <= exact_rows:
                runs.measure((name, method), functools.partial(data.measure, method, how))
        found = {method: runs.found[name, method] for method in methods if (name, method) in runs.found}
        text += [
            f"## {name}: {len(data.y)} training rows, {data.X.shape[1]} inputs, {len(data.ys)} test rows",
            "",
        ]
        text += [
            table(
                ["method", "RMSE", "NLPD", "learning, s", "the rest, s"],
                [_row(*item) for item in found.items()],
            ),
            "",
        ]
        if "exact" not in found:
            text += [
                f"No exact row: it would take {8e-9 * len(data.y) ** 2:.1f} GB (`run(exact_rows={len(data.y)})`); exact_large.md "
                "has exact scores from 40,000 of the rows.", "",
            ]  # fmt: skip
        every[name] = found
    if out is not None:
        picture(every, methods, Path(out))
        text += ["![scores against time](large_data.png)", ""]
    text.append(
        "RMSE and NLPD in units of the target. Seconds are processor time of one thread, compiling included: learning the "
        f"hyperparameters (where shared, from {start} random rows, the same for all), and the rest: conditioning on all training "
        "rows (part of learning where a row says learned) and predicting mean and variance of all test rows. One run each. Protein "
        "is split 0 of the published 90/10 divisions; some of its test rows repeat training inputs. Vecchia conditions on near "
        "neighbours and is meant for up to about five inputs: with eight or nine it was expected to be weak."
    )
    return "\n".join(text)


class Data:
    """A set, standardised on its training rows, and hyperparameters learned from some of them."""

    def __init__(self, name: str, start: int, rows: int | None = None):
        train, test = (datasets.load(name, part=part) for part in ("train", "test"))
        keep = np.random.default_rng(0).permutation(len(train.y))[:rows]
        centre, scale = train.X.mean(0), train.X.std(0)
        self.X, self.Xs = (train.X[keep] - centre) / scale, (test.X[:rows] - centre) / scale
        self.offset, self.unit = train.y.mean(), train.y.std()
        self.y, self.ys = (train.y[keep] - self.offset) / self.unit, test.y[:rows]
        self.start = min(start, len(self.y))

    @functools.cached_property
    def shared(self):
        """The model learned from the first rows (they are in random order), the processor time that took, whether it converged."""
        d = self.X.shape[1]
        model = mc.Model(mc.GP(k.Matern(np.full(d, np.sqrt(d)), nu=2.5)), mc.likelihoods.Gaussian(0.1))
        began = time.process_time()
        fit = mc.fit(model, self.X[: self.start], self.y[: self.start])
        return fit.model, time.process_time() - began, fit.status.converged

    def measure(self, method: str, how) -> tuple[float, float, float, float, bool]:
        """RMSE, NLPD, seconds of learning, seconds of the rest, and whether learning converged."""
        model, learning, converged = self.shared
        began = time.process_time()
        if method.endswith("learned"):
            settings = {"inference": how} if isinstance(how, SVGP) else {"solver": how}
            fit = mc.fit(model, self.X, self.y, **settings)
            posterior, converged = fit.posterior, fit.status.converged
            learning = time.process_time() - began
            began = time.process_time()
        else:
            posterior = model.condition(self.X, self.y, solver=how)
        mean, std = posterior.mean_and_std(self.Xs)
        rest = time.process_time() - began
        mean, std = self.offset + self.unit * mean, self.unit * std
        return metrics.rmse(self.ys, mean), metrics.nlpd(self.ys, mean, std), learning, rest, converged


def _row(method: str, values) -> list[str]:
    rmse, nlpd, learning, rest, converged = values
    return [
        method,
        f"{rmse:.4f}",
        f"{nlpd:.4f}",
        f"{learning:.1f}{'' if converged else ' (not converged)'}",
        f"{rest:.1f}",
    ]


def picture(every: dict[str, dict], methods, out: Path) -> None:
    """A row of panels for each data set; a method has one colour and marker in all."""
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator

    from mercer.viz._style import CYCLE, frame

    figure, axes = plt.subplots(
        len(every), 2, figsize=(11, 3.8 * len(every)), layout="constrained", squeeze=False
    )
    for row, (name, found) in zip(axes, every.items(), strict=True):
        for j, (ax, score) in enumerate(zip(row, ("RMSE", "NLPD"), strict=True)):
            frame(ax, "processor seconds, learning included", f"{name}: {score}")
            for i, method in enumerate(methods):
                if method in found:
                    values = found[method]
                    marker, colour = "os"[i // len(CYCLE)], CYCLE[i % len(CYCLE)]
                    ax.plot(values[2] + values[3], values[j], marker, color=colour, ms=8, label=method)
            ax.set_xscale("log")
            ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            ax.xaxis.set_major_formatter("{x:g}")
            ax.xaxis.set_minor_formatter("")
    figure.legend(
        *axes[0, 0].get_legend_handles_labels(), loc="outside right center", frameon=False, fontsize="small"
    )
    figure.savefig(out / "large_data.png", dpi=110)
    plt.close(figure)
