"""Published tables and figures, regenerated. `python -m experiments NAME` runs one, `python -m experiments --list` names them."""
