"""The warning of a fit that did not end at an optimum. It is scikit-learn's as well, which is slow to import:
this module is loaded when there is something to warn of.
"""

from __future__ import annotations

from sklearn.exceptions import ConvergenceWarning

from mercer.learning.result import FitWarning


class UnconvergedWarning(FitWarning, ConvergenceWarning):
    """Learning ended elsewhere than at an optimum: it stopped early, was interrupted, or came to a bound
    beyond which the objective still rises; or draws have not settled.
    """
