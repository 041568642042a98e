"""Source code of models: Python modules that need only Keras.

layout: code in lines; objects: configs as code; operations: functions of keras.ops;
calls: the calls of a Functional; loops, variables: its statements; graphs: functions;
source: the public function; checking: comparing the result.
"""
