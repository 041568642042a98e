"""Where a `.keras` file of Keras 2 stores a layer: by its class and a counter."""

from collections.abc import Callable, Sequence

from keras_policies.annotations import Config
from keras_policies.legacy.base import configs

LAYER_GROUPS = "layers", "_layer_checkpoint_dependencies"


def stored_names(layers: Sequence[Config]) -> list[str]:
    """Return the names that the file gives to the layers of a model."""
    return configs.numbered(str(layer.get("class_name")) for layer in layers)


def layer_paths(root: Config) -> Callable[[str], str]:
    """Return a function that translates the path of a layer in the file.

    It returns the path as `LegacyModel` has it.
    """
    by_model: dict[int, dict[str, Config]] = {}  # of a model, its layers

    def layer_path(stored: str) -> str:
        parts, path, config = stored.split("/"), [], root
        while len(parts) > 1 and parts[0] in LAYER_GROUPS:
            layers = configs.inner_layers(config)
            if id(config) not in by_model:
                named = zip(stored_names(layers), layers, strict=True)
                by_model[id(config)] = dict(named)
            layer = by_model[id(config)].get(parts[1])
            if layer is None:
                break
            config = layer
            path.append(configs.name_of(config))
            parts = parts[2:]
        return "/".join([*path, *(part.lstrip("_") for part in parts)])

    return layer_path
