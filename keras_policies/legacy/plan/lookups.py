"""Turns the configs of preprocessing layers into configs of Keras 3.

What such a layer has learned becomes part of its config: a vocabulary with the inverse
document frequencies, or the boundaries of bins. Sources: keras/layers/preprocessing/
{index_lookup, text_vectorization, category_encoding, discretization, hashing}.py of
TensorFlow 2.4, Keras 2.10 and 2.15, Keras 3.
"""

import numpy as np

from keras_policies.annotations import Config
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.lookups import LOOKUPS, output_mode, special_tokens
from keras_policies.legacy.base.model import Vocabulary
from keras_policies.legacy.base.policies import policy_name
from keras_policies.legacy.plan.classes import KerasClass
from keras_policies.legacy.plan.findings import Converting, Findings
from keras_policies.legacy.plan.settings import Settings

TF_IDF = "tf_idf", "tf-idf"
INTEGERS = "int32", "int64"
# What Hashing of 2.4 wrote where it had no salt, and hashed without.
NO_SALT = [0xDECAFCAFFE, 0xDECAFCAFFE]
# Entries that CategoryEncoding of 2.4 left out, as sparse inputs have them.
NO_ENTRY = -1


class NothingLearnedError(Exception):
    """The file does not hold what a layer has learned; says why."""


def preprocessing_layer(
    found: KerasClass, config: Config, settings: Settings, path: str
) -> Converting[Config]:
    """Return the Keras 3 config of a preprocessing layer, or of any other as it is.

    Args:
        found: `KerasClass` of the layer.
        config: dict, by the names of Keras 3.
        settings: `Settings`, with the vocabularies.
        path: str, the layer.
    """
    learned = settings.vocabularies.get(path, Vocabulary())
    try:
        if found.name in LOOKUPS:
            config = lookup_arguments(found.name, config, learned, settings.safe_mode)
        elif found.name == "CategoryEncoding" and output_mode(config) in TF_IDF:
            found = found._replace(name="IntegerLookup")
            config = _frequencies(config, learned)
        elif found.name == "CategoryEncoding" and config.get("num_tokens") is None:
            config = {**config, "num_tokens": _counted(learned)}
        elif found.name == "Discretization":
            config = _discretization(config, learned)
        elif found.name == "Hashing":
            config = _hashing(config)
    except NothingLearnedError as error:
        yield Findings(without_vocabulary={path: str(error)})
    return found.with_config(config)


def lookup_arguments(
    class_name: str, config: Config, learned: Vocabulary, safe_mode: bool
) -> Config:
    """Return the arguments of a lookup layer with its vocabulary.

    Args:
        class_name: str, one of `LOOKUPS`.
        config: dict, by the names of Keras 3.
        learned: `Vocabulary`.
        safe_mode: bool, whether a file that the config names is refused.

    Raises:
        NothingLearnedError: if there is no vocabulary.
        LegacyModelError: if it is corrupt, or not one for Keras 3.
    """
    if config.get("pad_to_max_tokens") and config.get("max_tokens") is None:
        config = {**config, "pad_to_max_tokens": False}
    if not learned.tokens:
        _check_given(config.get("vocabulary"), safe_mode)
        return config
    kind = int if class_name == "IntegerLookup" else str
    tokens = {index: _token(t, kind) for index, t in learned.tokens.items()}
    if config.get("invert"):
        config = _inverse(config, tokens)
    special = special_tokens(class_name, config)
    vocabulary = _in_order(tokens, special)
    total = len(special) + len(vocabulary)
    if config.get("max_tokens") is not None and total > config["max_tokens"]:
        config = {**config, "max_tokens": total}  # 2.5 counted one less
    weights = None
    if output_mode(config) in TF_IDF:
        weights = _idf_weights(learned, total)
    if None not in special:
        vocabulary = [*special, *vocabulary]
    elif weights is not None:
        raise LegacyModelError("it has weights for an oov_token that is None.")
    return {**config, "vocabulary": vocabulary, "idf_weights": weights}


