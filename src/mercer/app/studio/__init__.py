"""The studio: a local web application in which one plays with Gaussian processes, and fits them to tables.

`playground` computes for points on a line. `desk` keeps tables and runs, `worker` is the process that each
fit has of its own, and `script` writes the Python code that does the same. `server` puts them behind HTTP,
and `static/` is the page. What needs FastAPI is imported when the studio is opened: `mercer studio`.
"""
