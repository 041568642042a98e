"""Source code of models: modules of Python that need Keras alone.

layout: expressions and lines; objects: configs to expressions; operations: functions
of keras.ops; graphs: models to functions; source: the public function, and its check.
"""
