"""Loss scales, the optimizer that applies them, and the code around a training step."""
