"""Decision processes whose states and actions can be counted (Kuss 2006, 7.1), in NumPy.

`process` says what such a process is, `exact` solves one that is known, `learning` learns from its steps
without knowing it, `beliefs` learns it with its uncertainty. `mercer.control` offers their names.
"""
