"""The outcomes of opening a model, and the parts of its file that decide them."""

import enum
from collections.abc import Iterable, Iterator

from keras_policies._common.types import Config
from keras_policies._common.warnings import KerasPoliciesWarning
from keras_policies.legacy.base.codes import CODES


class Outcome(enum.Enum):
    """How a model that was opened compares to the one in its file.

    `COMPLETE`: it predicts and trains as the file says, as far as this was checked.
    `REBUILT`: the same, with layers made from the functions in the file, because their
    classes are missing. `TRAINS_DIFFERENTLY`: it predicts the same, but something that
    it did in training is not the same. `LOST`: it lacks something that is in the file,
    such as a loss, a metric, the state of the optimizer, a regularizer or weights.
    `NEW_WEIGHTS`: the file is an architecture, and the weights are initialized anew.

    The outcomes are in this order: the outcome of a model is the last of its parts.

    Attributes:
        value: str, in words: `"complete"`, `"rebuilt"`, `"trains differently"`,
            `"lost"` or `"new weights"`, as in tables and in JSON.
        code: str, such as `"KP623"`, which `keras-policies explain` explains.
        remedy: str, what to do.

    Example:
        >>> Outcome.LOST.value, Outcome.LOST.code
        ('lost', 'KP623')
        >>> Outcome("complete").remedy
        'Nothing has to be done.'
    """

    COMPLETE = "complete"
    REBUILT = "rebuilt"
    TRAINS_DIFFERENTLY = "trains differently"
    LOST = "lost"
    NEW_WEIGHTS = "new weights"

    @property
    def code(self) -> str:
        """str, the code of the outcome."""
        return CODES_OF[self]

    @property
    def remedy(self) -> str:
        """str, what to do, one sentence or two."""
        return CODES[self.code].remedy


IN_ORDER = "KP620", "KP621", "KP622", "KP623", "KP624"
CODES_OF = dict(zip(Outcome, IN_ORDER, strict=True))
# The outcomes of models that `--strict` refuses.
LOSING = Outcome.TRAINS_DIFFERENTLY, Outcome.LOST, Outcome.NEW_WEIGHTS
# Code -> the outcome of a part with it, unless the part says otherwise.
OUTCOMES = {
    "KP601": Outcome.LOST,
    "KP602": Outcome.LOST,
    "KP603": Outcome.LOST,
    "KP604": Outcome.LOST,
    "KP605": Outcome.TRAINS_DIFFERENTLY,
    "KP606": Outcome.TRAINS_DIFFERENTLY,
    "KP607": Outcome.LOST,
    "KP608": Outcome.LOST,
    "KP609": Outcome.REBUILT,
    "KP610": Outcome.TRAINS_DIFFERENTLY,
    **dict.fromkeys(("KP611", "KP612", "KP613"), Outcome.COMPLETE),
}


class LeftOut(str):
    """A sentence about a part of the file that differs in the model.

    Attributes:
        code: str, the kind of part, such as `"KP605"`. The command
            `keras-policies explain` says what the code means.
        outcome: `Outcome`; `COMPLETE` if the part makes no difference to the model as
            it is now, such as `training=False` in the calls of layers that are frozen.

    Example:
        >>> part = LeftOut("the metric 'f1': it is unknown", "KP602")
        >>> part.code, part.outcome
        ('KP602', <Outcome.LOST: 'lost'>)
    """

    code: str
    outcome: Outcome

    def __new__(cls, text: str, code: str, outcome: Outcome | None = None) -> "LeftOut":
        """Return the text with its code and its outcome as attributes."""
        part = super().__new__(cls, text)
        part.code, part.outcome = code, outcome or OUTCOMES[code]
        return part

    def __getnewargs__(self) -> tuple[str, str, Outcome]:  # type: ignore[override]
        return str(self), self.code, self.outcome


def left_out(code: str, texts: Iterable[str]) -> Iterator[LeftOut]:
    """Yield the texts as `LeftOut`s; those without a code get `code`."""
    for text in texts:
        yield text if isinstance(text, LeftOut) else LeftOut(text, code)


def worst(parts: Iterable[LeftOut]) -> Outcome:
    """Return the outcome of a model whose parts differ so."""
    found = {part.outcome for part in parts}
    return next((each for each in reversed(Outcome) if each in found), Outcome.COMPLETE)


def plain_parts(parts: Iterable[LeftOut]) -> tuple[Config, ...]:
    """Return plain values for JSON: `outcome`, `code` and `text` of each part."""
    return tuple(
        {"outcome": part.outcome.value, "code": part.code, "text": str(part)}
        for part in parts
    )


class OutcomeWarning(KerasPoliciesWarning):
    """The warning about a model that differs from the one in its file.

    Args:
        message: str.
        path: str, the file.
        parts: tuple of `LeftOut`, how the model differs.

    Attributes:
        path: as given.
        parts: as given.
        outcome: `Outcome` of the model.

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     model = load_model("model_of_2020", {}, compile=False)
        >>> [each.message.outcome for each in caught]
        []
    """

    def __init__(self, message: str, path: str, parts: tuple[LeftOut, ...]) -> None:
        super().__init__(message)
        self.path, self.parts, self.outcome = path, parts, worst(parts)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.path, self.parts)
