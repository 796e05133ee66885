"""Linear algebra: LAPACK on tiles, the jitter policy, Gaussian algebra and matrix identities."""
