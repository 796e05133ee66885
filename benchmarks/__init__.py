"""Mercer beside its peers in one run: ``python -m benchmarks`` from the project's root (see ``README.md``
here).
"""
