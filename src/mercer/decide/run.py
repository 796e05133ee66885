"""`optimise`: a function, a space, and so many evaluations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mercer.decide.optimiser import Optimiser, Optimum
from mercer.progress import Progress, shown, tell

__all__ = ["optimise"]


def optimise(
    function: Callable[..., Any],
    space: Mapping[str, Any],
    evaluations: int = 50,
    maximise: bool = False,
    seed: int = 0,
    progress: Progress = None,
    **settings: Any,
) -> Optimum:
    """The smallest value of an expensive function, in few evaluations.

    function: called with the columns of the space by keyword, gives a number
    space, maximise, seed, settings: as in `Optimiser`

    >>> best = optimise(lambda x, y: f(x, y), {"x": (-5.0, 10.0), "y": (0.0, 15.0)}, evaluations=40)
    >>> best.value, best.point, best.history
    """
    opt = Optimiser(space, maximise=maximise, seed=seed, **settings)
    with shown("optimising", progress):
        for i in range(len(opt.history), evaluations):
            row = opt.ask()
            try:
                value = function(**row)
            except Exception:
                opt.tell(row, failed=True)
            else:
                opt.tell(row, value)
            best = opt.best().value if any(not e.failed for e in opt.history) else float("nan")
            tell(i + 1, evaluations, f"evaluations, best {best:.6g}")
    return opt.best()
