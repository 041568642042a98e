"""TensorFlow checkpoints: the index, the tensors, and the object graph."""
