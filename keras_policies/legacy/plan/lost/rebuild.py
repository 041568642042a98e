"""Replaces the lost layers of a `LegacyModel` by what their functions did."""

import collections
import dataclasses
from collections.abc import Mapping

from keras_policies.legacy.base import configs, remedies
from keras_policies.legacy.base.configs import beginnings
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.model import LegacyModel
from keras_policies.legacy.base.recorded import NO_CLASS
from keras_policies.legacy.guards import limits
from keras_policies.legacy.plan.findings import Settings
from keras_policies.legacy.plan.lost import new_weights, vocabularies
from keras_policies.legacy.plan.lost.owner import FLOATS
from keras_policies.legacy.plan.lost.replacing import Replacing, is_known


@dataclasses.dataclass(frozen=True)
class Rebuilt:
    """A model without lost layers, and what was done.

    Args:
        layers: `{path of a rebuilt layer: its class}`; `""` is the model itself.
        unused: the names of the variables that no inference function reads.
        copied: the names of the variables that several of its layers hold now.
        depth: the steps of the largest rebuilt layer.
        texts: the layers whose texts are outputs of the model.
        trained_otherwise: the paths of those that did more in training.
    """

    legacy: LegacyModel
    layers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    unused: tuple[str, ...] = ()
    copied: tuple[str, ...] = ()
    depth: int = 0
    texts: tuple[str, ...] = ()
    trained_otherwise: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return what a user should know, in sentences."""
        named = ", ".join(
            f"{path!r} ({class_name})" if path else f"the model itself ({class_name})"
            for path, class_name in self.layers.items()
        )
        text = (
            "the classes of these layers are not to be found, so they were made of the "
            f"functions that the file recorded: {named}. They train with the dropout, "
            "the losses and the regularizers that these have. Random numbers are drawn "
            "in training only; in inference, they are their mean."
        )
        if self.trained_otherwise:
            named = ", ".join(map(repr, self.trained_otherwise))
            text += (
                " These did more in training, which is left out, such as moving "
                f"statistics by assignments: {named}."
            )
        if self.unused:
            unused = ", ".join(self.unused)
            text += f" Left out, since no inference function reads them: {unused}."
        if self.copied:
            text += (
                " Copied, since several of these layers shared them; each copy trains "
                f"by itself now: {', '.join(self.copied)}."
            )
        if self.depth > limits.STEPS_IN_MODEL:
            text += (
                f" One has {self.depth} steps, so a .keras file of this model opens "
                f"only after sys.setrecursionlimit({2000 + 2 * self.depth})."
            )
        classes = sorted({*self.layers.values()} - {NO_CLASS})
        if classes:
            text += f" To use a class, pass {remedies.custom_object(classes[0])}."
        return text


def rebuilt(
    legacy: LegacyModel, settings: Settings, signature: str | None = None
) -> Rebuilt:
    """Return the model with its lost layers replaced, where functions are recorded.

    Layers that cannot be replaced stay as they are. `signature` names the function that
    the model itself becomes; None is its own.
    """
    is_recorded = legacy.recorded is not None and 0 in legacy.recorded.layers
    if legacy.recorded is None or not is_recorded or not settings.replaces_lost:
        return Rebuilt(legacy)
    named = legacy.recorded.signatures
    if signature is not None and signature not in named:
        raise LegacyModelError(
            f"there is no signature {signature!r} in it; there are {sorted(named)}."
        )
    written = {**legacy.config, "name": configs.name_of(legacy.config)}
    if signature is None and is_known(written, settings):
        return Rebuilt(legacy)
    replacing = Replacing(legacy.recorded, settings, signature)
    part = replacing.part(written, 0)
    if part is None or not part.lost:
        return Rebuilt(legacy)
    variables = replacing.recorded.variables
    found = new_weights.by_layer(part, variables)
    weights = {name: tuple(w for _, w in layer) for name, layer in found.items()}
    changed = set(found)
    if configs.is_graph(legacy.config) and signature is None:
        around = {layer for path in part.lost for layer in beginnings(path)}
        changed = legacy.weights.keys() & around
        new = {name: weights.get(name, ()) for name in changed}
        weights = {n: new.get(n, old) for n, old in legacy.weights.items()}
    renewed = [one for name in changed for one in reversed(found.get(name, []))]
    model = dataclasses.replace(
        legacy,
        config={**written, "class_name": part.class_name, "config": part.config},
        weights=weights,
        vocabularies=vocabularies.renamed(legacy, part.config),
        optimizer=new_weights.with_slots(legacy.optimizer, renewed, variables),
    )
    count = collections.Counter(number for _, number, _ in part.weights)
    every = legacy.recorded.layers[0].variables
    read = {n for n in every if str(variables[n].dtype) not in FLOATS}  # as constants
    unused = tuple(variables[n].name for n in every if n not in {*count, *read})
    copied = tuple(variables[n].name for n, times in count.items() if times > 1)
    texts = tuple(vocabularies.of_texts(part.config)) if "" in part.lost else ()
    less = part.trained_otherwise
    return Rebuilt(model, part.lost, unused, copied, part.depth, texts, less)
