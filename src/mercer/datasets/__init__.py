"""Data sets of the texts. `load_co2` and `ebden` are shipped; `load(name)` reads the others from a folder of yours.

>>> co2 = load_co2()
>>> co2.X.shape, co2.target, co2.units["co2"]
((521, 1), 'co2', 'ppm')
>>> sarcos = load("sarcos")                # needs the environment variable MERCER_DATA
>>> test = load("sarcos", part="test")
"""

from mercer.datasets._loaders import Dataset, ebden, load, load_co2, names

__all__ = ["Dataset", "ebden", "load", "load_co2", "names"]
