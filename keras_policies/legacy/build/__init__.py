"""`Plan` to `keras.Model`: the only room that makes, fills and compiles models."""
