"""Posteriors: what conditioning returns."""
