"""Writes models as functions that build them."""

import ast
import collections
import contextlib
import dataclasses
import functools
import inspect
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import keras

from keras_policies.source import live, operations
from keras_policies.source.calls import Graph, is_functional, tensors
from keras_policies.source.errors import CannotWriteError, SourceError
from keras_policies.source.functions import shared
from keras_policies.source.loops import Budget, folded
from keras_policies.source.objects import Objects, Style
from keras_policies.source.tree import (
    Label,
    Node,
    Statement,
    Variable,
    call,
    dotted,
    label_node,
    literal,
    replaced,
    sequence,
)
from keras_policies.source.variables import identifier, names_of

INPUT = {"dtype": "float32", "sparse": False, "ragged": False, "optional": False}
NO = literal(value=False)
NO_TYPES: Any = {"type_params": []}  # a field since Python 3.12
UNPACKED = 4  # outputs of a call that get variables; more are items of one variable


@dataclasses.dataclass(frozen=True)
class Body:
    """The statements before and after a model is made, and what its variables are."""

    before: Sequence[Statement] = ()
    after: Sequence[Statement] = ()
    ops: Sequence[Any] = ()  # for each variable, the op that returns it
    inputs: int = 0
    args: Sequence[Node] = ()  # of the model


class Reader:
    """Reads each model and each layer once, for modules of several styles."""

    def __init__(self) -> None:
        self.graph = functools.cache(Graph)
        self.held = functools.cache(lambda op: live.Held(op, live.config_of(op)))


