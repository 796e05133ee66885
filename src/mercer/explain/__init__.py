"""What a fitted function does with its columns: which of them matter, and how.

`importance` says what share of the prediction's variance each column (and pair of columns) explains, how sure
that is, and how much worse the other rows predict one whose column is shuffled; `effects` the prediction
along a column or two, averaged over the others; `attributions` what each column adds to one prediction, and
on which training rows it rests. Estimators offer them as methods.

>>> print(GPRegressor().fit(df[["a", "b", "c"]], df["y"]).importance())
>>> explain.importance(post, groups={"place": (0, 1), "depth": (2,)}).pairs
>>> print(explain.attributions(post, Xs[:1]))
"""

from mercer.explain.attribution import Attributions, attributions
from mercer.explain.dependence import Axis, Effect, effects
from mercer.explain.function import AbstractFitted, PosteriorFunction
from mercer.explain.influence import Influence, influences
from mercer.explain.result import Importance, Pair
from mercer.explain.shapley import Shapley, shapley_values
from mercer.explain.shares import importance
from mercer.explain.sobol import Indices, sobol_indices

__all__ = [
    "AbstractFitted",
    "Attributions",
    "Axis",
    "Effect",
    "Importance",
    "Indices",
    "Influence",
    "Pair",
    "PosteriorFunction",
    "Shapley",
    "attributions",
    "effects",
    "importance",
    "influences",
    "shapley_values",
    "sobol_indices",
]


def __dir__() -> list[str]:
    return sorted(__all__)
