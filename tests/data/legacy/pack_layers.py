"""Packs a part of what write_layers.py wrote, for the tests.

    python pack_layers.py OUTDIR

Of each variant of a class one file, of one policy and one form, so that all of them
come up; of the two releases in the middle the first of each class, and every third. The
archive of a release is `layers/<release>.tar.xz`.
"""

import io
import json
import pathlib
import sys
import tarfile
import zlib

THINNED = {"2.4.4": 3, "2.10.1": 3}
# What legacy_layers.py says of one release.
ALWAYS = ("MultiHeadAttention-masked",)
FOLDER = pathlib.Path(__file__).parent / "layers"
# Nothing of the model is in them.
WITHOUT = ("fingerprint.pb",)


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


def add(archive, path, name):
    info = tarfile.TarInfo(name)
    data = path.read_bytes()
    info.size = len(data)
    archive.addfile(info, io.BytesIO(data))


def main(outdir):
    FOLDER.mkdir(exist_ok=True)
    for release in sorted(pathlib.Path(outdir).iterdir()):
        with tarfile.open(FOLDER / f"{release.name}.tar.xz", "w:xz", preset=9) as archive:
            for chosen in choose(release):
                found = [chosen] if chosen.is_file() else sorted(chosen.rglob("*"))
                found = [path for path in found if path.is_file()]
                for path in [*found, chosen.parent / "expected.npz"]:
                    if path.name not in WITHOUT:
                        add(archive, path, str(path.relative_to(release.parent)))


if __name__ == "__main__":
    main(*sys.argv[1:])
