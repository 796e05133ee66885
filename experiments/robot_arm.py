"""Robot arm, automatic relevance determination: two informative inputs, two noisy copies of them, two irrelevant ones."""

from __future__ import annotations

import numpy as np

import mercer as mc
from experiments._table import table
from mercer import datasets, metrics


def run(out=None) -> str:
    train, test = datasets.load("robot_arm", part="train"), datasets.load("robot_arm", part="test")
    model = mc.GPRegressor(kernel=mc.kernels.SE(np.ones(6), variance=1.0), restarts=2).fit(train.X, train.y)
    mean, std = model.predict(test.X, return_std=True)
    kinds = ["informative", "informative", "noisy copy", "noisy copy", "irrelevant", "irrelevant"]
    spread = train.X.std(0)
    rows = [
        [f"x{i + 1}", kind, *([f"{l:.2f}", f"{l / s:.2f}"] if l < 100 * s else ["-", "more than 100"])]
        for i, (kind, l, s) in enumerate(zip(kinds, model.kernel_.lengthscale, spread, strict=True))
    ]
    text = [
        "# Robot arm",
        "",
        table(["input", "kind", "length-scale", "in standard deviations of the input"], rows),
        "",
    ]
    text.append(
        f"Noise standard deviation {np.sqrt(model.noise_variance_):.4f} (true: 0.05). Test SMSE {metrics.smse(test.y, mean):.5f}, "
        f"MSLL {metrics.msll(test.y, mean, std, train.y):.3f}, RMSE {metrics.rmse(test.y, mean):.4f}."
    )
    text += [
        "",
        "A length-scale of more than a hundred standard deviations is not determined any further: the evidence is flat there.",
    ]
    return "\n".join(text)
