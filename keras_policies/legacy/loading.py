"""`load_model`: opens legacy files, with a progress bar."""

import os
import weakref
from collections.abc import Collection, Iterator, Sequence

import keras

from keras_policies import keras_internals
from keras_policies._common import warnings as warn
from keras_policies._common.text import one_line
from keras_policies._common.types import (
    CustomObjects,
    InputShapes,
    Path,
    PolicyLike,
    Source,
)
from keras_policies.legacy import attempts, keras_files, notices, progress
from keras_policies.legacy.assembly import build, checking
from keras_policies.legacy.assembly.comparison import Check, EqualForMasksError
from keras_policies.legacy.base import errors, hints
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.outcomes import LeftOut, Outcome
from keras_policies.legacy.options import checked_options
from keras_policies.legacy.plan.classes import checked_objects
from keras_policies.legacy.plan.plan import Plan
from keras_policies.legacy.plan.policies import checked_policy
from keras_policies.legacy.plan.report import BACKENDS, Options
from keras_policies.legacy.readers import readers, sources
from keras_policies.legacy.texts.inputs import TextInputs
from keras_policies.legacy.weights_loading import load_weights

_texts_by_model = weakref.WeakKeyDictionary[keras.Model, TextInputs]()


def load_model(
    filepath: Source,
    custom_objects: CustomObjects = None,
    compile: bool = True,
    safe_mode: bool = True,
    *,
    dtype_policy: PolicyLike | None = None,
    lost: str = "rebuild",
    signature: str | None = None,
    verify: bool | None = None,
    backends: Collection[str] = BACKENDS,
    weights: Path | None = None,
    texts: str = "inside",
    input_shapes: InputShapes = None,
) -> keras.Model:
    """Open a model that tf.keras 2.0 to 2.15 wrote, as an ordinary Keras 3 model.

    Its policies become policies of Keras 3. The loss scale of a policy is dropped,
    because Keras 3 itself scales the loss of a `mixed_float16` model. An explicit
    `LossScaleOptimizer` keeps its current scale. Unknown losses, metrics and optimizers
    are left out. If the optimizer or a loss is missing, the model is not compiled. One
    warning, an `OutcomeWarning`, lists how the model differs from the one in the file.

    Args:
        filepath: str or path of a SavedModel folder, an HDF5 file or a `.keras` file
            (the name does not matter); of a `.zip` file, a packed `.tar` file or a
            folder that contains one such model; or of a `.json` or `.yaml` file of
            `model.to_json()` or `model.to_yaml()`, together with `weights`. (Without
            `weights`, the model has new weights, and you get a warning. YAML needs
            `pip install pyyaml`; its tags create no objects.) You can also pass
            `"hf://user/model"` on the Hugging Face Hub (`pip install huggingface_hub`),
            another address such as `"s3://..."` (`pip install fsspec`), a file open for
            reading bytes, or an `h5py.File`. Keras itself opens files of Keras 3.
        custom_objects: dict `{name: class or function}` that the model needs. Layers
            that such a class creates without `dtype=` get the policy in its config.
        compile: bool, whether to compile the model and restore its optimizer's state.
        safe_mode: bool, whether to refuse code in the file (Lambda layers).
        dtype_policy: a policy, its name, or a `DTypePolicyMap`, which replaces the
            model's own policy; layers with a dtype of their own keep it. If no layer
            computes in float16 afterwards, a `LossScaleOptimizer` in the file is
            removed. None keeps all policies.
        lost: str, what happens to layers and models of a SavedModel whose classes are
            missing. `"rebuild"` builds them from stock layers and `keras.ops`, as their
            traced functions in the file say, with one warning that lists them.
            `"numbers"` also rebuilds them, but where they look up texts by numbers,
            such as the names of classes, it returns the numbers, which every backend
            supports. `"refuse"` raises an error that names their classes.
        signature: str, the name of a signature of a SavedModel, such as
            `"serving_default"`. The returned model computes the same as the signature,
            but may have other layers. None opens the model itself, or the serving
            signature of a file without Keras metadata (`tf.Module`, `model.export` of
            Keras 3).
        verify: bool or None, whether to compare the model with the graph in its own
            file, which every SavedModel has: on seeded inputs, both must give the same
            outputs. None compares models with layers that were rebuilt from functions
            or code, or that have your own classes; and models of stock layers if their
            graph takes less than about a second. True compares every SavedModel, and
            False none. Other formats have no graph.
        backends: names of the backends on which plain Keras must compute the model
            correctly. Layers that Keras computes wrongly on one of them become models
            that are correct on all; if there is no such model, an error is raised.
        weights: str or path of the weights of an architecture (`.json`, `.yaml`), as
            `load_weights` takes it. None for other files, which contain their weights.
        texts: str, where input texts become numbers. `"inside"`: in layers of the
            model, which Keras runs on the TensorFlow backend only. `"outside"`: before
            the model, which then has no StringLookup, TextVectorization or Hashing and
            takes numbers on any backend, without TensorFlow. `text_inputs(model)`
            computes these numbers.
        input_shapes: dict `{"x": (None, 60, 3)}` of shapes for inputs whose sizes or
            ranks the file leaves open, by the names that `inspect` shows. With a known
            length, loops of missing layers become as many layers.

    Returns:
        A `keras.Model`.

    Raises:
        LegacyModelError: if there is no such model, or it is corrupt, has parts without
            a counterpart in Keras 3 (the message names them), or computes something
            other than its own graph.
        TypeError: if `custom_objects` is not a dict of names.
        TypeError, ValueError: if `dtype_policy` is not a policy.
        ValueError: if `lost`, `texts` or a name in `backends` is unknown.

    Example:
        >>> model = load_model("model_of_2020")  # a SavedModel folder
        >>> model.predict(x, verbose=0).shape
        (4, 4)
        >>> load_model("model_of_2020", dtype_policy="float32").dtype_policy
        <DTypePolicy "float32">
    """
    policy = checked_policy(dtype_policy)
    options = checked_options(
        lost,
        signature,
        backends,
        safe_mode=safe_mode,
        texts=texts,
        input_shapes=input_shapes,
    )
    try:
        with keras_internals.custom_object_scope(checked_objects(custom_objects)):
            built = rebuild(
                filepath,
                policy,
                options,
                weights,
                compile=compile,
                verify=verify,
                needs_weights=False,
            )
    except errors.Keras3ModelError:
        if policy is not None:
            raise LegacyModelError(
                f"written by Keras 3; {hints.POLICY} is for legacy models.",
                f"Load it without {hints.POLICY}, and set the policies of its layers.",
                path=filepath,
                code="KP103",
            ) from None
    else:
        file = one_line(str(filepath))
        for notice in notices.notices(built, file):
            warn.warn(notice)
        if built.texts is not None:
            _texts_by_model[built.model] = built.texts
        return _with_file(built.model, filepath)
    model = keras_files.open_with_keras(
        filepath, custom_objects, compile=compile, safe_mode=safe_mode
    )
    return _with_file(model, filepath)


