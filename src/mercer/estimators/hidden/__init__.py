"""Models with hidden variables, fitted by EM."""
