"""Open hostile inputs one after the other, in a process of its own.

Reads lines `format mutation seed`, and answers each with a line of JSON. The parent
process, `hostile.py`, notices if this one hangs or dies. An audit hook reports what
Python opens, writes and imports; inotify reports opening the canary, even by C code.
"""

import ctypes
import functools
import hashlib
import json
import os
import pathlib
import random
import shutil
import sys
import tarfile
import tempfile
import time
import warnings

import hostile_bytes
import hostile_structures as structures

FOLDER = pathlib.Path(__file__).parents[1] / "data" / "legacy"
GIB = 1024**3
ADDRESS_SPACE = 6 * GIB  # protects the machine; the test limits memory in use
READ_ONLY = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY | os.O_NOFOLLOW
IN_OPEN = 0x20
# Format -> (its originals, the mutations of its structure).
FORMATS = {
    "SavedModel": (
        [
            "more.tar.xz/2.15.1/amsgrad/saved_model",
            "more.tar.xz/2.4.4/nested_twice/saved_model",
            "more.tar.xz/2.0.0/sgd_decay/saved_model",
            "lookups.tar.xz/2.15.1/StringLookup-adapted/saved_model",
            "lookups.tar.xz/2.15.1/StringLookup-file/saved_model",
        ],
        {**structures.SAVED_MODEL, **hostile_bytes.FILES},
    ),
    "recorded": (  # SavedModels whose functions are read
        [
            "lost/2.0.0.tar.xz/2.0.0/own_lookup/model",
            "lost/2.4.4.tar.xz/2.4.4/nested/model",
            "lost/2.15.1.tar.xz/2.15.1/subclassed_dict/model",
            "lost/2.15.1.tar.xz/2.15.1/module_signatures/model",
            "lost/keras-3.15.1.tar.xz/keras-3.15.1/export_image/model",
            "lost_lookups.tar.xz/lost_lookups/2.15.1/saved_model",
        ],
        {**structures.RECORDED, "message": structures.SAVED_MODEL["message"]},
    ),
    "planned": (  # layers are made of their functions
        [
            "lost/2.0.0.tar.xz/2.0.0/own_lookup/model",
            "lost/2.4.4.tar.xz/2.4.4/nested/model",
            "lost/2.15.1.tar.xz/2.15.1/subclassed_dict/model",
            "lost/2.15.1.tar.xz/2.15.1/module_signatures/model",
        ],
        {**structures.RECORDED, **structures.GRAPH_SIZES},
    ),
    "session": (  # SavedModels of TensorFlow 1
        [
            f"tensorflow_1.tar.xz/tensorflow_1/1.15.5/{case}/model"
            for case in ("condition", "loop", "partitioned", "rnn", "table_of_file")
        ],
        structures.SESSION,
    ),
    "checkpoint": (
        [
            "more.tar.xz/2.15.1/amsgrad/checkpoint",
            "more.tar.xz/2.4.4/amsgrad/checkpoint",
        ],
        {**structures.CHECKPOINT, **hostile_bytes.FILES},
    ),
    "H5": (
        [
            "more.tar.xz/2.15.1/amsgrad/model.h5",
            "more.tar.xz/2.4.4/sgd_nesterov/model.h5",
            "more.tar.xz/2.0.0/stateful/model.h5",
            "lookups.tar.xz/2.15.1/StringLookup-tf_idf/model.h5",
            "keras_1.tar.xz/sequences.h5",
            "keras_2.tar.xz/2.2.4/adam.h5",
        ],
        structures.HDF5,
    ),
    "keras": (
        [
            "more.tar.xz/2.15.1/amsgrad/model.keras",
            "lookups.tar.xz/2.15.1/Lookup-nested/model.keras",
            "lookups.tar.xz/2.15.1/TextVectorization-tf_idf/model.keras",
            "more.tar.xz/2.15.1/adagrad/model.keras",
        ],
        hostile_bytes.ZIP,
    ),
    "zip": (  # packed as the test starts
        [
            "more.tar.xz/2.15.1/amsgrad/saved_model.zip",
            "more.tar.xz/2.4.4/sgd_nesterov/model.h5.zip",
        ],
        {name: hostile_bytes.ZIP[name] for name in ("members", "deflated")},
    ),
    "tgz": (
        [
            "more.tar.xz/2.15.1/amsgrad/saved_model.tgz",
            "more.tar.xz/2.0.0/stateful/model.h5.tgz",
        ],
        hostile_bytes.TAR,
    ),
}
PACKED = "zip", "tgz"
# Formats with a checksum on every byte that matters; mutations that it detects.
CHECKED = "checkpoint", "keras"
FOLDERS = "SavedModel", "recorded", "planned", "session", "checkpoint"
CHECKSUMMED = frozenset(("bits", "truncated", "spliced", "filled", "deflated"))
OURS = "keras_policies", "hostile_bytes", "hostile_structures"
LIBRARIES = (
    *("absl", "google", "google_crc32c", "h5py", "jax", "jaxlib", "keras", "ml_dtypes"),
    *("numpy", "optree", "rich", "scipy", "tensorflow", "torch", "tree", "namex"),
)
WRITES = "os.remove os.rename os.mkdir os.rmdir os.symlink os.link os.chmod os.truncate"
RUNS = "os.system os.exec os.posix_spawn os.fork subprocess.Popen socket.connect"
CODE = "pickle.find_class ctypes.dlopen urllib.Request marshal.loads"
WHOLE = 10  # one of this many inputs is loaded as a model, the others are only read
FORBIDDEN = frozenset(f"{WRITES} {RUNS} {CODE}".split())
UNPACKING = "os.mkdir", "os.remove", "os.rmdir"


