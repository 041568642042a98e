"""Reads the YAML of `model.to_yaml()` (up to TensorFlow 2.3) as plain values.

PyYAML only splits the text into events. Tags never create objects: those in `TAGS`,
which `yaml.dump` wrote for tf.keras's lists, mark data, and others are refused. An
alias counts as all the values that it repeats, and the depth is limited.
"""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from keras_policies._common.types import Config
from keras_policies.legacy.base.errors import LegacyModelError, LimitError
from keras_policies.legacy.guards import limits, texts

# The values of texts without quotes: the part of YAML 1.1 that PyYAML writes.
WORDS = {
    **dict.fromkeys(("", "~", "null"), None),
    **dict.fromkeys(("true", "yes", "on"), True),
    **dict.fromkeys(("false", "no", "off"), False),
    **{".inf": float("inf"), "-.inf": -float("inf"), ".nan": float("nan")},
}
INTEGER = re.compile(r"[-+]?[0-9]{1,20}")
FLOAT = re.compile(
    r"[-+]?([0-9]{1,400}\.[0-9]{0,400}|\.[0-9]{1,400})(e[-+]?[0-9]{1,4})?"
)
STANDARD = "tag:yaml.org,2002:"


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError
    return value


# Tag -> the conversion of its data.
TAGS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("str", "python/str", "python/unicode"), str),
    "python/tuple": lambda items: tuple(_list(items)),
    # Its arguments are one list, which it wraps: `- - 3`.
    "python/object/apply:tensorflow.python.training.tracking.data_structures"
    ".ListWrapper": lambda arguments: _list(_list(arguments)[0]),
}


class _Node(NamedTuple):
    value: Any
    size: int  # number of values in it; aliases count in full
    depth: int


def decode(text: bytes, part: str) -> Config:
    """Return the mapping in a YAML text; refuse texts too long or too deep."""
    if len(text) > limits.YAML_BYTES:
        reason = f"{part}: {len(text)} bytes of YAML, expected at most "
        raise LegacyModelError(f"{reason}{limits.YAML_BYTES}.", code="KP201")
    characters = _counted(text, part)
    try:
        import yaml
    except ImportError as error:
        raise LegacyModelError(
            f"{part} is YAML, which needs the package PyYAML.",
            "Run pip install pyyaml, or write the model as JSON (model.to_json()).",
            code="KP004",
        ) from error
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        decoded = _Builder(part).read(yaml.parse(characters, Loader=loader))
    except yaml.YAMLError as error:
        reason = f"{part}: not readable as YAML: {str(error)[: limits.TOLD_MESSAGE]}."
        raise LegacyModelError(reason) from error
    return texts.mapping(decoded, part, "a mapping")


def _counted(text: bytes, part: str) -> str:
    """Return a text as a str, before it is parsed; refuse too many of `YAML_SIGNS`.

    libyaml also reads UTF-16, in which the signs are other bytes.
    """
    try:
        decoded = text.decode()
    except UnicodeDecodeError as error:
        reason = f"{part}: not readable as YAML: it is not UTF-8."
        raise LegacyModelError(reason) from error
    for sign, most in limits.YAML_SIGNS.items():
        count = decoded.count(sign)
        if count > most:
            reason = f"{count} times {sign!r}, expected at most {most}"
            raise LimitError(f"{part}: {reason} in YAML.")
    return decoded


class _Builder:
    """Builds values from the events of a text."""

    def __init__(self, part: str) -> None:
        self.part = part
        self.anchors: dict[str, _Node] = {}
        self.total = 0  # of all values so far
        self.root: Any = None

    def read(self, events: Any) -> Any:
        """Return the value of the text."""
        open_nodes: list[tuple[Any, list[_Node]]] = []  # each with its items so far
        for event in events:
            kind = type(event).__name__
            if kind in ("SequenceStartEvent", "MappingStartEvent"):
                open_nodes.append((event, []))
                self._check_depth(len(open_nodes))
                continue
            if kind == "AliasEvent":
                node = self.anchors.get(event.anchor)
                if node is None:
                    raise self._refusal(f"the alias {event.anchor!r} has no anchor")
            elif kind == "ScalarEvent":
                # PyYAML without libyaml accepts lone surrogates.
                texts.check_characters(event.value, self.part)
                node = self._noted(event, _scalar(event), [])
            elif kind in ("SequenceEndEvent", "MappingEndEvent"):
                start, items = open_nodes.pop()
                values = [item.value for item in items]
                is_list = kind == "SequenceEndEvent"
                value = values if is_list else self._mapping(values)
                node = self._noted(start, value, items)
            else:
                continue
            self._check_depth(len(open_nodes) + node.depth)
            self._count(node.size if kind == "AliasEvent" else 1)
            if open_nodes:
                open_nodes[-1][1].append(node)
            else:
                self.root = node.value
        return self.root

    def _noted(self, event: Any, value: Any, items: list[_Node]) -> _Node:
        """Return the node of an event; also store it under its anchor."""
        tag = event.tag
        if tag not in (None, "!"):
            convert = TAGS.get(tag.removeprefix(STANDARD))
            is_plain = tag in (f"{STANDARD}{each}" for each in ("map", "seq"))
            if convert is None and not is_plain:
                raise self._refusal(f"its tag {tag!r} asks for a Python object")
            try:
                value = convert(value) if convert else value
            except (IndexError, TypeError) as error:
                raise self._refusal(f"its tag {tag!r} is not on a list") from error
        depth = 1 + max((item.depth for item in items), default=0)
        node = _Node(value, 1 + sum(item.size for item in items), depth)
        if event.anchor is not None:
            self.anchors[event.anchor] = node
        return node

    def _mapping(self, values: list[Any]) -> Any:
        keys = values[::2]
        if not all(isinstance(key, str) for key in keys):
            raise self._refusal("a key is not a text")
        return texts.untagged(dict(zip(keys, values[1::2], strict=True)))

    def _count(self, size: int) -> None:
        self.total += size
        if self.total > limits.JSON_VALUES:
            reason = f"more than {limits.JSON_VALUES} values, aliases counted in full"
            raise LimitError(f"{self.part}: {reason}.")

    def _check_depth(self, depth: int) -> None:
        if depth > limits.YAML_DEPTH:
            reason = f"values are nested {depth} deep, expected at most "
            raise LimitError(f"{self.part}: {reason}{limits.YAML_DEPTH}.")

    def _refusal(self, reason: str) -> LegacyModelError:
        return LegacyModelError(
            f"{self.part}: {reason}, so it is not read.",
            "Write the model as JSON (model.to_json()).",
        )


def _scalar(event: Any) -> Any:
    """Return the value of a text: if it has no quotes, a number, a bool or None."""
    text: str = event.value
    if not event.implicit[0] or event.tag not in (None, "!"):
        return text
    lower = text.lower()
    if lower in WORDS:
        return WORDS[lower]
    if INTEGER.fullmatch(text):
        return int(text)
    return float(text) if FLOAT.fullmatch(lower) else text
