"""Kernels on strings and trees."""
