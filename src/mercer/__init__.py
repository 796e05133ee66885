"""Mercer: Gaussian processes for people with data."""
