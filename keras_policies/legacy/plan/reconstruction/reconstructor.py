"""Replaces each layer whose class is missing by the program of its function."""

import collections
import copy
import dataclasses
from collections.abc import Sequence

from keras_policies._common.types import Config
from keras_policies.legacy.base import configs, hints
from keras_policies.legacy.base.errors import (
    LegacyModelError,
    LimitError,
    attempt,
    located,
)
from keras_policies.legacy.base.model import Vocabulary
from keras_policies.legacy.base.programs import Program
from keras_policies.legacy.base.traced_functions import (
    ConcreteFunction,
    TracedFunctions,
    TracedLayer,
)
from keras_policies.legacy.guards import budget, limits
from keras_policies.legacy.guards.budget import Limit
from keras_policies.legacy.plan.layers import traced_layer
from keras_policies.legacy.plan.reconstruction import (
    concrete_functions,
    in_training,
    ir,
    losses,
    normalizations,
    program,
    recurrent_calls,
    rewriting,
)
from keras_policies.legacy.plan.reconstruction.concrete_functions import Layers
from keras_policies.legacy.plan.reconstruction.def_use import Owner
from keras_policies.legacy.plan.reconstruction.frozen import Frozen
from keras_policies.legacy.plan.reconstruction.lookup_tables import Tables
from keras_policies.legacy.plan.reconstruction.losses import Regularizers
from keras_policies.legacy.plan.reconstruction.tracing import Tracing, refuse_resources
from keras_policies.legacy.plan.report import (
    Arguments,
    Options,
    Rebuilder,
    Reconstruction,
    Report,
)

FUNCTIONAL = "Functional"
# Layers that consist of one op: following their steps loses nothing.
OF_ONE_OP = "Conv1D", "Conv2D", "Conv2DTranspose", "Dense", "EinsumDense", "Embedding"
Converted = tuple[Config, Report]


