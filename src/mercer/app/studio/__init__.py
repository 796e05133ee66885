"""The studio: a local web application in which one plays with Gaussian processes.

`playground` computes for points on a line, `server` puts it behind HTTP, `static/` is the page. What needs
FastAPI is imported when the studio is opened: `mercer studio`.
"""
