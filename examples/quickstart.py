"""Ten lines: noisy data in, predictions with honest uncertainty out. Writes docs/images/quickstart.png."""

from pathlib import Path

import numpy as np

import mercer as mc

rng = np.random.default_rng(3)
X = rng.uniform(0, 10, (40, 1))
y = np.sin(X[:, 0]) + 0.2 * rng.standard_normal(40)

model = mc.GPRegressor().fit(X, y)
print(model.summary())
mean, std = model.predict([[2.5], [12.5]], return_std=True)
print(f"inside the data: {mean[0]:.2f} ± {std[0]:.2f}; beyond them: {mean[1]:.2f} ± {std[1]:.2f}")

ax = mc.viz.posterior(model, np.linspace(-1, 15, 400)[:, None])
ax.figure.savefig(Path(__file__).parents[1] / "docs" / "images" / "quickstart.png", dpi=110)
