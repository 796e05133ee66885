"""Fitted models in files: values as JSON (`to_json`, `from_json`), one file without code in it, `save` and
`load`.
"""

from mercer.persist.file import ModelFileError
from mercer.persist.models import AbstractSavable, load, save
from mercer.persist.values import SerialiseError, from_json, to_json

__all__ = ["AbstractSavable", "ModelFileError", "SerialiseError", "from_json", "load", "save", "to_json"]


def __dir__() -> list[str]:
    return sorted(__all__)
