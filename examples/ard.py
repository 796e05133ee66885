"""Which inputs matter? Automatic relevance determination on Friedman's function, in which x0 to x4 count and
x5 to x7 do not.

Writes ard.png.
"""

import numpy as np

import mercer as mc

rng = np.random.default_rng(0)
X = rng.uniform(size=(400, 8))
f = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
y = f + rng.standard_normal(400)

model = mc.GPRegressor().fit(X, y)
print(model.summary())
print(f"noise: learned {model.noise_variance_**0.5:.2f}, true 1")

ax = mc.viz.relevance(model)
ax.figure.savefig("ard.png", dpi=130)
