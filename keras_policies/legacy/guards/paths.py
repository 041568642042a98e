"""Refuses files that are links out of the folder that the user named."""

import pathlib

from keras_policies.legacy.base.errors import LegacyModelError


def check_inside(path: pathlib.Path, folder: pathlib.Path) -> None:
    """Raise if a file of a folder is a link to somewhere outside of it.

    Otherwise the folder's author could choose any file of the user's machine. The
    folder may be a link itself: the user named it.
    """
    if not path.resolve().is_relative_to(folder.resolve()):
        raise LegacyModelError(
            f"a link to a file outside of {folder}, which is not read.",
            "If you trust it, copy the folder with the files its links lead to "
            "(cp -rL).",
            path=path,
        )
