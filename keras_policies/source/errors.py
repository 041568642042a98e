"""The errors of models that have no source code."""


class SourceError(ValueError):
    """No source code of a model can be given.

    Attributes:
        code: str, the code of the kind of error, which `keras-policies explain` knows.
    """

    def __init__(self, message: str, code: str = "KP405") -> None:
        super().__init__(message)
        self.code = code


class CannotWriteError(ValueError):
    """A part of a model has no source code; the message says what to do."""
