"""Kernels as text: written, read, and described."""
