"""The one module that touches private Keras: seams, and small accessors.

A seam is a place where Keras is made to ask this package. Each function below
names the Keras file it leans on. `wrap` checks that the place still looks as
expected, and wrapping twice (a module reloaded) replaces the first wrapper, so
importing the package twice changes nothing.
"""

import contextlib
import functools
import inspect
import threading

import keras
import ml_dtypes
import numpy as np
from keras import initializers
from keras.src import api_export, backend, dtype_policies, tree
from keras.src.backend.common import global_state, name_scope
from keras.src.backend.common.variables import Variable as KerasVariable
from keras.src.layers import layer as layer_module
from keras.src.layers.preprocessing.image_preprocessing.base_image_preprocessing_layer import (  # noqa: E501
    BaseImagePreprocessingLayer as ImagePreprocessing,
)
from keras.src.legacy.saving import legacy_h5_format
from keras.src.models import functional
from keras.src.saving import serialization_lib
from keras.src.trainers.trainer import Trainer
from keras.src.utils import tracking

KNOWN_TO_WORK = "3.8 to 3.15"

no_automatic_dependency_tracking = tracking.no_automatic_dependency_tracking
flatten = tree.flatten
map_structure = tree.map_structure
is_tensor = backend.is_tensor


class UnsupportedKerasError(ImportError):
    """Keras has moved a place that this package leans on."""


def wrap(owner, attribute, parameters, make_wrapper):
    """Replace `owner.attribute` by `make_wrapper(stock)`, once.

    Args:
        owner: class or module.
        attribute: str, the name of a function in it.
        parameters: names of parameters that the function must have.
        make_wrapper: callable, takes the stock function, returns a new one.

    Raises:
        UnsupportedKerasError: if there is no such function.
    """
    current = getattr(owner, attribute, None)
    stock = getattr(current, "_keras_policies_stock", current)
    found = inspect.signature(stock).parameters if callable(stock) else ()
    if not callable(stock) or any(p not in found for p in parameters):
        raise UnsupportedKerasError(
            f"keras_policies cannot work with Keras {keras.__version__}: expected "
            f"{owner.__name__}.{attribute}({', '.join(parameters)}), found "
            f"{attribute}({', '.join(found)}). Keras {KNOWN_TO_WORK} are known to "
            "work: install one of them, or a newer keras-policies."
        )
    wrapper = functools.wraps(stock)(make_wrapper(stock))
    # Keras reads constructors with inspect.getfullargspec, which does not unwrap.
    wrapper.__signature__ = inspect.signature(stock)
    wrapper._keras_policies_stock = stock
    setattr(owner, attribute, wrapper)


def before_layer_call(hook):
    """Call `hook(layer, args, kwargs)` before a layer whose dtype is not settled.

    Keras: src/layers/layer.py, `Layer.__call__`. A layer with any other policy
    pays for one dict lookup and one comparison.
    """

    def make_wrapper(stock):
        def __call__(self, *args, **kwargs):
            policy = self.__dict__.get("_dtype_policy")
            if policy is not None and (
                policy.compute_dtype is None or isinstance(policy, PolicyMap)
            ):
                hook(self, args, kwargs)
            return stock(self, *args, **kwargs)

        return __call__

    wrap(keras.Layer, "__call__", ["args", "kwargs"], make_wrapper)


def before_weight(hook):
    """Call `hook(layer, dtype)` before a layer creates a weight.

    Keras: src/layers/layer.py, `Layer.add_weight`. `dtype` is the one asked for,
    or None for the layer's variable dtype.
    """

    def make_wrapper(stock):
        signature = inspect.signature(stock)

        def add_weight(self, *args, **kwargs):
            # Without super().__init__() there is none, and Keras says so.
            policy = "_dtype_policy" in self.__dict__ and own_policy(self)
            if policy and policy.compute_dtype is None:
                bound = signature.bind(self, *args, **kwargs).arguments
                # Newer Keras takes (shape, initializer, dtype) in *args.
                positional = bound.get("args", ())
                dtype = positional[2] if len(positional) > 2 else bound.get("dtype")
                hook(self, dtype)
            return stock(self, *args, **kwargs)

        return add_weight

    wrap(keras.Layer, "add_weight", ["shape", "initializer", "dtype"], make_wrapper)


