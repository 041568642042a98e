"""Refuses files that a link leads to, outside of the folder that the user named."""

from keras_policies.legacy.base.errors import LegacyModelError


def check_inside(path, folder):
    """Raise if a file of a folder is a link to somewhere outside of it.

    Whoever made the folder would choose which file of this machine is read.

    Args:
        path: `pathlib.Path`.
        folder: `pathlib.Path`, which may be a link itself: the user named it.
    """
    if not path.resolve().is_relative_to(folder.resolve()):
        raise LegacyModelError(
            f"{path}: a link to a file outside of {folder}, which is not read. If it "
            "is to be, copy the folder with what its links lead to (cp -rL)."
        )
