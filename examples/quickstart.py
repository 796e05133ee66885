"""Ten lines: noisy data in, predictions with honest uncertainty out. Writes docs/images/quickstart.png."""

from pathlib import Path

import numpy as np

import mercer as mc

rng = np.random.default_rng(0)
X = rng.uniform(-3, 3, (40, 1))
y = np.sin(2 * X[:, 0]) + 0.2 * rng.standard_normal(40)

model = mc.GPRegressor().fit(X, y)
mean, std = model.predict([[0.5], [5.0]], return_std=True)
lower, upper = model.predict_interval([[0.5], [5.0]], level=0.95)
print(model.summary())
print(f"inside the data: {mean[0]:.2f} ± {std[0]:.2f}; beyond them: {mean[1]:.2f} ± {std[1]:.2f}")

ax = mc.viz.posterior(model, np.linspace(-4, 6, 400)[:, None])
ax.figure.savefig(Path(__file__).parents[1] / "docs" / "images" / "quickstart.png", dpi=110)