def before_sequential_build(hook):
    """Call `hook(first_layer, dtype)` before a called Sequential builds itself.

    Keras: src/models/sequential.py, `Sequential.build` makes an input of its
    first layer's compute dtype, whatever it was called on.
    """

    def make_wrapper(stock):
        def _maybe_build(self, call_spec):
            if not self.built and self.layers:
                dtype = first_dtype([call_spec.first_arg])
                if dtype is not None:
                    hook(self.layers[0], dtype)
            return stock(self, call_spec)

        return _maybe_build

    wrap(keras.Sequential, "_maybe_build", ["call_spec"], make_wrapper)


def after_bidirectional_init(hook):
    """Call `hook(original, clone)` for each pair of layers in a Bidirectional.

    Keras: src/layers/rnn/bidirectional.py clones its layer through the config,
    where a deferred policy has no name.
    """

    def make_wrapper(stock):
        def __init__(self, layer, *args, **kwargs):
            stock(self, layer, *args, **kwargs)
            given = inspect.signature(stock).bind(self, layer, *args, **kwargs)
            clones = [self.forward_layer]
            if given.arguments.get("backward_layer") is None:
                clones.append(self.backward_layer)
            for clone in clones:
                pairs = zip(sublayers(layer), sublayers(clone), strict=True)
                for original, copied in pairs:
                    hook(original, copied)

        return __init__

    wrap(
        keras.layers.Bidirectional,
        "__init__",
        ["layer", "backward_layer"],
        make_wrapper,
    )


def around_compile(hook):
    """Run `hook(model, compile_model, auto_scale_loss)` in place of `compile`.

    `compile_model(auto_scale_loss)` is stock `compile` with the user's other
    arguments. Keras: src/trainers/trainer.py, `Trainer.compile`.
    """

    def make_wrapper(stock):
        signature = inspect.signature(stock)

        @no_automatic_dependency_tracking
        def compile(self, *args, **kwargs):
            given = signature.bind(self, *args, **kwargs)
            asked_for = given.arguments.get("auto_scale_loss", True)

            def compile_model(auto_scale_loss):
                given.arguments["auto_scale_loss"] = auto_scale_loss
                return stock(*given.args, **given.kwargs)

            return hook(self, compile_model, asked_for)

        return compile

    wrap(Trainer, "compile", ["optimizer", "auto_scale_loss"], make_wrapper)


def record_no_auto_scale_loss(model):
    """Make a saved `model` be compiled with `auto_scale_loss=False`.

    Keras: src/trainers/trainer.py does not record that argument itself.
    """
    config = {**model._compile_config.config, "auto_scale_loss": False}
    model._compile_config = serialization_lib.SerializableDict(**config)


def read_unnamed_policy(choose):
    """Let `choose()` say what `DTypePolicy {"name": None}` is, or return None.

    Keras: src/dtype_policies/dtype_policy.py would take the global policy's
    name, which need not be a name that it knows.
    """
    stock = keras.DTypePolicy.from_config.__func__
    stock = getattr(stock, "_keras_policies_stock", stock)

    @functools.wraps(stock)
    def from_config(cls, config):
        if cls is keras.DTypePolicy and config.get("name") is None:
            chosen = choose()
            if chosen is not None:
                return chosen
        return stock(cls, config)

    from_config._keras_policies_stock = stock
    keras.DTypePolicy.from_config = classmethod(from_config)


def before_model_from_config(hook):
    """Let `hook(class name, config)` return the config that a model is made from.

    Keras: src/models/{model,sequential}.py, `from_config`.
    """
    for owner in keras.Model, keras.Sequential:
        _wrap_from_config(owner, hook)


def _wrap_from_config(owner, hook):
    stock = owner.__dict__["from_config"].__func__
    stock = getattr(stock, "_keras_policies_stock", stock)

    @functools.wraps(stock)
    def from_config(cls, config, custom_objects=None):
        return stock(cls, hook(owner.__name__, config), custom_objects)

    from_config._keras_policies_stock = stock
    owner.from_config = classmethod(from_config)