def _check_given(vocabulary, safe_mode):
    """Raise if the config itself gives no vocabulary that can be used."""
    if isinstance(vocabulary, str) and safe_mode:
        raise NothingLearnedError(
            f"its vocabulary was the file {vocabulary!r} of the machine that wrote the "
            "model; if you trust it, and have that file, pass safe_mode=False"
        )
    if not vocabulary:
        raise NothingLearnedError(
            "the file holds no vocabulary: was the layer adapted before it was saved?"
        )


def _token(token, kind):
    """Return a token as the config of Keras 3 has it, an int or a str."""
    try:
        return kind(token.decode() if isinstance(token, bytes) else token)
    except (TypeError, ValueError) as error:
        raise LegacyModelError(f"the token {token!r}: {error}.") from error


def _inverse(config, tokens):
    """Return the config of an inverted layer, which up to 2.5 gave OOV no index."""
    first = int(config["mask_token"] is not None)
    has_oov = tokens.get(first, config["oov_token"]) == config["oov_token"]
    return config if has_oov else {**config, "num_oov_indices": 0}


def _in_order(tokens, special):
    """Return the tokens behind the special ones, in the order of their indices."""
    start = len(special)
    own = sorted(index for index in tokens if index >= start)
    misplaced = [
        (index, token)
        for index, token in tokens.items()
        if index < start
        and (index < 0 or (special[index] is not None and token != special[index]))
    ]
    if misplaced or own != list(range(start, start + len(own))):
        raise LegacyModelError(
            f"its vocabulary does not follow the special tokens {special}: "
            f"{misplaced[:3] or own[:3]}."
        )
    if not own:
        raise NothingLearnedError("the file holds an empty vocabulary")
    return [tokens[index] for index in own]


def _idf_weights(learned, size):
    """Return the inverse document frequencies of `size` tokens, the special ones too.

    Those behind are of indices that no token has.
    """
    weights = learned.weight("idf_weights", "idf")
    if weights is None or weights.ndim != 1 or len(weights) < size:
        raise LegacyModelError(
            f"corrupt: {size} tokens, with the idf_weights "
            f"{'missing' if weights is None else weights.shape}."
        )
    return weights[:size].tolist()


def _frequencies(config, learned):
    """Return the config of an IntegerLookup that gives tf-idf as the layer did."""
    weights = learned.weight("idf")
    size = config.get("num_tokens") or (0 if weights is None else weights.size)
    return {
        "name": config.get("name"),
        "output_mode": "tf_idf",
        "num_oov_indices": 0,
        "mask_token": NO_ENTRY,
        "oov_token": NO_ENTRY,
        "vocabulary": list(range(size)),
        "idf_weights": _idf_weights(learned, size),
    }


def _counted(learned):
    """Return the number of tokens that a CategoryEncoding has found."""
    count = learned.weight("num_elements")
    if count is None or count.size != 1:
        raise NothingLearnedError("the file holds no number of tokens: was it adapted?")
    return int(count.reshape(()))


def _discretization(config, learned):
    """Return the config with the boundaries that the layer had, or had found."""
    boundaries = config.get("bin_boundaries")
    if boundaries is None:
        summary = learned.weight("summary", "0")
        if summary is None or summary.ndim != 2 or not summary.size:
            raise NothingLearnedError("the file holds no boundaries: was it adapted?")
        boundaries = _boundaries(summary, config["num_bins"])
    finite = [value for value in boundaries if value != float("inf")]  # 2.4 added one
    return {**config, "bin_boundaries": finite, "num_bins": None}


def _boundaries(summary, bins):
    """Return the boundaries of bins, as `Discretization` finds them on loading.

    Args:
        summary: array of shape (2, n): values and how often they came.
        bins: int.
    """
    values, counts = summary
    if len(values) < bins:
        return values[:-1].tolist()
    shares = counts.cumsum() / counts.sum()
    wanted = 1.0 / bins + np.arange(0.0, 1.0, 1.0 / bins)
    return np.interp(wanted, shares, values)[:-1].astype("float32").tolist()


def _hashing(config):
    kept = dict(config)
    if kept.get("salt") == NO_SALT:
        kept["salt"] = None
    if output_mode(kept) == "int" and policy_name(kept.get("dtype")) not in INTEGERS:
        kept.pop("dtype", None)
    return kept
