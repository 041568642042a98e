"""`LegacyModel` to `Plan`: configs of Keras 3, as dicts; nothing is built."""
