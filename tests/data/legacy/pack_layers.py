"""Packs a part of what write_layers.py wrote, for the tests.

    python pack_layers.py OUTDIR

Of each variant of a class one file, of one policy and one form, so that all of them
come up; of the two releases in the middle the first of each class, and every third. The
archive of a release is `layers/<release>.tar.xz`.
"""

import json
import pathlib
import sys
import zlib

from pack import pack

THINNED = {"2.4.4": 3, "2.10.1": 3}
# What legacy_layers.py says of one release.
ALWAYS = ("MultiHeadAttention-masked",)
FOLDER = pathlib.Path(__file__).parent / "layers"


def forms(case):
    """Return the paths of what was written of one variant and policy."""
    about = json.loads((case / "expected.json").read_text())
    return [case / form for form in about["written"]]


def choose(release):
    """Yield the path of a file or folder for each variant that is taken."""
    variants = {}
    for case in sorted(release.iterdir()):
        variant = case.name.rpartition("-")[0]
        variants.setdefault(variant, []).extend(forms(case))
    seen = set()
    for number, (variant, paths) in enumerate(variants.items()):
        is_first = variant.partition("-")[0] not in seen
        seen.add(variant.partition("-")[0])
        is_taken = number % THINNED.get(release.name, 1) == 0 or variant in ALWAYS
        if paths and (is_first or is_taken):
            yield paths[zlib.crc32(variant.encode()) % len(paths)]


def files(chosen):
    """Yield the paths of a file or of a folder's files, and that of the results."""
    found = [chosen] if chosen.is_file() else sorted(chosen.rglob("*"))
    yield from (path for path in found if path.is_file())
    yield chosen.parent / "expected.npz"


def main(outdir):
    root = pathlib.Path(outdir)
    FOLDER.mkdir(exist_ok=True)
    for release in sorted(root.iterdir()):
        paths = [path for chosen in choose(release) for path in files(chosen)]
        pack(FOLDER / f"{release.name}.tar.xz", paths, root)


if __name__ == "__main__":
    main(*sys.argv[1:])
