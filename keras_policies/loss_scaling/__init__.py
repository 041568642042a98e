"""Loss scales, the optimizer that applies them, and what surrounds a training step."""
