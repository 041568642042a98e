"""Legacy configs: their structure, the names in them, and the objects of Keras 3."""

import collections
import itertools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from keras_policies._common.nests import of_kind
from keras_policies._common.types import Config
from keras_policies.legacy.base.errors import LegacyModelError

LOOKUPS = "StringLookup", "IntegerLookup", "TextVectorization"
# Groups in a `.keras` file of Keras 2 that name each layer by its class and a counter.
LAYER_GROUPS = "layers", "_layer_checkpoint_dependencies"
SHARED = "shared_object_id"  # marks a config that occurs earlier in the file
PACKAGE = "keras_policies"  # prefix of the registered names of replacement layers
PROGRAM = f"{PACKAGE}>Program"
# The packages of Keras, and values of `class_name` that are not the name of a class.
OF_KERAS = "keras", "tf_keras"
NOT_CLASSES = "function", "type", "__lambda__", "__typespec__"
DIGITS = 9  # of the counter in a name


def name_of(config: Config) -> str:
    """Return the name of a layer or model from its config."""
    return str(own_name(config) or config.get("class_name"))


def own_name(config: Config) -> Any:
    """Return the name in a config or in its entry in a model, or None."""
    inner = config.get("config")
    return config.get("name") or (
        inner.get("name") if isinstance(inner, dict) else None
    )


def settings(config: Config) -> Config:
    """Return the settings in the config of an object, or {} if they are not a dict."""
    inner = config.get("config")
    return inner if isinstance(inner, dict) else {}


def is_graph(config: Config) -> bool:
    """Return whether a model's config lists layers (Sequential or Functional)."""
    inner = config.get("config")
    return isinstance(inner, list) or (
        isinstance(inner, dict) and isinstance(inner.get("layers"), list)
    )


def is_model(value: Any) -> bool:
    """Return whether a value is the config of a Sequential or Functional model."""
    return isinstance(value, dict) and "class_name" in value and is_graph(value)


def passed(value: Any) -> Iterator[Config]:
    """Yield the outermost object configs inside the config of a user-defined class."""
    inner = value.get("config") if isinstance(value, dict) else value
    inner = inner.values() if isinstance(inner, dict) else inner
    for each in (
        inner if isinstance(inner, Iterable) and not isinstance(inner, str) else ()
    ):
        if isinstance(each, dict) and isinstance(each.get("config"), dict):
            yield each
        else:
            yield from passed(each if isinstance(each, list) else ())


