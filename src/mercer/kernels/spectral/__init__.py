"""The spectral side of kernels."""
