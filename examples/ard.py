"""Which inputs matter? Automatic relevance determination on Friedman's function, in which 5 of 8 inputs count. Writes ard.png."""

import numpy as np

import mercer as mc

rng = np.random.default_rng(0)
X = {f"x{j}": rng.uniform(size=200) for j in range(1, 9)}
f = 10 * np.sin(np.pi * X["x1"] * X["x2"]) + 20 * (X["x3"] - 0.5) ** 2 + 10 * X["x4"] + 5 * X["x5"]
y = f + rng.standard_normal(200)

model = mc.GPRegressor().fit(X, y)
print(model.summary())
print(f"noise: learned {float(model.noise_variance_) ** 0.5:.2f}, true 1")

ax = mc.viz.relevance(model)
ax.figure.savefig("ard.png", dpi=130)
