"""Carbon dioxide over Mauna Loa: learn from the years before 1992, predict the ten that follow, compare.
Writes co2.png.
"""

import mercer as mc
from mercer import kernels as k

data = mc.datasets.load_co2()
past = data.X[:, 0] < 1992
kernel = (
    k.SE(67.0, variance=66.0**2)  # trend: years and ppm
    # a season that may change its shape
    + 2.4**2 * k.SE(90.0) * k.Periodic(period=mc.fixed(1.0), lengthscale=1.3)
    + k.RationalQuadratic(1.2, alpha=0.78, variance=0.66**2)  # irregularities of years
    + k.SE(0.13, variance=0.18**2)  # and of months
)
model = mc.GPRegressor(kernel=kernel, restarts=0).fit(data.X[past], data.y[past])
print(model.summary())

X_later, y_later = data.X[~past], data.y[~past]
mean, std = model.predict(X_later, return_std=True)
for name, value in mc.metrics.regression_report(y_later, mean, std, data.y[past]).items():
    print(f"{name:>18} {value:8.3f}")

ax = mc.viz.forecast(model, X_later, observed_later=y_later, xlabel="year", ylabel="CO$_2$ / ppm")
ax.figure.savefig("co2.png", dpi=130)
