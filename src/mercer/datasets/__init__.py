"""Data sets of the texts. `load_co2` and `ebden` are shipped; `load(name)` reads the others from a folder of
yours.

>>> co2 = load_co2()
>>> co2.X.shape, co2.target, co2.units["co2"]
((521, 1), 'co2', 'ppm')
>>> sarcos = load("sarcos")                # needs the environment variable MERCER_DATA
>>> test = load("sarcos", part="test")
>>> toy = toy_classification_1d(seed=0)    # drawn afresh
"""

from mercer.datasets._loaders import Dataset, ebden, load, load_co2, names
from mercer.datasets._toys import toy_classification_1d, toy_classification_2d

__all__ = ["Dataset", "ebden", "load", "load_co2", "names", "toy_classification_1d", "toy_classification_2d"]
