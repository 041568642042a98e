"""Downloads `hf://user/model` from the Hugging Face Hub, as Keras 3 itself does."""

import os
import pathlib
import shutil

from keras_policies.legacy.base.errors import LegacyModelError

SCHEME = "hf://"
# The files of a model in a repository that may have much else.
PATTERNS = [
    *("*.h5", "*.hdf5", "*.keras"),
    *("*saved_model.pb", "*keras_metadata.pb", "*variables/*", "*assets/*"),
    *("config.json", "metadata.json"),
]
CHECKPOINT = ["*.index", "*.data-*"]


def check() -> None:
    """Raise if what downloads is not installed."""
    try:
        import huggingface_hub  # noqa: F401 (an extra)
    except ImportError as error:
        raise LegacyModelError(
            f"{SCHEME} needs the package huggingface_hub, which is not installed.",
            "Run pip install huggingface_hub.",
        ) from error


def download(url: str, folder: pathlib.Path, weights: bool = False) -> None:
    """Put the files of a repository into an empty folder, from the cache if it can.

    The cache has links from its snapshots to its blobs, which the readers refuse. With
    `weights`, checkpoints are downloaded, too.
    """
    check()
    import huggingface_hub

    repository = url.removeprefix(SCHEME)
    patterns = [*PATTERNS, *(CHECKPOINT if weights else [])]
    try:
        found = huggingface_hub.snapshot_download(repository, allow_patterns=patterns)
    except Exception as error:  # of the hub, of its network, of a wrong name
        reason = f"it cannot be downloaded: {type(error).__name__}: {error}"
        raise LegacyModelError(reason) from error
    shutil.copytree(found, folder, dirs_exist_ok=True, copy_function=_link)


def _link(source: str, target: str) -> None:
    try:
        os.link(os.path.realpath(source), target)
    except OSError:  # on another disk
        shutil.copyfile(source, target)