class Reconstructor(Rebuilder):
    """Converts the layers of a file whose classes are missing."""

    def __init__(self, traced: TracedFunctions, options: Options) -> None:
        self._options = options
        self._frozen = Frozen(traced)
        self.traced = dataclasses.replace(traced, variables=self._frozen.variables)
        self._layers, self._regularizers = Layers(traced), Regularizers(traced)
        learned = options.vocabularies
        self.vocabularies = concrete_functions.vocabularies(traced, learned)
        self._limit = Limit(limits.NODES, "nodes in its traced functions")
        self._tables = Tables(traced, keeps_texts=options.keeps_texts)
        self._steps = Limit(limits.OPS, "ops in its traced functions")
        self._specs: dict[int, ir.LayerSpec | None] = {}  # layers inside rebuilt ones
        self._converted: dict[tuple[int, str], Converted | None] = {}
        self._around: tuple[int, ...] = ()  # the layers that are being rebuilt
        self._path = ""  # of the last one
        self._opened: set[int] = set()  # layers that are not called, but followed

    def reconstruct(
        self, written: Config, number: int, path: str, called: Arguments | None
    ) -> Converted | None:
        if number in self._around:
            return None
        layer = self.traced.layers[number]
        traces = concrete_functions.for_inference(layer.traces, called)
        if self._options.signature is not None and not path:
            layer = dataclasses.replace(layer, traces_with_losses=())
            traces = [self.traced.signatures[self._options.signature]]
        if not traces:
            return None
        if path and concrete_functions.is_complex(traces[0]):
            raise LegacyModelError(
                f"the layer {path!r} takes or returns complex numbers, which Keras 3 "
                "cannot pass from one layer to another.",
                code="KP307",
            )
        with_losses = concrete_functions.for_inference(layer.traces_with_losses, called)
        inner = copy.copy(self)  # for what is in the layer
        inner._around, inner._path = (*self._around, number), path
        with located(layer=path or None, code="KP308"):
            name = configs.name_of(written)
            config, report = inner._rebuild(layer, name, traces, with_losses)
        steps = report.reconstructions[path].steps
        self._steps.spend(steps)
        budget.work(budget.OP * steps)
        return config, report

    def _rebuild(
        self,
        layer: TracedLayer,
        name: str,
        traces: Sequence[ConcreteFunction],
        with_losses: Sequence[ConcreteFunction],
    ) -> Converted:
        """Convert a layer, with its added losses where they can be followed."""
        path = self._path
        if (twin := in_training.twin(layer, traces[0])) is not None and path:
            normalization = normalizations.batch_normalization(
                self.traced, layer, name, traces[0], twin
            )
            if normalization is not None:
                call = ir.CallStep(normalization, ir.Argument(0), name=name)
                one = Program(
                    steps=(call,),
                    ends=ir.StepOutput(0),
                    name=name,
                    path=path,
                    inputs=(concrete_functions.specs(traces[0].inputs)[0],),
                    starts=ir.Argument(0),
                    weights=program.layer_weights([call], self.traced.variables),
                    is_layer=True,
                )
                entry = Reconstruction(layer.class_name, layer.variables)
                return self._with_layers(one, entry)
        if not any(trace.losses for trace in with_losses):
            return self._with_program(layer, name, traces)
        with attempt(LegacyModelError):
            return self._with_program(layer, name, with_losses)
        # Without the losses, which cannot be had.
        config, report = self._with_program(layer, name, traces)
        entry = dataclasses.replace(report.reconstructions[path], loses_losses=True)
        reconstructions = {**report.reconstructions, path: entry}
        return config, dataclasses.replace(report, reconstructions=reconstructions)

    def _with_program(
        self, layer: TracedLayer, name: str, traces: Sequence[ConcreteFunction]
    ) -> Converted:
        """Return a program that computes what the first of some traces did."""
        trace, specs = traces[0], concrete_functions.specs(traces[0].inputs)
        first = self._follow(trace)
        general = concrete_functions.general_specs(traces)
        others = (self._follow(other) for other in traces[1:])
        if general != specs and all(ir.same(first, other) for other in others):
            specs = general
        variables = self.traced.variables
        owner = Owner(
            dtype=layer.config.get("dtype"),
            # With those that were constants, whose numbers are negative.
            trainable=frozenset(layer.trainable) | {n for n in variables if n < 0},
            variables=variables,
            regularizers=self._regularizers,
        )
        trace, (steps, outputs), is_less, moved = in_training.trained(
            owner, self.traced, layer, trace, first, self._follow
        )
        specs = recurrent_calls.with_sizes(specs, steps, variables)
        count = len(concrete_functions.specs(trace.outputs))
        usable = [loss for loss in outputs[count:] if losses.is_supported(steps, loss)]
        added = [loss for loss in usable if not isinstance(loss, ir.Constant)]
        starts, ends = program.nests(trace, outputs[:count], is_model=not self._path)
        dtypes = [spec.dtype for spec in specs]
        new, (ends, added) = rewriting.rewritten(owner, steps, [ends, added], dtypes)
        ends = losses.added(new, ends, added)
        named, named_steps = program.with_unique_names(specs, new, owner.mixed)
        built = Program(
            name=name,
            path=self._path,
            inputs=named,
            steps=named_steps,
            starts=starts,
            ends=ends,
            weights=program.layer_weights(named_steps, variables),
            arguments=tuple(dict.fromkeys(s.name.partition("/")[0] for s in specs)),
        )
        entry = Reconstruction(
            class_name=layer.class_name,
            variables=layer.variables,
            steps=len(new),
            texts=() if self._path else tuple(program.output_texts(built)),
            is_less=is_less,
            moved=tuple(n for n in layer.variables if n in moved),
            loses_gradients=bool(steps.without_gradients),
            loses_losses=len(usable) < len(outputs) - count,
        )
        return self._with_layers(built, entry)

    def _with_layers(self, one: Program, entry: Reconstruction) -> Converted:
        """Convert a program together with the layers that it calls."""
        prefix, specs = program.prefix(one), program.layers_called(one.steps)
        called = {n: self._convert_spec(specs[n], prefix, n) for n in specs}
        return program.converted(one, entry, called)

    def _follow(self, trace: ConcreteFunction) -> ir.Followed:
        layer = self.traced.layers[self._around[-1]]
        if kinds := concrete_functions.composites(trace.inputs):
            raise LegacyModelError(
                f"its function takes a {kinds[0]}, and Keras 3 passes dense tensors.",
                hints.pass_custom_object(layer.class_name),
                code="KP307",
            )
        specs = concrete_functions.specs(trace.inputs)
        tracing = Tracing(
            traced=self.traced,
            layers=self._layers,
            specs=specs,
            spec_of=self._inner_spec,
            limit=self._limit,
            tables=self._tables,
            frozen=self._frozen,
        )
        arguments = [ir.Argument(i) for i in range(len(specs))]
        captured = map(tracing.captured, trace.captures)
        outputs: list[ir.Value] = tracing.follow(
            trace.function, [*arguments, *captured]
        )
        if shared := self._shared(tracing.steps):
            self._opened |= shared
            return self._follow(trace)
        refuse_resources(outputs, self.traced)
        activities = outputs[: len(concrete_functions.specs(trace.outputs))]
        if layer.activity_regularizer is not None:
            outputs += losses.activity_losses(
                tracing, layer.activity_regularizer, activities
            )
        # The regularizers that no stock regularizer can replace.
        for one in self._regularizers.others(ir.variables_in(tracing.steps)):
            outputs += tracing.follow(one.function, [ir.VariableRef(*one.captures)])
        return self._frozen.thawed(tracing.steps), outputs

    def _shared(self, steps: Sequence[ir.Step]) -> set[int]:
        """Return the called layers to follow: other steps train their weights, too."""
        layers = self.traced.layers
        parts = {s.spec.number: s.spec for s in steps if isinstance(s, ir.CallStep)}
        called = [n for n in parts if n is not None]
        count = collections.Counter(ir.variables_in(steps))
        count.update(variable for n in called for variable in layers[n].trainable)
        return {
            n
            for n in called
            if any(count[variable] > 1 for variable in layers[n].trainable)
            and (parts[n].tensors is not None or layers[n].class_name in OF_ONE_OP)
        }

    def _inner_spec(self, number: int) -> ir.LayerSpec | None:
        """Return the layer that a traced layer becomes inside a rebuilt one."""
        if number in {0, *self._around, *self._opened}:
            return None
        if number not in self._specs:
            self._specs[number] = self._layer_spec(number)
        return self._specs[number]

    def _layer_spec(self, number: int) -> ir.LayerSpec | None:
        layer = self.traced.layers[number]
        if any(map(concrete_functions.is_complex, layer.traces)):
            return None  # complex numbers are inside of one program
        prefix = f"{self._path}/" if self._path else ""
        try:
            converted = self._convert_traced(number, prefix, layer.name)
        except LimitError:
            raise
        except LegacyModelError:
            if layer.traces and not any(
                map(concrete_functions.is_of_any_rank, layer.traces)
            ):
                raise
            return None  # what it does is in the function around it alone
        if converted is None:
            return None
        config, report = converted
        if prefix + layer.name in report.reconstructions:
            inner = config["config"]
            is_program = configs.is_program(config)
            inputs = inner["program"].inputs if is_program else inner["input_layers"]
            tensors = len(inputs) if is_program or isinstance(inputs[0], list) else 1
            return ir.LayerSpec(layer.name, FUNCTIONAL, {}, (), number, tensors)
        replaced = report.replaced_variables
        variables = concrete_functions.variables(self.traced, number)
        weights = tuple(weight for weight in variables if weight[1] not in replaced)
        config = {**layer.config} if layer.has_config else {}
        return ir.LayerSpec(layer.name, layer.class_name, config, weights, number)

    def _convert_traced(self, number: int, prefix: str, name: str) -> Converted | None:
        key = number, prefix + name
        if key not in self._converted:
            layer = self.traced.layers[number]
            config = {**layer.config, "name": name} if layer.has_config else None
            written = {"class_name": layer.class_name, "name": name, "config": config}
            self._converted[key] = traced_layer(
                written, self._options, self, number, prefix
            )
        return self._converted[key]

    def _convert_spec(self, spec: ir.LayerSpec, prefix: str, name: str) -> Converted:
        if spec.number is not None:
            converted = self._convert_traced(spec.number, prefix, name)
        else:
            options = dataclasses.replace(
                self._options,
                vocabularies={prefix + name: Vocabulary()},  # it is in the config
                namesakes=frozenset(),  # a rule says that it is Keras's own
            )
            config = {**spec.config, "name": name}
            written = {"class_name": spec.class_name, "name": name, "config": config}
            converted = traced_layer(written, options, self, None, prefix)
        if converted is None:
            raise LegacyModelError(f"the layer {name!r} in it cannot be rebuilt.")
        variables = tuple(number for _, number, _ in spec.weights)
        in_programs = *converted[1].in_programs, *variables
        return converted[0], dataclasses.replace(
            converted[1], in_programs=in_programs, elsewhere=()
        )
