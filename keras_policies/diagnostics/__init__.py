"""Tables and pictures of the policies and the gradients of a model."""
