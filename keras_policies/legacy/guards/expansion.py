"""Refuses packed data that claims to unpack to far more than its size."""

from keras_policies.legacy.base.errors import LegacyModelError

# tf.keras packs nothing, and weights that someone packed shrink to a half.
MAX_EXPANSION = 4
# Sizes that may be packed better: a whole file (empty groups are zeros), one array,
# all vocabularies.
SMALL_FILE_BYTES = 16 * 1024 * 1024
SMALL_ARRAY_BYTES = 4096
SMALL_TEXT_BYTES = 1024 * 1024


def check(part: str, claimed: int, held: int, small: int) -> None:
    """Raise if a part of a file claims more bytes than the bytes it holds explain.

    Bytes are `claimed` when unpacked, `held` in the file; up to `small` more than
    `MAX_EXPANSION` explains are allowed.
    """
    if claimed > MAX_EXPANSION * held + small:
        raise LegacyModelError(
            f"{part} claims {claimed} bytes, and {held} are there: at most "
            f"{MAX_EXPANSION} times as many are expected.",
            "If you trust it, store it unpacked: HDF5 with `h5repack -f NONE`, a "
            ".keras file with `zip -0`.",
        )
