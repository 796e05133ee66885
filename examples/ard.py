"""Which inputs matter? Shares of the variance of the prediction on Friedman's function, in which x0 to x4
count and x5 to x7 do not. The linear x3 has the longest length-scale of those that count, and matters most.

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
print(model.importance())
print(f"noise: learned {model.noise_variance_**0.5:.2f}, true 1")

ax = mc.viz.importance(model)
ax.figure.savefig("ard.png", dpi=130)
