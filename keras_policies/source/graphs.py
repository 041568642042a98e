"""Writes models as functions that build them."""

import collections
import contextlib
import dataclasses
import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import keras

from keras_policies.source import operations
from keras_policies.source.calls import Graph, tensors
from keras_policies.source.functions import shared
from keras_policies.source.layout import call, literal, sequence
from keras_policies.source.loops import folded
from keras_policies.source.objects import (
    CannotWriteError,
    Objects,
    Style,
    config_of,
    is_model,
    unique,
)
from keras_policies.source.variables import identifier, named

INPUT = {"dtype": "float32", "sparse": False, "ragged": False, "optional": False}
NAMES = {"Sequential": "keras.Sequential", "Functional": "keras.Model"}
UNPACKED = 4  # outputs of a call that get variables; more are items of one variable


@dataclasses.dataclass(frozen=True)
class Body:
    """The statements before and after the one that creates the model."""

    args: Sequence[str] = ()  # of the model
    before: Sequence[str] = ()
    after: Sequence[str] = ()
    ops: Sequence[Any] = ()  # for each variable, the op that returns it
    inputs: int = 0


class Module(Objects):
    """The functions of a module, with their imports and constants."""

    def __init__(self, style: Style) -> None:
        super().__init__(style)
        # Parameters and lines -> the function, and the names if inner models share it.
        self.functions = dict[tuple[str, ...], tuple[str, set[str]]]()
        self.operations = set[str]()  # the classes of operations that are called
        self.is_frozen = False  # whether an outer model freezes its layers

    def text(self, model: keras.Model, *, compile: bool = False) -> Iterator[str]:
        """Yield the lines of all functions; `build_model` is the last one."""
        built = ("", *self._lines(model, compile=compile))
        functions = self.functions | {built: ("build_model", set())}
        for (given, *lines), (function, names) in functions.items():
            yield from ("", "", f"def {function}({given * (len(names) != 1)}):")
            for line in lines:
                if len(names) == 1:
                    line = line.replace("name=name", f"name={min(names)}")
                for each, others in self.functions.values():
                    if len(others) == 1:
                        line = line.replace(f"{each}({min(others)})", f"{each}()")
                yield f"    {line}"

    def model(self, model: keras.Model) -> str:
        name = literal(model.name)
        lines = tuple(self._lines(model))
        own = tuple(line.replace(f"name={name}", "name=name") for line in lines)
        args = [name] * (own != lines)
        head = "name" * len(args)
        function, names = self._function(f"build_{self._place(model)}", (head, *own))
        names.update(args)
        return call(function, args)

    def _function(self, name: str, lines: tuple[str, ...]) -> tuple[str, set[str]]:
        """Return the function with these parameters and lines, which may be new."""
        taken = {"build_model", *(function for function, _ in self.functions.values())}
        return self.functions.setdefault(lines, (unique(name, taken), set()))

    def _lines(self, model: keras.Model, *, compile: bool = False) -> list[str]:
        """Return the lines of the function that builds a model."""
        value, outer = config_of(model), self.is_frozen
        freezes = not (outer or model.trainable or self.style.explicit)
        self.is_frozen = outer or freezes
        is_graph = hasattr(model, "operations")
        body = self._graph(model) if is_graph else self._sequential(model, value)
        self.is_frozen = outer
        kind = value["class_name"]
        name = NAMES.get(kind) or self.resolved(value, kind)[1]
        is_flag = self.style.explicit and not model.trainable
        flag = {"trainable": "False"} if is_flag else {}
        made = call(name, body.args, flag | self.name(kind, model.name))
        after = [*body.after, *["model.trainable = False"] * freezes]
        after += [self._compile(model)] if compile else []
        ending = [f"model = {made}", *after, "return model"]
        lines = [*body.before, *(ending if after else [f"return {made}"])]
        if self.style.full:
            return lines

        def write(statements: Sequence[str], given: str) -> str:
            head, *others = named(statements, body.ops, 1, is_shared=True)
            result = others[-1].replace("return ", "")
            if others[-2].startswith(f"{result} = "):
                others[-2:] = [others[-2].replace(f"{result} =", "return", 1)]
            parameters = ", ".join(filter(None, [head.partition(" = ")[0], given]))
            return self._function("apply_block", (parameters, *others))[0]

        lines = shared(folded(lines), body.inputs or len(lines), write)
        return named(lines, body.ops, body.inputs)

    def _sequential(self, model: keras.Model, value: Any) -> Body:
        layers = value["config"]["layers"]
        has_input = layers[0]["class_name"] == "InputLayer"
        made = [self._input(layers[0]["config"])] if has_input else []
        made += map(self._made, model.layers)
        adds = [f"model.add({each})" for each in made]
        if folded(adds) != adds:
            return Body(after=adds)
        return Body([sequence(made)])

    def _graph(self, model: keras.Model) -> Body:
        graph, ops, lines = Graph(model, masks=self.style.explicit), [], list[str]()
        code = dict[int, str]()  # id of a tensor -> the code that reads it
        variables = dict[Any, str]()  # layer that is called more than once -> variable
        times = collections.Counter(each.op for each in graph.calls)
        ends = [graph.inputs, graph.outputs]
        taken = [ends, *((each.args, each.kwargs) for each in graph.calls)]
        read = {id(x) for x in tensors(taken)}

        def variable(op: Any) -> str:
            ops.append(op)
            return f"\0{len(ops) - 1}\0"

        def write(value: Any) -> str:
            value = keras.tree.map_structure(
                lambda x: code[id(x)] if isinstance(x, keras.KerasTensor) else x, value
            )
            return self.value(keras.saving.serialize_keras_object(value))

        for x, layer in zip(tensors(graph.inputs), graph.layers, strict=True):
            code[id(x)] = variable(layer)
            lines.append(f"{code[id(x)]} = {self._input(config_of(layer)['config'])}")
        for each in graph.calls:
            op = each.op
            paths = {  # such as `["a"][0]` -> a result
                "".join(f"[{literal(key)}]" for key in path): x
                for path, x in keras.tree.flatten_with_path(each.outputs)
            }
            if times[op] > 1 and op not in variables and isinstance(op, keras.Layer):
                made, variables[op] = self._made(op), variable(op)
                lines.append(f"{variables[op]} = {made}")
            if isinstance(op, keras.Layer):
                args = map(write, each.args)
                kwargs = {key: write(value) for key, value in each.kwargs.items()}
                called = call(variables.get(op) or self._made(op), args, kwargs)
            else:
                self.operations.add(type(op).__name__)
                with self._at(op):
                    called = operations.op_call(op, each.args, each.kwargs, write)
            is_flat = [*paths] == [f"[{n}]" for n in range(len(paths))]
            if is_flat and 1 < len(paths) <= UNPACKED:
                code |= {id(x): variable(op) for x in paths.values() if id(x) in read}
                target = ", ".join(code.get(id(x), "_") for x in paths.values())
            else:
                target = variable(op)
                code |= {id(x): target + path for path, x in paths.items()}
            lines.append(f"{target} = {called}")
        if self.style.full:  # weights are saved in the order of layers
            order = list(dict.fromkeys([*graph.layers, *(x.op for x in graph.calls)]))
            lines.append(f"# {[order.index(layer) for layer in model.layers]}")
        return Body(
            [*map(write, ends)], before=lines, ops=ops, inputs=len(graph.layers)
        )

    def _made(self, op: Any) -> str:
        """Return the code that creates a layer."""
        value = config_of(op)
        if is_model(value):
            return self.model(op)
        if self.is_frozen and not op.trainable:
            value["config"].pop("trainable", None)
        with self._at(op):
            return self.instance(value)

    @contextlib.contextmanager
    def _at(self, op: Any) -> Iterator[None]:
        """Name constants and errors after a layer or an operation."""
        self.place = self._place(op)
        try:
            yield
        except CannotWriteError as error:
            place = f"{op.name!r} ({type(op).__name__})"
            raise ValueError(
                f"This model cannot be written as source code: {place}: {error}."
            ) from error

    def _place(self, op: Any) -> str:
        return "part" if self.style.full else identifier(op.name)

    def _input(self, config: Mapping[str, Any]) -> str:
        """Return the call of `keras.Input`."""
        shape = tuple(config["batch_shape"])
        has_batch = shape[:1] != (None,)
        kwargs = {"batch_shape": self.value(shape)} if has_batch else {}
        for key, default in INPUT.items():
            is_default = default == keras.config.floatx() or key != "dtype"
            if config.get(key, default) != default or not is_default:
                kwargs[key] = self.value(config[key])
        args = [] if has_batch else [self.value(shape[1:])]
        return call(
            "keras.Input", args, kwargs | self.name("InputLayer", config["name"])
        )

    def _compile(self, model: keras.Model) -> str:
        """Return the call of `compile`."""
        config: Any = model.get_compile_config()
        if not config:
            raise ValueError(
                f"{model.name!r} has not been compiled. Pass compile=False."
            )
        # `jit_compile` is what Keras chose for this backend.
        defaults = inspect.signature(keras.Model.compile).parameters
        given = {
            key: self.value(value)
            for key, value in config.items()
            if key != "jit_compile" and value != defaults[key].default
        }
        return call("model.compile", [], given)