def around_load_from_hdf5(hook):
    """Let `hook(stock, path, **options)` load what `keras.models.load_model` gets.

    Keras: src/legacy/saving/legacy_h5_format.py, `load_model_from_hdf5`.
    """

    def make_wrapper(stock):
        def load_model_from_hdf5(filepath, *args, **kwargs):
            options = inspect.signature(stock).bind(filepath, *args, **kwargs)
            options.apply_defaults()
            return hook(stock, **options.arguments)

        return load_model_from_hdf5

    parameters = ["filepath", "custom_objects", "compile"]
    wrap(legacy_h5_format, "load_model_from_hdf5", parameters, make_wrapper)


def custom_object_scope(custom_objects):
    """Return a scope of custom objects that adds to the one around it.

    Keras: src/saving/object_registration.py; its own scope takes the other's place.
    """
    around = global_state.get_global_attribute("custom_objects_scope_dict", {})
    return keras.saving.custom_object_scope({**around, **(custom_objects or {})})


def save_class_as(cls, name):
    """Write instances of `cls` to files under another class's public name.

    Keras: src/api_export.py.
    """
    api_export.REGISTERED_OBJS_TO_NAMES[cls] = name


def read_policy_class(class_name, modules, reader):
    """Let `reader.from_config` read policy configs of a class Keras has lost.

    Keras: src/dtype_policies/__init__.py (`deserialize`) and src/api_export.py.
    Not the global custom objects, which would win over a user's own class.
    """
    dtype_policies.ALL_OBJECTS_DICT[class_name] = reader
    for module in modules:
        api_export.REGISTERED_NAMES_TO_OBJS[f"{module}.{class_name}"] = reader
        # `deserialize` asks for the public name of what it has looked up.
        save_class_as(reader, f"{module}.{class_name}")


PolicyMap = keras.dtype_policies.DTypePolicyMap


def own_policy(layer):
    """Return a layer's policy; out of a `DTypePolicyMap`, that of its path."""
    policy = layer._dtype_policy
    return policy[_path(layer)] if isinstance(policy, PolicyMap) else policy


def set_own_policy(layer, policy):
    """Give `layer` a policy; in a `DTypePolicyMap`, in a copy for this layer."""
    current = layer._dtype_policy
    if isinstance(current, PolicyMap):
        entries = {**current._policy_map, _path(layer): policy}
        policy = PolicyMap(current._default_policy_arg, entries)
    layer._dtype_policy = policy


def _path(layer):
    if layer.path:
        return layer.path
    parent = name_scope.current_path()
    return f"{parent}/{layer.name}" if parent else layer.name


def enclosing_layers():
    """Return the layers being built or called now, innermost first.

    Keras: src/backend/common/name_scope.py.
    """
    scopes = global_state.get_global_attribute("name_scope_stack") or []
    return [s.caller for s in reversed(scopes) if isinstance(s.caller, keras.Layer)]


def sublayers(layer):
    """Return `layer` and every layer in it, in a fixed order."""
    return list(layer._flatten_layers())


def parts_never_called(layer):
    """Return the parts of a layer that it uses without building or calling them.

    Keras: src/layers/preprocessing/image_preprocessing; AugMix and its like call
    their parts' `transform_images`.
    """
    return sublayers(layer)[1:] if isinstance(layer, ImagePreprocessing) else []


def first_dtype(structure):
    """Return the dtype name of the first tensor in a structure, or None.

    Tensors are a backend's, symbolic ones, and whatever has `__array__`, which
    counts with the dtype that Keras converts it to.
    """
    for x in flatten(structure):
        if is_tensor(x) or backend.is_keras_tensor(x):
            return backend.standardize_dtype(x.dtype)
        if isinstance(x, np.ndarray) and x.dtype.kind in "OSTU":
            return "string"
        if hasattr(x, "__array__"):
            return backend.standardize_dtype(backend.convert_to_tensor(x).dtype)
    return None