def _with_file(model: keras.Model, source: Source) -> keras.Model:
    """Return a model, with its file in the attribute that `to_source` reads."""
    if isinstance(source, str | os.PathLike):
        vars(model)["keras_policies_file"] = os.path.abspath(source)
    return model


def text_inputs(model: keras.Model) -> TextInputs:
    """Return the function that converts texts to the numbers that a model takes.

    Args:
        model: `keras.Model` that `load_model(..., texts="outside")` returned.

    Returns:
        `TextInputs`. The file of the model does not hold it: save its `to_json()`.

    Raises:
        ValueError: if the model takes no texts, or reads them itself.

    Example:
        >>> model = load_model("texts_of_2023.keras", texts="outside")
        >>> text_inputs(model)(["The cat!"]).shape
        (1, 6)
    """
    if model not in _texts_by_model:
        raise ValueError(
            f"the model {model.name!r} has no TextInputs: it takes no texts, or was "
            "not opened by load_model(..., texts='outside'). For a .keras file that "
            "convert_model wrote, read the .texts.json beside it: "
            "TextInputs.from_json(text)."
        )
    return _texts_by_model[model]


def rebuild(
    path: Path,
    policy: PolicyLike | None,
    options: Options,
    weights: Path | None = None,
    *,
    compile: bool = True,
    verify: bool | None = False,
    needs_weights: bool = True,
) -> build.Built:
    """Read a legacy file, plan its model and build it, with a progress bar.

    Also raises Keras3ModelError.
    """
    sources.check_meant(path)
    with readers.read(path, weights, needs_weights=needs_weights) as legacy:

        def made(planned: Plan) -> build.Built:
            with progress.bar(f"Reading {path}", legacy.size) as advance:
                built = build.build(planned, compile, advance)
            if weights is not None and not legacy.has_weights:
                load_weights(built.model, weights)
            try:
                return _checked(built, options.signature, verify)
            except EqualForMasksError as error:
                equal.append(built._replace(check=error.check))
                raise

        equal: list[build.Built] = []  # where some integers are those of masks
        try:
            return attempts.first(legacy, policy, options, made, compile=compile)
        except LegacyModelError:
            if equal:
                return equal[-1]
            raise


def _checked(
    built: build.Built, signature: str | None, verify: bool | None
) -> build.Built:
    """Return a model with the result of comparing it with the graph in its file."""
    if verify is False or (built.plan.legacy.traced is None and verify is None):
        return built
    is_due = bool(verify) or built.lacks_weights or checking.is_due(built.plan)
    with errors.located(built.plan.legacy.path, code="KP501"):
        check = checking.check(
            built.model, built.plan, signature, is_due=is_due, texts=built.texts
        )
    if not is_due and check.difference is None:
        return built
    parts = [*built.parts, *_in_training(check, built.parts)]
    return built._replace(check=check, parts=parts)


def _in_training(check: Check, parts: Sequence[LeftOut]) -> Iterator[LeftOut]:
    """Yield the parts that the graph in the file shows, unless others are the cause."""
    rebuilt = "KP609"  # says that losses are kept
    texts = [
        part
        for part in parts
        if part.outcome is not Outcome.COMPLETE and part.code != rebuilt
    ]
    if check.dropouts and not any("training=True" in text for text in texts):
        yield LeftOut(
            "the dropout of its predictions (a call with training=True): "
            f"{', '.join(check.dropouts)}. In Keras {keras.__version__}, it applies "
            "dropout only in training (call the model with training=True instead)",
            "KP605",
            Outcome.LOST,
        )
    if check.other_losses and not any("loss" in t or "regularizer" in t for t in texts):
        yield LeftOut(
            "the model predicts as recorded, but the losses that its layers add in "
            f"training differ: {check.other_losses}. Pass its original classes as "
            f"{hints.CUSTOM_OBJECTS}",
            "KP604",
        )