class Module(Objects):
    """The functions of a module, with their imports and constants.

    `draft` is called before `tree`, and sets the names and policies of all layers.
    """

    def __init__(self, style: Style, reader: Reader | None = None) -> None:
        super().__init__(style)
        self._reader = reader or Reader()
        self.functions = dict[str, ast.FunctionDef]()
        self._known = dict[object, str]()  # shape of a function -> its name
        self.operations = set[str]()  # the classes of operations that are called
        self._frozen = False  # whether an outer model freezes its layers

    def draft(self, model: keras.Model, *, compile: bool = False) -> Body:
        """Return `build_model`, without loops and without functions for its blocks."""
        return self._draft(model, literal(model.name), compile=compile)

    def tree(self, draft: Body) -> list[ast.stmt]:
        """Return all functions; `build_model` is the last one."""
        body = self._body(draft)
        found = [*self.functions.values(), _defined("build_model", [], body)]
        if not self.functions:
            return [*found]
        unlike = {  # calls of functions
            ast.dump(x): x
            for x in itertools.chain(*map(ast.walk, found))
            if isinstance(x, ast.Call) and isinstance(x.func, ast.Name)
        }
        calls = collections.defaultdict[str, list[ast.Call]](list)
        for each in unlike.values():
            calls[ast.unparse(each.func)].append(each)
        names = dict[str, Node]()  # of functions that build models with one name
        for function, (first, *others) in calls.items():
            is_literal = [*map(type, first.args)] == [ast.Constant]
            if is_literal and not others and _takes_name(self.functions.get(function)):
                names[function] = first.args[0]
        return [_with_names(each, names) for each in found]

    def model(self, model: keras.Model) -> Node:
        body = self._body(self._draft(model, dotted("name")))
        nodes = (x for each in body for x in ast.walk(each))
        is_named = any(isinstance(x, ast.Name) and x.id == "name" for x in nodes)
        name = f"build_{self._place(model)}"
        function = self._function(name, ["name"] * is_named, body)
        return call(function, [Label((model.name,))] * is_named)

    def _function(
        self, name: str, parameters: Sequence[str], body: Sequence[ast.stmt]
    ) -> str:
        """Return the function with these parameters and statements; it may be new."""
        key = *parameters, *map(ast.dump, body)
        if key not in self._known:
            new = self._known[key] = self._names.new(name)
            self.functions[new] = _defined(new, parameters, body)
        return self._known[key]

    def _draft(self, model: keras.Model, own: Node, *, compile: bool = False) -> Body:
        """Return all statements that build a model, `before` it is returned."""
        outer = self._frozen
        freezes = not (outer or model.trainable or self.style.explicit)
        self._frozen = outer or freezes
        is_graph = hasattr(model, "operations")
        body = self._graph(model) if is_graph else self._sequential(model)
        self._frozen = outer
        kind = type(model).__name__
        is_plain = is_functional(type(model))
        cls = dotted("keras.Model") if is_plain else self.named(type(model))
        is_flag = self.style.explicit and not model.trainable
        flag = {"trainable": NO} if is_flag else {}
        named = dict.fromkeys(self.name(kind, model.name), own)
        made = call(cls, body.args, flag | named)
        after = [*body.after, *[Statement(NO, kind="model.trainable")] * freezes]
        after += [Statement(self._compile(model), kind="")] if compile else []
        statements = [*body.before]
        ending = [Statement(made, kind="model"), *after]
        ending.append(Statement(dotted("model"), kind="return"))
        statements += ending if after else [Statement(made, kind="return")]
        return Body(statements, ops=body.ops, inputs=body.inputs)

    def _body(self, body: Body) -> list[ast.stmt]:
        """Return the statements of the function that builds a model, from its draft."""
        statements = body.before
        if self.style.full:
            names: Mapping[int, str] = {n: f"v{n}" for n in range(len(body.ops))}
            return made_nodes(statements, names)
        budget = Budget.of(statements)

        def write(block: Sequence[Statement], given: Sequence[str]) -> str:
            *before, value, end = block
            is_plain = value.kind == "=" and not value.inside
            if is_plain and value.targets == tuple(end.uses):
                block = [*before, dataclasses.replace(value, targets=(), kind="return")]
            names = names_of(block, body.ops, 1, self._taken, is_shared=True)
            head, *others = block
            parameters = [*(names[n] for n in head.made), *given]
            return self._function("apply_block", parameters, made_nodes(others, names))

        first = body.inputs or len(statements)
        statements = shared(folded(statements, budget), first, write, budget)
        names = names_of(statements, body.ops, body.inputs, self._taken)
        return made_nodes(statements, names)

    @property
    def _taken(self) -> list[str]:
        return [*self.imports.values(), *self.functions]

    def _sequential(self, model: keras.Model) -> Body:
        value = live.config_of(model)["layers"]
        has_input = value[0]["class_name"] == "InputLayer"
        made = [self._input(value[0]["config"])] if has_input else []
        made += map(self._made, model.layers)
        adds = [Statement(call("model.add", [each]), kind="") for each in made]
        loops = folded(adds, Budget.of(adds))
        if len(loops) < len(adds) and not self.style.full:
            return Body(after=loops)
        return Body(args=[sequence(made)])

    def _graph(self, model: keras.Model) -> Body:
        graph, ops = self._reader.graph(model), list[Any]()
        calls = graph.calls(masks=self.style.explicit)
        statements = list[Statement]()
        outer, self.tensors = self.tensors, {}
        variables = dict[Any, Node]()  # layer that is called more than once -> variable
        times = collections.Counter(each.op for each in calls)
        ends = [graph.inputs, graph.outputs]
        taken = [ends, *((each.args, each.kwargs) for each in calls)]
        read = {id(x) for x in tensors(taken)}

        def variable(op: Any) -> Variable:
            ops.append(op)
            return Variable(len(ops) - 1)

        def assign(value: Node, *targets: Variable | None) -> None:
            numbers = (None if x is None else x.number for x in targets)
            statements.append(Statement(value, tuple(numbers)))

        for x, layer in zip(tensors(graph.inputs), graph.layers, strict=True):
            self.tensors[id(x)] = variable(layer)
            assign(self._input(live.config_of(layer)), self.tensors[id(x)])
        for each in calls:
            op = each.op
            if isinstance(op, keras.Layer):
                if times[op] > 1 and op not in variables:
                    made, variables[op] = self._made(op), variable(op)
                    assign(made, variables[op])
                function = variables.get(op) or self._made(op)
                with self._at(op):
                    args = [*map(self.value, each.args)]
                    kwargs = {key: self.value(x) for key, x in each.kwargs.items()}
                called = call(function, args, kwargs)
            else:
                self.operations.add(type(op).__name__)
                with self._at(op):
                    called = operations.op_call(op, each.args, each.kwargs, self.value)
            paths = keras.tree.flatten_with_path(each.outputs)
            results = [x for _, x in paths]
            is_flat = [path for path, _ in paths] == [(n,) for n in range(len(paths))]
            if is_flat and 1 < len(paths) <= UNPACKED:
                targets = [variable(op) if id(x) in read else None for x in results]
                found = zip(results, targets, strict=True)
                self.tensors |= {id(x): each for x, each in found if each}
                assign(called, *targets)
            else:
                target = variable(op)
                self.tensors |= {id(x): item(target, path) for path, x in paths}
                assign(called, target)
        args = [*map(self.value, ends)]
        self.tensors = outer
        if self.style.full:  # weights are saved in the order of layers
            order = list(dict.fromkeys([*graph.layers, *(x.op for x in calls)]))
            places = {layer: at for at, layer in enumerate(order)}
            numbers = [literal(places[layer]) for layer in model.layers]
            statements.append(Statement(sequence(numbers), kind=""))
        return Body(statements, (), ops, len(graph.layers), args)

    def _made(self, op: Any) -> Node:
        """Return the code that creates a layer."""
        held = self._reader.held(op)
        if live.is_model(op, held.config):
            return self.model(op)
        if self._frozen and not op.trainable:
            config = {k: v for k, v in held.config.items() if k != "trainable"}
            held = live.Held(op, config)
        with self._at(op):
            return self.instance(held)

    @contextlib.contextmanager
    def _at(self, op: Any) -> Iterator[None]:
        """Name constants and errors after a layer or an operation."""
        self.place = self._place(op)
        try:
            yield
        except CannotWriteError as error:
            place = f"{op.name!r} ({type(op).__name__})"
            raise SourceError(
                f"This model cannot be written as source code: {place}: {error}."
            ) from error

    def _place(self, op: Any) -> str:
        return "part" if self.style.full else identifier(op.name)

    def _input(self, config: Mapping[str, Any]) -> Node:
        """Return the call of `keras.Input`."""
        shape = tuple(config["batch_shape"])
        has_batch = shape[:1] != (None,)
        kwargs = {"batch_shape": self.value(shape)} if has_batch else {}
        for key, default in INPUT.items():
            usual = keras.config.floatx() if key == "dtype" else default
            is_usual = config.get(key, default) == default == usual
            if not is_usual or (self.style.full and key in config):
                kwargs[key] = self.value(config[key])
        args = [] if has_batch else [self.value(shape[1:])]
        return call(
            "keras.Input", args, kwargs | self.name("InputLayer", config["name"])
        )

    def _compile(self, model: keras.Model) -> Node:
        """Return the call of `compile`."""
        config: Any = model.get_compile_config()
        if not config:
            raise ValueError(
                f"{model.name!r} has not been compiled. Pass compile=False."
            )
        if isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer):
            rule = getattr(model.optimizer, "rule", None)  # one of this package has it
            is_plain = type(rule).__name__ == "DynamicLossScale"
            if rule is not None and not (is_plain and rule.multiplier == 2):
                raise CannotWriteError(
                    f"the LossScaleOptimizer of plain Keras has no {rule!r}. Pass "
                    "compile=False"
                )
        # Metrics are held by a container, which is not a public attribute.
        held = (x for x in vars(model).values() if live.is_of_keras(type(x)))
        values = live.thawed(
            config, model, *(x for x in held if hasattr(x, "__dict__"))
        )
        if live.has_data_like_objects(values):
            raise CannotWriteError(
                "an argument of `compile` looks like the config of an object that the "
                "model does not have. Pass compile=False"
            )
        # `jit_compile` is what Keras chose for this backend.
        defaults = inspect.signature(keras.Model.compile).parameters
        given = {
            key: self.value(value)
            for key, value in values.items()
            if key != "jit_compile" and value != defaults[key].default
        }
        return call("model.compile", [], given)