def mutations(kind):
    """Return `{name: mutation}` of a format."""
    return {**hostile_bytes.BYTES, **FORMATS[kind][1]}


def original(path):
    """Return `{name: bytes}` of a file, of a folder, or of one of them packed."""
    for ending, pack in hostile_bytes.PACK.items():
        if str(path).endswith(ending):
            return {f"model{ending}": pack(original(str(path).removesuffix(ending)))}
    archive, ending, folder = str(path).partition(".tar.xz/")
    if ending:
        return unpacked(FOLDER / f"{archive}.tar.xz", folder)
    path = FOLDER / path
    if path.is_file():
        return {path.name: path.read_bytes()}
    every = (item for item in sorted(path.rglob("*")) if item.is_file())
    return {str(item.relative_to(path)): item.read_bytes() for item in every}


@functools.cache
def unpacked(archive, path):
    """Return `{name: bytes}` of a folder or a file in an archive."""
    with tarfile.open(archive) as file:
        found = {
            item.name: file.extractfile(item).read()
            for item in file
            if item.isfile() and f"{item.name}/".startswith(f"{path}/")
        }
    folder = os.path.dirname(path) if path in found else path
    return {os.path.relpath(n, folder or "."): data for n, data in found.items()}


def write(files, folder):
    """Write files and links into a folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, hostile_bytes.Link):
            path.symlink_to(os.path.join(folder.parent, content.name))
        elif isinstance(content, hostile_bytes.Pipe):
            os.mkfifo(path)
        else:
            path.write_bytes(content)


class Watch:
    """Records what is opened, written and imported between `start` and `stop`."""

    def __init__(self, canary):
        self.inside = self.unpacked = None
        self.found = []
        self.importing = False
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.notify = self.libc.inotify_init1(os.O_NONBLOCK)
        self.libc.inotify_add_watch(self.notify, os.fsencode(canary), IN_OPEN)
        sys.addaudithook(self._hook)

    def _hook(self, event, arguments):
        if self.inside is None:
            return
        if event == "import":
            self.importing = True
            self._import(arguments[0])
        elif event == "open":
            self._open(*arguments)
        elif event in UNPACKING and self._is_unpacked(arguments[0]):
            pass
        elif event in FORBIDDEN and not (event == "marshal.loads" and self.importing):
            self.found.append(f"{event} {arguments!r}"[:200])

    def _is_unpacked(self, path):
        path = os.path.realpath(os.fsdecode(path))
        return self.unpacked is not None and path.startswith(f"{self.unpacked}/")

    def _import(self, name):
        root = name.partition(".")[0]
        known = root in sys.stdlib_module_names or root in (*LIBRARIES, *OURS)
        if not known or root in ("this", "antigravity"):
            self.found.append(f"import {name}")

    def _open(self, path, mode, flags):
        if isinstance(path, int) or os.path.isdir(path):
            return  # already open; or a folder, for a file without a name
        if self._is_unpacked(path):
            return
        path = os.path.realpath(os.fsdecode(path))
        mine = str(pathlib.Path(__file__).parents[2])
        folders = self.inside, sys.prefix, sys.base_prefix, mine
        system = "/usr/lib", "/proc/", "/sys/", "/dev/n"
        allowed = (*(f"{folder}/" for folder in folders), *system)
        if not (path + "/").startswith(allowed):
            self.found.append(f"open {path}")
        if flags & ~READ_ONLY:
            self.found.append(f"write {path} {flags:o}")

    def start(self, inside, unpacked=None):
        """Watch; in the folder `unpacked`, everything may be written and removed."""
        self.unpacked = unpacked and os.path.realpath(unpacked)
        self.found, self.importing, self.inside = [], False, str(inside)
        # Or Python would write what it compiles of this package, which is no harm.
        self.writes_no_bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True

    def stop(self):
        self.inside = None
        sys.dont_write_bytecode = self.writes_no_bytecode
        try:
            if os.read(self.notify, 4096):
                self.found.append("the canary was opened")
        except BlockingIOError:
            pass
        return self.found


def peak():
    """Return the largest resident memory since `reset_peak`, in bytes."""
    status = pathlib.Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def loop():
    """Return the seconds of processor time of a million rounds of nothing."""
    start = time.process_time()
    for _ in range(1_000_000):
        pass
    return time.process_time() - start


def reset_peak():
    pathlib.Path("/proc/self/clear_refs").write_text("5")


@functools.cache
def small():
    """Return the model whose weights are in the checkpoints."""
    import keras

    inputs = keras.Input((4,))
    hidden = keras.layers.Dense(5, activation="tanh")(inputs)
    return keras.Model(inputs, keras.layers.Dense(2)(hidden))


def signature(config, weights):
    """Return a digest of a model: its config, and all its weights."""
    import numpy as np

    digest = hashlib.sha256(repr(config).encode("utf-8", "replace"))
    for weight in weights:
        weight = np.asarray(weight)
        data = repr(weight.tolist()) if weight.dtype == object else weight.tobytes()
        digest.update(f"{weight.shape} {weight.dtype} {data!r}".encode())
    return digest.hexdigest()


def _refuse_keras_3(path, *_):
    from keras_policies.legacy.base.errors import Keras3ModelError

    raise Keras3ModelError(path)


def loaded(path):
    """Return the digest of the model in a file."""
    import keras

    import keras_policies

    keras.utils.set_random_seed(0)
    # Keras opens its own files; what it does with mutated ones is not tested here.
    keras.models.load_model = _refuse_keras_3
    model = keras_policies.load_model(path)
    return signature(model.to_json(), model.get_weights())


def read(path):
    """Return the digest of everything in a file, planned and read, but not built."""
    from keras_policies.legacy.base.errors import corrupt
    from keras_policies.legacy.plan import plan
    from keras_policies.legacy.readers import readers

    with readers.read(path) as legacy, corrupt(path):
        planned = plan.make(legacy)
        planned.raise_if_missing()
        every = [weight for found in legacy.weights.values() for weight in found]
        values = [weight.read() for weight in every]
        return signature([planned.config, every], values)


def recorded(path):
    """Return the digest of all functions in a SavedModel, and what they capture."""
    import numpy as np

    from keras_policies.legacy.readers import readers

    digest = hashlib.sha256()
    with readers.read(path) as legacy, np.printoptions(threshold=10):
        found = legacy.traced
        for part in found.layers, found.signatures, found.functions:
            for item in part.items():
                digest.update(repr(item).encode("utf-8", "replace"))
        for value in (
            *found.constants.values(),
            *(v.read for v in found.variables.values()),
        ):
            digest.update(repr(value()).encode("utf-8", "replace"))
    return digest.hexdigest()


def with_weights(path):
    """Return the digest of a model with the weights of a checkpoint."""
    import keras_policies

    model = small()
    before = signature(None, model.get_weights())
    try:
        keras_policies.load_weights(model, path / "weights")
    except Exception:
        if signature(None, model.get_weights()) != before:
            raise RuntimeError("some weights were loaded, and then none") from None
        raise
    return signature(None, model.get_weights())


def planned(path):
    """Return the digest of the plan of a file; nothing of it is built."""
    import keras_policies

    return signature(keras_policies.inspect_model(path), [])


def opener(kind, is_whole):
    """Return the function that opens an input as a user would, or that reads it."""
    if kind == "checkpoint":
        return with_weights
    if is_whole:
        return loaded
    return {"recorded": recorded, "planned": planned}.get(kind, read)


def _is_of_memory(error):
    """Return whether our error was caused by running out of memory."""
    while error is not None:
        if isinstance(error, MemoryError):
            return True
        error = error.__cause__ or error.__context__
    return False


def attempt(kind, folder, is_whole):
    """Return `(outcome, digest or message)` of opening an input."""
    import keras_policies
    from keras_policies.legacy.base.errors import Keras3ModelError

    path = folder if kind in FOLDERS else next(folder.iterdir())
    try:
        return "opened", opener(kind, is_whole)(path)
    except Keras3ModelError:
        return "of Keras 3", ""
    except keras_policies.LegacyModelError as error:
        if _is_of_memory(error):
            return "out of memory", str(error)[:300]
        return "refused", str(error)[:300]
    except BaseException as error:
        return "another error", f"{type(error).__name__}: {error}"[:300]


def mutated(kind, mutation, seed):
    """Return `(original, files)`: one of the format's originals, and its mutation."""
    rng = random.Random(f"{kind} {mutation} {seed}")
    source = rng.choice(FORMATS[kind][0])
    return source, mutations(kind)[mutation](rng, original(source))


