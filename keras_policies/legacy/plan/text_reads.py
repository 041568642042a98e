"""What reads the texts that are inputs of a model, and the inputs in place of these."""

import collections
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from keras_policies._common.types import Config
from keras_policies.legacy.base import hints
from keras_policies.legacy.base.configs import layer_name
from keras_policies.legacy.base.errors import LegacyModelError, located
from keras_policies.legacy.base.traced_functions import TensorSpec
from keras_policies.legacy.texts.arguments import ARGUMENTS
from keras_policies.legacy.texts.layers import TextLayer

STRING = "string"
UNKNOWN = TensorSpec(None, "", "")  # an argument that is no text
HINT = hints.Hint(
    "Pass a signature that takes numbers, or leave {} out and set "
    "KERAS_BACKEND=tensorflow.",
    (hints.OUTSIDE,),
    "KP306",
)
Specs: TypeAlias = Sequence[TensorSpec]
# Number of the source, consumer, number of the consumer's input.
Read: TypeAlias = tuple[int, str, int]
# A layer's name, its config, and the numbers of the texts that it is called on.
Call: TypeAlias = tuple[str, Config, Sequence[int | None]]


class Feed(NamedTuple):
    """An input of a model without layers of texts."""

    source: int  # the number of the input that it was
    layer: TextLayer | None  # what turns that into numbers; None if it is as it was
    spec: TensorSpec


class Part(NamedTuple):
    """A layer that takes texts, without its layers of texts."""

    config: Config | None  # None if it is a layer of texts itself
    feeds: tuple[Feed, ...]


# Returns a layer by its name and config, which is called on texts among its arguments.
MakePart: TypeAlias = Callable[[str, Config, Specs], Part]


class Reads:
    """What reads the texts of a model.

    Args:
        specs: the inputs of the model.
        calls: the layers that it calls, with their configs and, for each tensor that
            they take, the number of the input that it is, or None.
        taken: the names that no new input may have.
        part: makes the parts that read texts.
    """

    def __init__(
        self, specs: Specs, calls: Sequence[Call], taken: set[str], part: MakePart
    ) -> None:
        self.specs = specs
        self.parts: dict[str, Part] = {}
        reads: dict[Read, Feed] = {}
        for name, config, sources in calls:
            if all(source is None for source in sources):
                continue
            if name not in self.parts:
                arguments = [UNKNOWN if i is None else specs[i] for i in sources]
                self.parts[name] = part(name, config, arguments)
            for number, feed in enumerate(self.parts[name].feeds):
                source = sources[feed.source]
                if feed.layer is not None and source is not None:
                    reads[source, name, number] = feed
        for name, config, sources in calls:
            feeds = self.parts[name].feeds if name in self.parts else ()
            if any(x.layer and sources[x.source] is None for x in feeds):
                with located(layer=name, code="KP306"):
                    raise unreadable(f"a {config['class_name']} that is called twice")
        self.gone = {name for name, part in self.parts.items() if not part.config}
        self.new = self._named(reads, taken - self.gone)
        self.feeds = tuple(self._feeds(reads))
        if not self.feeds:
            raise LegacyModelError(
                "nothing reads its inputs, which are texts.", code="KP306"
            )

    def _named(
        self, reads: Mapping[Read, Feed], taken: set[str]
    ) -> dict[Read, TensorSpec]:
        """Return the inputs that take the place of texts, by what reads these.

        The only one of a text has its name, others that of their layer behind it.
        """
        counts, found = collections.Counter(source for source, *_ in reads), {}
        for read, feed in reads.items():
            name = self.specs[read[0]].name
            name = name if counts[read[0]] == 1 else f"{name}_{read[1]}"
            name = layer_name(name)
            while name in taken:
                name += "_"
            taken.add(name)
            found[read] = renamed(feed.spec, name)
        return found

    def _feeds(self, reads: Mapping[Read, Feed]) -> Iterator[Feed]:
        """Yield the inputs of the model, in the order of those that it had."""
        by_source = collections.defaultdict(list)
        for read, feed in reads.items():
            by_source[read[0]].append(Feed(read[0], feed.layer, self.new[read]))
        for source, spec in enumerate(self.specs):
            unread = [] if spec.dtype == STRING else [Feed(source, None, spec)]
            yield from unread + by_source[source]

    def arguments(
        self, name: str, sources: Sequence[int | None], values: Sequence[Any]
    ) -> list[Any]:
        """Return what a part takes in place of some values: these, or new inputs."""
        return [
            values[feed.source]
            if feed.layer is None
            else self.new[sources[feed.source] or 0, name, number]
            for number, feed in enumerate(self.parts[name].feeds)
        ]


def unreadable(what: str) -> LegacyModelError:
    """Return the error for what reads texts, and stays in the model."""
    return LegacyModelError(
        f"{what} reads texts; what reads them outside of the model are "
        f"{', '.join(ARGUMENTS)}.",
        HINT,
    )


def renamed(item: TensorSpec, name: str) -> TensorSpec:
    """Return the spec with another name."""
    return item._replace(name=name)


def one_or_all(items: list[Any]) -> Any:
    """Return the only one of some items, or the list."""
    return items if len(items) > 1 else items[0]
