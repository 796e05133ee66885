"""Pictures. Each function draws on `ax` (or a new figure), labels it, and returns the Axes; none calls
`plt.show()`.

>>> ax = viz.posterior(model, xlabel="time / s", ylabel="height / m")
>>> ax.figure.savefig("fit.png")

The functions that ask for a `model` take what conditioning or fitting returned: a posterior, a Fit or a
fitted estimator. Colours are those of Okabe and Ito, which colour-blind people can tell apart. matplotlib is
imported by the first picture.
"""

from mercer.viz._animation import animation
from mercer.viz._chains import chains
from mercer.viz._checks import calibration, evidence_profile, fit_history, importance, observed_vs_predicted
from mercer.viz._classes import latent, probability, regions, surface, verdict
from mercer.viz._curves import components, forecast, posterior, prior
from mercer.viz._effects import effects
from mercer.viz._explain import explain
from mercer.viz._kernel import kernel
from mercer.viz._latent import latent_space
from mercer.viz._learning import data_needed, learning_curves
from mercer.viz._maps import policy_map, transition_map, value_map
from mercer.viz._marginals import marginals
from mercer.viz._mixture import ellipses, state_path, transition_graph
from mercer.viz._outliers import outliers, raster, scores
from mercer.viz._points import points
from mercer.viz._reliability import confusion
from mercer.viz._series import decomposition
from mercer.viz._trajectories import trajectories
from mercer.viz._weights import posterior_covariance, smoother_weights

__all__ = [
    "animation",
    "calibration",
    "chains",
    "components",
    "confusion",
    "data_needed",
    "decomposition",
    "effects",
    "ellipses",
    "evidence_profile",
    "explain",
    "fit_history",
    "forecast",
    "importance",
    "kernel",
    "latent",
    "latent_space",
    "learning_curves",
    "marginals",
    "observed_vs_predicted",
    "outliers",
    "points",
    "policy_map",
    "posterior",
    "posterior_covariance",
    "prior",
    "probability",
    "raster",
    "regions",
    "scores",
    "smoother_weights",
    "state_path",
    "surface",
    "trajectories",
    "transition_graph",
    "transition_map",
    "value_map",
    "verdict",
]
