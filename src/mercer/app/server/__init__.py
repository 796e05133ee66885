"""A model server: rows come in as JSON, predictions go out. `mercer serve` starts it."""
