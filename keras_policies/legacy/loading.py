"""`load_model`: opens legacy files, with a progress bar."""

import dataclasses
import os
import weakref
from collections.abc import Collection

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
from keras_policies.legacy import keras_files, notices, progress
from keras_policies.legacy.assembly import build, checking
from keras_policies.legacy.assembly.comparison import EqualForMasksError
from keras_policies.legacy.base import configs, errors, hints
from keras_policies.legacy.base.errors import LegacyModelError
from keras_policies.legacy.base.model import LegacyModel
from keras_policies.legacy.base.traced_functions import SERVING
from keras_policies.legacy.plan import input_sizes, plan
from keras_policies.legacy.plan.classes import checked_objects
from keras_policies.legacy.plan.policies import checked_policy
from keras_policies.legacy.plan.report import BACKENDS, Options
from keras_policies.legacy.readers import readers, sources
from keras_policies.legacy.texts.inputs import TextInputs
from keras_policies.legacy.weights_loading import load_weights

# How to treat layers whose classes are missing.
LOST = "rebuild", "numbers", "refuse"
OTHERS = 5  # the most signatures that an error names
TEXTS = "inside", "outside"  # where texts become numbers: inside the model or outside
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
    are left out, with one warning that lists them. If the optimizer or a loss is
    missing, the model is not compiled.

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
                "written by Keras 3; dtype_policy is for legacy models.",
                "Load it without dtype_policy, and set the dtype_policy of its layers.",
                path=filepath,
                code="KP103",
            ) from None
    else:
        file = one_line(str(filepath))
        for notice in notices.notices(built):
            warn.warn(f"{file}: {notice}")
        if built.texts is not None:
            _texts_by_model[built.model] = built.texts
        if not built.plan.legacy.has_weights and weights is None:
            warn.warn(
                f"{file}: the file has no weights, so the model has new ones. "
                'Pass weights="weights.h5", or call load_weights(model, "weights.h5").'
            )
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


def checked_options(
    lost: str,
    signature: str | None = None,
    backends: Collection[str] = BACKENDS,
    *,
    safe_mode: bool = True,
    texts: str = "inside",
    input_shapes: InputShapes = None,
) -> Options:
    """Return the `Options` for these arguments of `load_model`."""
    if not {*backends} <= {*BACKENDS}:
        raise ValueError(f"backends must be among {BACKENDS}, received {backends!r}.")
    if lost not in LOST:
        raise ValueError(f"lost must be one of {LOST}, received {lost!r}.")
    if texts not in TEXTS:
        raise ValueError(f"texts must be one of {TEXTS}, received {texts!r}.")
    return Options(
        safe_mode,
        reconstructs=lost != "refuse",
        keeps_texts=lost != "numbers",
        signature=signature,
        backends=tuple(backends),
        input_shapes=input_sizes.checked(input_shapes),
        texts_outside=texts == "outside",
    )


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

    If a config, weights or outputs show that a class in the file only shares its name
    with a Keras class, all further attempts treat it as missing: the file does not
    record whose class it is, and often only the outputs differ. The last attempt
    rebuilds a model that lists its layers from its traced function: a config does not
    say which masks its missing classes create or change. Also raises Keras3ModelError.
    """
    sources.check_meant(path)
    with readers.read(path, weights) as legacy:
        if needs_weights and not legacy.has_weights and weights is None:
            reason = "the file has an architecture, but no weights."
            raise LegacyModelError(reason, hints.PASS_WEIGHTS, path=path)
        may_rebuild = options.reconstructs and legacy.traced is not None
        has_function = configs.is_graph(legacy.config) and options.signature is None
        # Whether the model becomes its function; the first is tried next.
        attempts = [False, True] if may_rebuild and has_function else [False]
        namesakes = frozenset[str]()
        problems: list[tuple[bool, LegacyModelError]] = []
        equal_for_masks: build.Built | None = None
        while attempts:
            attempt = dataclasses.replace(
                options, by_function=attempts[0], namesakes=namesakes
            )
            try:
                planned = plan.make(legacy, policy, attempt, compile)
                if attempts == [False, True] and planned.loses_masks:
                    attempts = [True] if problems else [True, False]
                    continue
                planned.raise_if_missing()
                with progress.bar(f"Reading {path}", legacy.size) as advance:
                    built = build.build(planned, compile, advance)
                if weights is not None and not legacy.has_weights:
                    load_weights(built.model, weights)
                return _checked(built, options.signature, verify)
            except LegacyModelError as error:
                problems.append((attempt.by_function, error))
                if isinstance(error, EqualForMasksError):
                    equal_for_masks = built._replace(check=error.check)
                if not may_rebuild or isinstance(error, errors.LimitError):
                    break
                if error.suspects <= namesakes:
                    attempts = attempts[1:]
                namesakes |= error.suspects
        if equal_for_masks is not None:
            return equal_for_masks
        # Errors about the config say more than those about the function.
        _, first = min(problems, key=lambda problem: problem[0])
        problem = _about_signature(first, legacy, options.signature)
        if not (problem.hint or isinstance(problem, errors.LimitError)):
            problem.hint = str(hints.load_weights_into_code(legacy.path))
        raise problem from problem.__cause__


def _about_signature(
    problem: LegacyModelError, legacy: LegacyModel, signature: str | None
) -> LegacyModelError:
    """Return an error; if it is about the model, it offers other signatures."""
    if problem.layer != "" or legacy.traced is None:
        return problem
    names = {*legacy.traced.signatures} - {signature or SERVING}
    others = sorted(names, key=lambda name: ("greedy" not in name, name))
    function = "the model's own function" if signature is None else "the signature"
    name = "" if signature is None else f" {signature!r}"
    problem.layer, problem.reason = None, f"{function}{name}: {problem.reason}"
    if others and not problem.hint:
        listed = " or ".join(str(hints.signature(name)) for name in others[:OTHERS])
        problem.hint = f"Pass {listed} to open another function of the file."
    return problem


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
    is_said = is_due or check.difference is not None
    return built._replace(check=check) if is_said else built
