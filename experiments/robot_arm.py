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
        [f"x{i + 1}", kind, float(l), float(l / s)]
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
    return "\n".join(text)
