"""The one error that every unreadable or foreign file ends in."""


class LegacyModelError(ValueError):
    """A legacy model could not be read, or not be turned into a Keras 3 model.

    The message names the file, what is wrong with it, and what can be done.

    Example:
        >>> try:
        ...     load_model("no/such/model")
        ... except LegacyModelError as error:
        ...     print(error)
        no/such/model: there is no such file or folder.
    """
