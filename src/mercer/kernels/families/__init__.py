"""Covariance functions, one file per family."""
