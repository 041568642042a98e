"""SavedModels of TensorFlow 1, and frozen graphs; `tensorflow_1.read` is its door."""