def build_for(layer, args, kwargs):
    """Build `layer` for a call on `args` and `kwargs`, as the call itself would.

    Keras: src/layers/layer.py, `Layer.__call__`, steps 1 to 4.
    """

    def convert(x):
        return layer.dtype_policy.convert_input(x, False, None)

    kwargs = dict(kwargs)
    if layer._convert_input_args:
        args, kwargs = map_structure(convert, args), map_structure(convert, kwargs)
    context = [layer._call_context_args] if hasattr(layer, "_call_context_args") else []
    spec = layer_module.CallSpec(layer._call_signature, *context, args, kwargs)
    with layer._open_name_scope():
        layer._maybe_build(spec)


def is_functional(model):
    """Return whether a model is a Functional one, whose layers make a graph.

    Keras: src/models/functional.py. Its class has no public name.
    """
    return isinstance(model, functional.Functional)


# What `Layer` keeps beside the attributes that a subclass sets, and the beginning of
# what TensorFlow's trackable objects do.
_TRACKING_PREFIX = "_self_"
_TRACKING = frozenset(
    (
        "_layers",
        "_metrics",
        "_modules",
        "_non_trainable_variables",
        "_seed_generators",
        "_torch_params",
        "_tracked",
        "_trainable_variables",
    )
)


def own_attributes(layer):
    """Return `[(name, value), …]`, the attributes that a layer's class has set.

    Keras: src/layers/layer.py, src/backend/{tensorflow,torch}/layer.py. A layer is a
    torch module on torch, which keeps the modules among its attributes apart.
    """
    attributes = {**vars(layer), **vars(layer).get("_modules", {})}
    return [
        (name, value)
        for name, value in sorted(attributes.items())
        if name not in _TRACKING and not name.startswith(_TRACKING_PREFIX)
    ]


def own_variables(layer):
    """Return the variables of a layer itself, in the order of a `.keras` file.

    Keras: src/layers/layer.py, `Layer.save_own_variables`.
    """
    return [*layer._trainable_variables, *layer._non_trainable_variables]


def slot(optimizer, attribute, variable):
    """Return an optimizer's slot for a variable, or None if it has no such slot.

    Keras: src/optimizers/*.py keep the slots in lists, such as `_momentums`.
    """
    slots = getattr(optimizer, attribute, None)
    return slots[optimizer._get_variable_index(variable)] if slots else None


def nadam_product(optimizer):
    """Return the variable in which Nadam keeps the product of its momenta."""
    return optimizer._u_product


_blank = threading.local()


@contextlib.contextmanager
def blank_variables(place):
    """Within, variables come without drawing, tracing or compiling a value.

    Those of a constant initializer (an optimizer's slots) get their value from
    numpy; those of a random one are zero, and are to be assigned.

    Args:
        place: callable, turns a numpy array into what a variable takes at once.
    """
    _blank.place = place
    try:
        yield
    finally:
        _blank.place = None


def _from_numpy(initializer, place):
    """Return an initializer with the values of `initializer`, made by numpy."""
    known = initializers.get(initializer)
    if not isinstance(known, initializers.Initializer):
        return initializer  # a function of the user's, or of a seed generator
    value = {initializers.Ones: 1}.get(type(known), 0)
    if isinstance(known, initializers.Constant):
        value = known.value

    def fill(shape, dtype=None, **kwargs):
        return place(np.full(shape, value, _numpy_dtype(dtype)))

    return fill


def _numpy_dtype(dtype):
    name = backend.standardize_dtype(dtype)
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


def _make_variables_blankable():
    """Let `blank_variables` decide how a variable gets its first value.

    Keras: src/backend/common/variables.py, `Variable.__init__`.
    """

    def make_wrapper(stock):
        def __init__(self, initializer, shape=None, dtype=None, *args, **kwargs):
            place = getattr(_blank, "place", None)
            if place is not None:
                if isinstance(initializer, int | float) and dtype is not None:
                    initializer = place(np.asarray(initializer, _numpy_dtype(dtype)))
                elif callable(initializer) or isinstance(initializer, str):
                    initializer = _from_numpy(initializer, place)
            stock(self, initializer, shape, dtype, *args, **kwargs)

        return __init__

    wrap(KerasVariable, "__init__", ["initializer", "shape", "dtype"], make_wrapper)


_make_variables_blankable()
