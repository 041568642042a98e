"""`TextInputs`: converts texts to the inputs of a model, without TensorFlow."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from keras_policies._common.types import Arrays, Config
from keras_policies.legacy.base.errors import UNEXPECTED, LegacyModelError
from keras_policies.legacy.guards import texts as decoding
from keras_policies.legacy.texts.layers import Shape, TextLayer

VERSION = 1  # of the JSON
# Name of an input of the original model, and its shape if it takes texts.
Source: TypeAlias = tuple[str, Shape | None]
# Name of an input of the opened model, and the indices of its source and its layer.
Target: TypeAlias = tuple[str, int, int | None]


@dataclasses.dataclass(frozen=True)
class TextInputs:
    """Converts texts to the numbers that a model opened with `texts="outside"` takes.

    It computes what StringLookup, TextVectorization and Hashing computed in the model,
    without TensorFlow or Keras. `text_inputs(model)` returns it for a model.

    Attributes:
        sources: the names of the original model's inputs, and the shapes of those that
            take texts.
        targets: the names of the opened model's inputs, each with the indices of its
            source and of its layer; the layer is None if the input is unchanged.
        layers: the text layers.
        is_dict: bool, whether the model takes a dict.

    Example:
        >>> model = load_model("texts_of_2023.keras", texts="outside")
        >>> texts = text_inputs(model)
        >>> texts(["The cat!", "the dog"]).shape
        (2, 6)
        >>> model.predict(texts(["The cat!"]), verbose=0).shape
        (1, 1)
    """

    sources: tuple[Source, ...]
    targets: tuple[Target, ...]
    layers: tuple[TextLayer, ...]
    is_dict: bool = False

    def __call__(self, *inputs: Any) -> Arrays:
        """Return the opened model's inputs for inputs of the original model.

        Args:
            inputs: arrays or lists, one for each of `sources`: texts (str, or bytes in
                UTF-8) if the source has a shape. You can also pass one list of them,
                or one dict by name.

        Returns:
            An array, a list of arrays, or a dict of arrays, as the model takes them.

        Raises:
            TypeError, ValueError: if `inputs` are not inputs of the model.
        """
        taken = self._taken(inputs)
        arrays = [
            self._as_array(*pair) for pair in zip(taken, self.sources, strict=True)
        ]
        given = {
            name: arrays[source]
            if layer is None
            else self.layers[layer](arrays[source])
            for name, source, layer in self.targets
        }
        if self.is_dict:
            return given
        return [*given.values()] if len(given) > 1 else next(iter(given.values()))

    def _taken(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """Return the inputs in the order of the sources."""
        names = [name for name, _ in self.sources]
        if len(inputs) == 1 and isinstance(inputs[0], Mapping):
            if missing := [name for name in names if name not in inputs[0]]:
                raise ValueError(f"the inputs {missing} are missing, expected {names}.")
            return [inputs[0][name] for name in names]
        if self.is_dict and len(names) > 1:
            raise ValueError(f"the model takes a dict: pass one with the keys {names}.")
        if len(inputs) == 1 < len(names) and isinstance(inputs[0], list | tuple):
            inputs = inputs[0]
        if len(inputs) != len(names):
            raise ValueError(f"received {len(inputs)} inputs, expected {names}.")
        return inputs

    def _as_array(self, values: Any, source: Source) -> Any:
        """Return texts as an array of bytes with the rank of the original input."""
        name, shape = source
        if shape is None:
            return values
        array = np.asarray(values, object)
        if array.ndim == len(shape) - 1 and shape[-1] == 1:  # as Keras does
            array = array[..., None]
        if array.ndim == len(shape) + 1 and array.shape[-1] == 1:
            array = array[..., 0]
        sizes = zip(array.shape[1:], shape[1:], strict=False)
        if array.ndim != len(shape) or any(n not in (None, m) for m, n in sizes):
            raise ValueError(
                f"the input {name!r} has the shape {array.shape}, expected {shape}."
            )
        found = np.empty(array.size, object)
        found[:] = [_as_bytes(value, name) for value in array.flat]
        return found.reshape(array.shape)

    def to_json(self) -> str:
        """Return everything as JSON, for `from_json`."""
        names = "name", "class_name", "config"
        layers = [{name: getattr(x, name) for name in names} for x in self.layers]
        values = {**vars(self), "keras_policies_texts": VERSION, "layers": layers}
        return json.dumps(values)

    @classmethod
    def from_json(cls, text: str | bytes) -> "TextInputs":
        """Read what `to_json` returned, such as the `.texts.json` of `convert_model`.

        Raises:
            LegacyModelError: if it is not the JSON of a `TextInputs`.

        Example:
            >>> model = load_model("texts_of_2023.keras", texts="outside")
            >>> copied = TextInputs.from_json(text_inputs(model).to_json())
            >>> [layer.class_name for layer in copied.layers]
            ['TextVectorization']
        """
        values = decoding.decode(text, "the texts of a model")
        if values.get("keras_policies_texts") != VERSION:
            raise LegacyModelError(
                f"not the JSON of TextInputs, or its version is not {VERSION}."
            )
        try:
            return cls(*_parts(values))
        except LegacyModelError:
            raise
        except UNEXPECTED as error:
            reason = f"corrupt: the texts of a model: {type(error).__name__}: {error}."
            raise LegacyModelError(reason) from error


def _parts(values: Config) -> tuple[Any, ...]:
    """Return the fields of a `TextInputs` from decoded JSON, checked."""
    layers = tuple(
        TextLayer(str(layer["name"]), layer["class_name"], {**layer["config"]})
        for layer in values["layers"]
    )
    sources = tuple(
        (str(name), None if shape is None else tuple(shape))
        for name, shape in values["sources"]
    )
    targets = tuple((str(n), i, layer) for n, i, layer in values["targets"])
    sizes = [size for _, shape in sources for size in shape or ()]
    are_sizes = all(size is None or _is_below(size, 2**31) for size in sizes)
    are_numbers = all(
        _is_below(i, len(sources)) and (n is None or _is_below(n, len(layers)))
        for _, i, n in targets
    )
    are_texts = all(n is None or sources[i][1] for _, i, n in targets if are_numbers)
    if not (are_sizes and are_numbers and are_texts and targets):
        raise TypeError("sources and targets do not match")
    return sources, targets, layers, values["is_dict"] is True


def _is_below(value: Any, limit: int) -> bool:
    return type(value) is int and 0 <= value < limit


def _as_bytes(value: Any, name: str) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return bytes(value)
    raise TypeError(f"the input {name!r} contains {value!r}, expected texts.")
