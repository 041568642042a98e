"""Source code of models: Python modules that need only Keras.

layout: code in lines; objects: configs as code; operations: functions of keras.ops;
calls: what a Functional calls; loops, variables: its statements; graphs: functions;
source: the public function; checking: what the code builds.
"""
