"""Source code of models: Python modules that need only Keras.

`source` has the public function, and `checking` compares its result with the model.
`graphs` writes functions: `calls` finds the calls of a Functional, `operations` and
`objects` write ops and configs as code, `loops` and `functions` write equal blocks
once, `variables` names the variables, and `layout` splits long lines.
"""
