"""Relatives of Gaussian processes, and the plain methods they are measured against."""

from mercer.relatives.baselines import LinearRegression, NadarayaWatson

__all__ = ["LinearRegression", "NadarayaWatson"]
