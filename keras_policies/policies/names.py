"""Policy names: their dtypes, and their names in plain Keras."""

import contextlib
from typing import NamedTuple

from keras_policies._common import keras_names
from keras_policies._common.lazy_keras import keras
from keras_policies._common.warnings import FormerNameWarning, warn

WITH_FLOAT32_VARS = "_with_float32_vars"


class Dtypes(NamedTuple):
    """The dtypes of a policy name; None waits for a layer's first input."""

    compute: str | None
    variable: str | None


# The names that do not contain a dtype's own name; `dtypes_of` reads the others.
NAMES = {
    "mixed_float16": Dtypes("float16", "float32"),
    "mixed_bfloat16": Dtypes("bfloat16", "float32"),
    "infer": Dtypes(None, None),
    "infer_with_float32_vars": Dtypes(None, "float32"),
}
STOCK_DTYPES = "float16", "bfloat16", "float32", "float64"
ALIASES = {
    "_infer": "infer",
    "infer_float32_vars": "infer_with_float32_vars",
    "float32_with_float32_vars": "float32",
}
# dtype names of TensorFlow that Keras 3 does not know.
DTYPE_ALIASES = {"half": "float16", "float": "float32", "double": "float64"}

# Names of the loss scale that the policy's name decides; tf.keras had the second.
AUTO = "auto", "USE_DEFAULT"


def full_name(name: str) -> str:
    """Return the full name of an alias, and any other name unchanged."""
    return ALIASES.get(name, name)


def dtypes_of(name: str) -> Dtypes:
    """Return the dtypes of a policy name, or raise ValueError."""
    if name in NAMES:
        return NAMES[name]
    base = name.removesuffix(WITH_FLOAT32_VARS)
    try:
        dtype = keras_names.standard_dtype(DTYPE_ALIASES.get(base, base))
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"Cannot convert value {name} to a mixed precision Policy. Valid "
            "policies are 'mixed_float16', 'mixed_bfloat16', the name of any dtype "
            "such as 'float32', and, deprecated, 'infer', "
            "'infer_with_float32_vars' and '<dtype>_with_float32_vars' such as "
            "'float16_with_float32_vars'."
        ) from error
    return Dtypes(dtype, dtype if base == name else "float32")


def not_a_string(name: object) -> TypeError:
    """Return the error for a policy name that is not a string."""
    hint = "a string such as 'mixed_float16' or 'float32'"
    if name is None:
        hint = "the name of a dtype, such as keras.config.floatx()"
    elif isinstance(name, keras.DTypePolicy):
        hint = f"the policy itself where a policy is expected, or {name.name!r}"
    else:
        with contextlib.suppress(ValueError, TypeError):
            hint = f"its name, {keras.backend.standardize_dtype(name)!r}"
    return TypeError(f"'name' must be a string, but got: {name!r}. Pass {hint}.")


def auto(name: str | None) -> str | None:
    """Return the meaning of the loss scale `"auto"` under a policy name."""
    return "dynamic" if name == "mixed_float16" else None


def warn_if_deprecated(name: str) -> None:
    """Warn about a `<dtype>_with_float32_vars` name, and suggest a replacement."""
    dtype = name.removesuffix(WITH_FLOAT32_VARS)
    if dtype != name:
        halves = [d for d in ("float16", "bfloat16") if dtype in (d, "infer")]
        advice = " or ".join(f"'mixed_{half}'" for half in halves)
        warn(
            f"The '{name}' policy is deprecated and was removed in TensorFlow 2.1."
            + (f" Please use the {advice} policy instead." if halves else ""),
            FormerNameWarning,
        )


def source_name(name: str) -> str:
    """Return the stock name of the policy before quantization, if it has one."""
    try:
        return stock_name(name, dtypes_of(name)) or name
    except ValueError:
        return name


def stock_name(name: str, dtypes: Dtypes) -> str | None:
    """Return plain Keras's name for a policy's dtypes; warn about `name` if none."""
    compute, variable = dtypes
    mixed = f"mixed_{compute}"
    if compute is not None and dtypes == NAMES.get(mixed):
        return mixed
    if compute not in (None, variable):
        warn(
            f"Plain Keras has no policy with the compute dtype {compute} and the "
            f"variable dtype {variable}: {name!r} is saved as {compute!r}, "
            "so a model loaded from the file has weights of that dtype."
        )
    return compute
