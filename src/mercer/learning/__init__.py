"""Learning hyperparameters: objectives, starts, optimisation."""

from mercer.learning.fit import Fit, FitWarning, Status, fit
from mercer.learning.objectives import Objective

__all__ = ["Fit", "FitWarning", "Objective", "Status", "fit"]