def _defined(
    name: str, parameters: Sequence[str], body: Sequence[ast.stmt]
) -> ast.FunctionDef:
    arguments = ast.arguments([], [*map(ast.arg, parameters)], None, [], [], None, [])
    return ast.FunctionDef(name, arguments, [*body], [], **NO_TYPES)


def _takes_name(function: ast.FunctionDef | None) -> bool:
    return function is not None and [x.arg for x in function.args.args] == ["name"]


def _with_names(function: ast.FunctionDef, names: Mapping[str, Node]) -> ast.stmt:
    """Return a function in which these functions have the name, not an argument."""
    own = names.get(function.name)

    def new(node: Node) -> Node | None:
        match node:
            case ast.Name(id="name"):
                return own
            case ast.Call(func=ast.Name(id=name)) if name in names:
                return call(name)
        return None

    body = replaced(function.body, new)
    parameters = [] if own else [x.arg for x in function.args.args]
    return _defined(function.name, parameters, body)


def item(variable: Variable, path: Sequence[Any]) -> Node:
    """Return the node of a variable, or of an item of it, such as `y["a"][0]`."""
    node: Node = variable
    for key in path:
        node = ast.Subscript(node, literal(key), ast.Load())
    return node


def made_nodes(
    statements: Sequence[Statement], names: Mapping[int, str]
) -> list[ast.stmt]:
    """Return statements with named variables as nodes of `ast`."""

    def new(each: Node) -> Node | None:
        if isinstance(each, Label):
            return label_node(each)
        return dotted(names[each.number]) if isinstance(each, Variable) else None

    found, body = list[ast.stmt](), list[ast.stmt]()
    for each in statements:
        value = replaced(each.value, new)
        targets = ["_" if n is None else names[n] for n in each.targets]
        node = _node(each, value, targets)
        is_same = isinstance(value, ast.Name) and targets == [value.id]
        (body if each.inside else found).extend([node] * (not is_same))
        if isinstance(node, ast.For):
            body = node.body
    return found


def _node(statement: Statement, value: Node, targets: Sequence[str]) -> ast.stmt:
    assigned = [dotted(name, ast.Store()) for name in targets]
    match statement.kind:
        case "=":
            several = ast.Tuple(assigned, ast.Store())
            return ast.Assign(assigned if len(assigned) == 1 else [several], value)
        case "model" | "model.trainable" as name:
            return ast.Assign([dotted(name, ast.Store())], value)
        case "for":
            return ast.For(dotted(statement.index, ast.Store()), value, [], [])
        case "return":
            return ast.Return(value)
    return ast.Expr(value)
