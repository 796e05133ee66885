"""Relatives of Gaussian processes, and the plain methods they are measured against."""

from mercer.relatives.baselines import LinearRegression, NadarayaWatson
from mercer.relatives.kernel_pca import KernelPCA

__all__ = ["KernelPCA", "LinearRegression", "NadarayaWatson"]
