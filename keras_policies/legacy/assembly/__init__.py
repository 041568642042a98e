"""`Plan` to `keras.Model`: the only package that creates, fills and compiles models."""
