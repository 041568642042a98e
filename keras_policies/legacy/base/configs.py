"""Legacy configs: their structure, the names in them, and the objects of Keras 3."""

import collections
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from keras_policies._common.types import Config

LOOKUPS = "StringLookup", "IntegerLookup", "TextVectorization"
# Groups in a `.keras` file of Keras 2, where a layer goes by its class and a counter.
LAYER_GROUPS = "layers", "_layer_checkpoint_dependencies"
PROGRAM = "keras_policies>Program"  # the registered name of a rebuilt layer


def name_of(config: Config) -> str:
    """Return the name of a layer or model from its config."""
    inner = config.get("config")
    name = inner.get("name") if isinstance(inner, dict) else None
    return str(config.get("name") or name or config.get("class_name"))


def is_graph(config: Config) -> bool:
    """Return whether a model's config lists layers (Sequential or Functional)."""
    inner = config.get("config")
    return isinstance(inner, list) or (
        isinstance(inner, dict) and isinstance(inner.get("layers"), list)
    )


def inner_layers(config: Config) -> list[Config]:
    """Return the configs of the layers that a model lists; none for any other layer.

    Up to Keras 2.2.2 the config of a Sequential is that list itself. Entries that are
    no configs are left out; the plan refuses them.
    """
    if not is_graph(config):
        return []
    inner = config["config"]
    layers = inner if isinstance(inner, list) else inner["layers"]
    return [layer for layer in layers if isinstance(layer, dict)]


def is_program(converted: Config) -> bool:
    """Return whether a config is that of a layer which became a program."""
    return converted.get("registered_name") == PROGRAM


def keras_object(
    module: str | None, class_name: str, config: Any, registered_name: str | None = None
) -> Config:
    """Return the dict from which Keras 3 makes an object.

    Args:
        module: a public module of Keras such as `"keras.layers"`, or None for a class
            found by its registered name.
        class_name: name of the class, or `"function"`.
        config: dict, the arguments of its `from_config`; the name of a function.
        registered_name: name in the registry of custom objects.

    Source: keras/src/saving/serialization_lib.py, `serialize_keras_object`.
    """
    return {
        "module": module,
        "class_name": class_name,
        "config": config,
        "registered_name": registered_name,
    }


def keras_function(registered_name: str) -> Config:
    """Return the dict from which Keras 3 takes a function in the registry."""
    return keras_object("builtins", "function", registered_name, registered_name)


def layer_name(name: str) -> str:
    """Return a layer's name as Keras 3 accepts it: `conv1/bn` becomes `conv1_bn`.

    So does `conv1.bn`, which a torch module cannot hold.
    """
    return re.sub("[/.]", "_", name)


def beginnings(path: str) -> Iterator[str]:
    """Return `a`, `a/b`, `a/b/c` of a path, in which a name may have a `/` itself."""
    return itertools.accumulate(path.split("/"), "{}/{}".format)


def without_package(class_name: str) -> str:
    """Return a class name without its package: `package>Dense` becomes `Dense`."""
    return class_name.rpartition(">")[2]


def snake_case(class_name: str) -> str:
    """Return the name that Keras gives to an object of a class in a container."""
    name = re.sub(r"\W+", "", without_package(class_name))
    name = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()


def numbered(class_names: Iterable[str]) -> list[str]:
    """Return the names of a container's members: `dense`, `dense_1`."""
    seen: collections.Counter[str] = collections.Counter()
    names = []
    for class_name in class_names:
        name = snake_case(class_name)
        names.append(f"{name}_{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return names


def policy_name(dtype: Any) -> str | None:
    """Return a policy's name from the `dtype` of a legacy config, None without one."""
    if isinstance(dtype, dict):
        name: str | None = (dtype.get("config") or {}).get("name")
        return name
    return dtype if isinstance(dtype, str) else None


def special_tokens(class_name: str, config: Mapping[str, Any]) -> list[Any]:
    """Return the tokens before a vocabulary: the mask, then those for unknown words.

    The config of the class, one of `LOOKUPS`, has the names of Keras 3.
    """
    settings: Mapping[str, Any] = config
    if class_name == "TextVectorization":
        settings = {"mask_token": "", "oov_token": "[UNK]", "num_oov_indices": 1}
    has_mask = settings["mask_token"] is not None and output_mode(config) == "int"
    mask = [settings["mask_token"]] if has_mask else []
    return mask + [settings["oov_token"]] * settings["num_oov_indices"]


def output_mode(config: Mapping[str, Any]) -> str:
    """Return the output mode of a lookup layer, `"int"` if its config has none."""
    return str(config.get("output_mode") or "int")


def stored_names(layers: Sequence[Config]) -> list[str]:
    """Return the names of the layers of a model in a `.keras` file of Keras 2."""
    return numbered(str(layer.get("class_name")) for layer in layers)


def layer_paths(root: Config) -> Callable[[str], str]:
    """Return a function from the path of a layer in such a file to its path here."""
    by_model: dict[int, dict[str, Config]] = {}  # of a model, its layers

    def layer_path(stored: str) -> str:
        parts, path, config = stored.split("/"), [], root
        while len(parts) > 1 and parts[0] in LAYER_GROUPS:
            layers = inner_layers(config)
            if id(config) not in by_model:
                named = zip(stored_names(layers), layers, strict=True)
                by_model[id(config)] = dict(named)
            layer = by_model[id(config)].get(parts[1])
            if layer is None:
                break
            config = layer
            path.append(name_of(config))
            parts = parts[2:]
        return "/".join([*path, *(part.lstrip("_") for part in parts)])

    return layer_path
