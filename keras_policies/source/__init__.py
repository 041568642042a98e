"""Source code of models: Python modules that need only Keras.

`source` has the public function. `graphs` builds functions as syntax trees (`tree`):
`calls` finds the calls of a Functional, `operations` and `objects` write ops and live
objects (`live`), `loops` and `functions` write equal blocks once, and `variables` names
the variables. `layout` makes the text, `gate` decides whether it may run, and
`checking` compares its model in another process (`answers`, `comparison`).
"""
