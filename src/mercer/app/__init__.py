"""The command line, `mercer`: its commands are the public names."""

__all__: list[str] = []
