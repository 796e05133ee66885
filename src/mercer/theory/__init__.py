"""Theory made visible: GP regression as a linear smoother, its equivalent kernel, its spectral shrinkage."""

from mercer.theory.smoother import Shrinkage, equivalent_kernel, shrinkage

__all__ = ["Shrinkage", "equivalent_kernel", "shrinkage"]
