"""Replaces the variables in the steps of a layer by layers that hold them."""

from collections.abc import Sequence

import numpy as np

from keras_policies.legacy.base.traced_functions import FLOATS
from keras_policies.legacy.plan import policies
from keras_policies.legacy.plan.reconstruction import def_use, ir, weight_layers
from keras_policies.legacy.plan.reconstruction.def_use import Owner, name_of_dtype

DRAWS = "RandomStandardNormal", "RandomUniform", "RandomUniformInt", "TruncatedNormal"


def rewritten(
    owner: Owner, steps: ir.Steps, outputs: ir.Nest, arguments: Sequence[str]
) -> tuple[ir.Steps, ir.Nest]:
    """Return steps and outputs without variables, for arguments of these dtypes."""
    old, tables = weight_layers.replaced(def_use.chains(owner, steps, outputs))
    rewriting = _Rewriting(owner, arguments, tables)
    for number in ir.needed_steps(old, outputs):
        rewriting.rewrite(number, old[number])
    outputs = ir.mapped(rewriting.output, outputs)
    return rewriting.steps, outputs


class _Rewriting:
    """The new steps of a layer; `tables` are Embeddings by their variables."""

    def __init__(
        self, owner: Owner, arguments: Sequence[str], tables: dict[int, ir.LayerSpec]
    ) -> None:
        self.owner, self.arguments, self.tables = owner, arguments, tables
        self.steps = ir.Steps()
        self._new_values: dict[ir.Value, ir.Value] = {}  # old value -> new value

    def rewrite(self, number: int, step: ir.Step | ir.StepOutput) -> None:
        """Add a step that takes the outputs of the new steps."""
        if isinstance(step, ir.StepOutput):
            value = self._new_values[step]
        elif isinstance(step, ir.CallStep):
            argument = ir.mapped(self._value, step.argument)
            kwargs = ir.mapped(self._value, dict(step.kwargs))
            value = self.steps.add(ir.CallStep(step.spec, argument, kwargs))
        elif self.owner.is_cast(step):
            value = self._cast(step)
        else:
            value = self._op(step)
        self._new_values[ir.StepOutput(number)] = value

    def _op(self, step: ir.OpStep) -> ir.StepOutput:
        inputs = tuple(map(self._value, step.inputs))
        if step.op in DRAWS and isinstance(inputs[0], ir.Constant):
            sizes = self.steps.op("sizes", "_Sizes", inputs[0], ir.Anchor())
            inputs = (sizes, *inputs[1:])
        return self.steps.add(ir.OpStep(step.name, step.op, step.attributes, inputs))

    def _cast(self, step: ir.OpStep) -> ir.Value:
        """Return a tensor in the compute dtype of the layer's policy."""
        value = self._value(step.inputs[0])
        if name_of_dtype(step, "SrcT") not in FLOATS:
            variable = policies.variable_dtype(self.owner.dtype)
            value = self.steps.op(step.name, "Cast", value, DstT=variable)
        return self._identity(step.name, value)

    def _identity(self, name: str, value: ir.Value) -> ir.Value:
        """Return a tensor, cast by a layer with the policy of the owner."""
        spec = ir.LayerSpec(name, "Identity", self.owner.config(self.owner.dtype))
        return self.steps.add(ir.CallStep(spec, value))

    def _value(self, value: ir.Value) -> ir.Value:
        if isinstance(value, ir.StepOutput):
            first = self._new_values[ir.StepOutput(value.step)]
            if value.position and isinstance(first, ir.StepOutput):
                return ir.StepOutput(first.step, value.position)
            return first
        if value not in self._new_values:
            self._new_values[value] = self._new(value)
        return self._new_values[value]

    def _new(self, value: ir.Value) -> ir.Value:
        if isinstance(value, ir.VariableRef):
            return self._weight(value.variable)
        if isinstance(value, ir.Argument):
            is_cast = self.arguments[value.number] == self.owner.mixed
            name = f"input_{value.number}_cast"
            return self._identity(name, value) if is_cast else value
        return value

    def output(self, value: ir.Value) -> ir.Value:
        """Return an output; an input becomes one through an Identity layer."""
        output = self._value(value)
        is_input = isinstance(output, ir.Argument)
        return self._identity("identity", output) if is_input else output

    def _weight(self, variable: int) -> ir.Value:
        weight = self.owner.variables[variable]
        name, dtype = self.owner.label(variable), str(weight.dtype)
        if dtype not in FLOATS:
            return ir.Constant(weight.read())
        if variable in self.tables:
            indices = ir.Constant(np.arange(weight.shape[0], dtype="int32"))
            return self.steps.add(ir.CallStep(self.tables[variable], indices))
        ask = self.steps.op(
            f"{name}_ask", "_AskForWeight", ir.Anchor(), shape=weight.shape, dtype=dtype
        )
        config = self.owner.config(dtype, alpha=variable)
        spec = ir.LayerSpec(name, "PReLU", config, (("alpha", variable, None),))
        slopes = self.steps.add(ir.CallStep(spec, ask))
        return self.steps.op(f"{name}_take", "_TakeWeight", slopes)