def dicts(value: Any) -> Iterator[Config]:
    """Yield all dicts in a value of JSON, at any depth."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield value
            waiting += value.values()
        elif isinstance(value, list | tuple):
            waiting += value


def inner_layers(config: Config) -> list[Config]:
    """Return the configs of the layers that a model lists, or [] for other layers.

    Up to Keras 2.2.2, the config of a Sequential is the list itself. Entries that are
    not configs are skipped here; the plan refuses them.
    """
    if not is_graph(config):
        return []
    inner = config["config"]
    layers = inner if isinstance(inner, list) else inner["layers"]
    return [layer for layer in layers if isinstance(layer, dict)]


def with_layers(config: Config, layers: list[Config]) -> Config:
    """Return the config of a model with its list of layers replaced."""
    inner = config["config"]
    is_list = isinstance(inner, list)
    return {**config, "config": layers if is_list else {**inner, "layers": layers}}


def with_listed_names(config: Config, names: Sequence[str]) -> Config:
    """Return the config of a model, with missing layer names taken from `names`.

    A Sequential records a layer's name only in the layer's own config, and a custom
    class may omit it there. `names` lists all layers in order, except the InputLayer.
    """
    layers = inner_layers(config)
    inputs = [item for item in layers[:1] if item.get("class_name") == "InputLayer"]
    if len(layers) - len(inputs) != len(names) or not {*map(own_name, layers)} & {None}:
        return config
    named = [
        layer if own_name(layer) else {**layer, "name": name}
        for layer, name in zip(layers[len(inputs) :], names, strict=True)
    ]
    return with_layers(config, inputs + named)


def with_new_names(root: Config) -> Config:
    """Return the config of a model with a name for every layer.

    A layer without a name gets a unique one, made from its class name. A shared layer
    has the same name wherever it occurs.
    """
    taken: set[str | None] = set()
    shared: dict[str, str] = {}
    counts: collections.Counter[str] = collections.Counter()

    def note(config: Config) -> None:
        for layer in inner_layers(config):
            taken.add(own_name(layer))
            note(layer)

    def new_name(layer: Config) -> str:
        number, name = str(layer.get(SHARED)), None
        stem = snake_case(str(layer.get("class_name")))
        if SHARED in layer and number in shared:
            return shared[number]
        while name is None or name in taken:
            name = f"{stem}_{counts[stem]}" if counts[stem] else stem
            counts[stem] += 1
        shared[number] = name
        return name

    def named(config: Config) -> Config:
        layers = inner_layers(config)
        if not layers or None not in taken:
            return config
        return with_layers(
            config,
            [
                named(layer if own_name(layer) else {**layer, "name": new_name(layer)})
                for layer in layers
            ],
        )

    note(root)
    return named(root)


def with_packages(written: Any) -> Any:
    """Name user-defined classes as HDF5 files name layers, `Custom>Softmax`.

    Elsewhere, 2.12 and later wrote `Softmax` as the `class_name` of such a class, and
    whose it is in `registered_name` and `module`.
    """
    if isinstance(written, list):
        return [*map(with_packages, written)]
    if not isinstance(written, dict):
        return written
    config = {key: with_packages(value) for key, value in written.items()}
    name, registered = config.get("class_name"), config.get("registered_name")
    root = str(config.get("module")).partition(".")[0]
    if root in OF_KERAS or name in NOT_CLASSES or not isinstance(registered, str):
        return config
    package, _, _ = registered.rpartition(">")
    return {**config, "class_name": f"{package or 'Custom'}>{name}"}


def is_program(converted: Config) -> bool:
    """Return whether a config belongs to a layer that became a program."""
    return converted.get("registered_name") == PROGRAM


class CallOutput(NamedTuple):
    """A tensor in the graph of a Functional: an output of a call of a layer."""

    layer: str
    call: int = 0
    output: int = 0


def call_outputs(nest: Any) -> Iterator[CallOutput]:
    """Return the outputs of calls in a nest of lists and dicts."""
    return of_kind(nest, CallOutput)


def keras_object(
    module: str | None, class_name: str, config: Any, registered_name: str | None = None
) -> Config:
    """Return the dict that Keras 3 deserializes to an object.

    Keras looks the class up in `module`, or by `registered_name` if that is None.
    Source: keras/src/saving/serialization_lib.py, `serialize_keras_object`.
    """
    return {
        "module": module,
        "class_name": class_name,
        "config": config,
        "registered_name": registered_name,
    }


def keras_function(registered_name: str) -> Config:
    """Return the dict that Keras 3 deserializes to a registered function."""
    return keras_object("builtins", "function", registered_name, registered_name)


def layer_name(name: str) -> str:
    """Return a layer's name as Keras 3 accepts it: `conv1/bn` becomes `conv1_bn`.

    `conv1.bn` also does, because names in a torch module cannot have dots.
    """
    return re.sub("[/.]", "_", name)


def by_name(layers: Iterable[Config]) -> dict[str, Config]:
    """Return `{name in Keras 3: config}` of layers."""
    return {layer_name(name_of(layer)): layer for layer in layers}


def beginnings(path: str) -> Iterator[str]:
    """Yield `a`, `a/b`, `a/b/c` for a path; the names in it may contain a `/`."""
    return itertools.accumulate(path.split("/"), "{}/{}".format)


def beginnings_among(names: Collection[str]) -> Callable[[str], Iterator[str]]:
    """Return a function that yields the names with which a path begins, shortest first.

    They end at a `/` or are the path. Paths may have as many `/` as characters; a
    thousand names of different lengths take half a megabyte.

    Example:
        >>> [*beginnings_among({"a", "a/b", "a/bc"})("a/bc/d")]
        ['a', 'a/bc']
    """
    lengths = sorted({*map(len, names)})

    def found(path: str) -> Iterator[str]:
        for length in itertools.takewhile(len(path).__ge__, lengths):
            if path[length : length + 1] in ("", "/") and path[:length] in names:
                yield path[:length]

    return found


def without_package(class_name: str) -> str:
    """Return a class name without its package: `package>Dense` becomes `Dense`."""
    return class_name.rpartition(">")[2]


def snake_case(class_name: str) -> str:
    """Return the name that Keras gives to an object of a class in a container."""
    name = re.sub(r"\W+", "", without_package(class_name))
    name = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()


def numbered(class_names: Iterable[str]) -> list[str]:
    """Return the names of a container's members, such as `dense` and `dense_1`."""
    seen: collections.Counter[str] = collections.Counter()
    names = []
    for class_name in class_names:
        name = snake_case(class_name)
        names.append(f"{name}_{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return names


def policy_name(dtype: Any) -> str | None:
    """Return the name of the policy in the `dtype` of a legacy config, or None."""
    if isinstance(dtype, dict):
        name: str | None = (dtype.get("config") or {}).get("name")
        return name
    return dtype if isinstance(dtype, str) else None


def special_tokens(class_name: str, config: Mapping[str, Any]) -> list[Any]:
    """Return the tokens before a vocabulary: the mask, then those for unknown words.

    `class_name` is one of `LOOKUPS`; the config uses the names of Keras 3.
    """
    settings: Mapping[str, Any] = config
    if class_name == "TextVectorization":
        settings = {"mask_token": "", "oov_token": "[UNK]", "num_oov_indices": 1}
    has_mask = settings["mask_token"] is not None and output_mode(config) == "int"
    mask = [settings["mask_token"]] if has_mask else []
    return mask + [settings["oov_token"]] * settings["num_oov_indices"]


def output_mode(config: Mapping[str, Any]) -> str:
    """Return the output mode of a lookup layer, by default `"int"`."""
    return str(config.get("output_mode") or "int")


def identity(layer: Config) -> tuple[str, str]:
    """Return the class and the name of a layer."""
    return str(layer.get("class_name")), name_of(layer)


def stored(names: Iterable[str], layers: Sequence[Config]) -> dict[str, Config]:
    """Return `{name in a .keras file: layer config}` for the layers of a model.

    `names` are the names in the group of the model's layers. The counter of a class
    rises from layer to layer, but may skip numbers: up to 2.13 it counts layers with
    weights twice. A layer that is stored elsewhere has no name in this group.
    """
    inside = {identity(inner) for layer in layers for inner in inner_layers(layer)}
    by_class = collections.defaultdict(list)
    for layer in layers:
        if SHARED not in layer:  # it is in another model, which comes first
            by_class[snake_case(str(layer.get("class_name")))].append(layer)
    found: dict[str, Config] = {}
    by_kind = collections.defaultdict[str, list[tuple[int, str]]](list)
    for name in names:
        kind, _, number = name.rpartition("_")
        by_kind[name].append((0, name))
        if number.isdecimal() and len(number) <= DIGITS:
            by_kind[kind].append((int(number), name))
    for kind, same_class in by_class.items():
        counters = by_kind[kind]
        if len(counters) < len(same_class):  # the rest is stored with inner models
            outside = [layer for layer in same_class if identity(layer) not in inside]
            same_class = outside or same_class
        if counters and len(counters) != len(same_class):
            raise LegacyModelError(
                f"it has {len(same_class)} layers of the class "
                f"{same_class[0]['class_name']!r}, and the weights of {len(counters)}: "
                "some may also be in another model, or in an attribute, and tf.keras "
                "cannot open it either.",
                "Build the model in code, and assign what h5py finds in the file.",
                code="KP402",
            )
        pairs = zip(sorted(counters), same_class, strict=False)
        found |= {stored_name: layer for (_, stored_name), layer in pairs}
    return found


def layer_paths(
    root: Config, names_in: Callable[[str], Iterable[str]]
) -> Callable[[str], str]:
    """Return a function that maps a layer's path in a `.keras` file to our own path.

    `names_in` returns the names in a group of the file.
    """
    by_model: dict[int, dict[str, Config]] = {}  # id of a model's config -> its layers

    def layer_path(path_in_file: str) -> str:
        parts, path, config = path_in_file.split("/"), [], root
        group = ""
        while len(parts) > 1 and parts[0] in LAYER_GROUPS:
            group = f"{group}{parts[0]}"
            if id(config) not in by_model:
                by_model[id(config)] = stored(names_in(group), inner_layers(config))
            layer = by_model[id(config)].get(parts[1])
            if layer is None:
                break
            config = layer
            path.append(name_of(config))
            group, parts = f"{group}/{parts[1]}/", parts[2:]
        return "/".join([*path, *(part.lstrip("_") for part in parts)])

    return layer_path