class Opener:
    """Opens inputs one at a time in its own folder."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        canary = self.folder / "canary"
        canary.write_bytes(next(iter(original(FORMATS["H5"][0][0]).values())))
        self.unpacked = self.folder / "unpacked"
        self.unpacked.mkdir()
        tempfile.tempdir = str(self.unpacked)
        shutil._use_fd_functions = False  # so that the watch is told whole paths
        self.digests = {}
        for kind, (sources, _) in FORMATS.items():
            for source in sources:  # triggers the late imports now
                for is_whole in True, False:
                    outcome, found = self._attempt(kind, original(source), is_whole)
                    if outcome != "opened":
                        raise RuntimeError(f"{source}: {outcome}: {found}")
                    self.digests[kind, source, is_whole] = found
        self.watch = Watch(canary)

    def _attempt(self, kind, files, is_whole, watch=None):
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            folder = pathlib.Path(folder)
            write(files, folder)
            before = sorted(folder.rglob("*"))
            if watch is not None:
                watch.start(folder, self.unpacked if kind in PACKED else None)
            found = attempt(kind, folder, is_whole)
            if watch is not None:
                watch.stop()
            if sorted(folder.rglob("*")) != before:
                raise RuntimeError("an input has changed")
            if any(self.unpacked.iterdir()):
                raise RuntimeError("something unpacked is left")
            return found

    def open(self, kind, files, is_whole=True, equal_to=None):
        """Return `{outcome, detail, seconds, loops, bytes, seen}` of an input."""
        reset_peak()
        base, start = peak(), time.process_time()
        outcome, detail = self._attempt(kind, files, is_whole, self.watch)
        seconds, grown = time.process_time() - start, peak() - base
        if outcome == "opened" and equal_to is not None:
            same = detail == self.digests[kind, equal_to, is_whole]
            outcome = "equal" if same else "different"
        return {
            "outcome": outcome,
            "detail": detail,
            "seconds": seconds,
            "bytes": grown,
            "loops": seconds / loop() if seconds > 1 else 0,
            "size": sum(len(data) for data in files.values()),
            "seen": self.watch.found,
        }


def main():
    import resource  # POSIX

    warnings.simplefilter("ignore")
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # keeps the output of libraries out of the answers
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory() as folder:
        inputs = Opener(folder)
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
        answers.write("ready\n")
        for line in sys.stdin:
            kind, mutation, seed = line.split()
            try:
                source, files = mutated(kind, mutation, int(seed))
            except RecursionError:
                answers.write(json.dumps({"outcome": "none", "seen": []}) + "\n")
                continue
            found = inputs.open(kind, files, int(seed) % WHOLE == 0, source)
            answers.write(json.dumps({**found, "source": source}) + "\n")


if __name__ == "__main__":
    main()
