"""Rebuilds layers whose classes are missing from their traced functions: dicts only.

The modules, in the order in which a layer goes through them:

    reference                     evaluates the nodes of a function on arrays (idioms,
                                  own_ops); `tracing` is its other mode
    concrete_functions            finds the layer, and the function to follow
    tracing                       follows its nodes, to steps (`ir`): calls of layers
                                  (matched_calls, layer_calls), loops (recurrent,
                                  recurrent_probes, recurrent_cells, loops),
                                  look-ups (lookup_tables)
    frozen                        makes weights of constants without variables
    losses, in_training           add what it does in training: losses, dropout
    def_use, weight_layers        find the step that takes a variable, and its bias
    layer_rules                   say which stock layer the step is
    recurrent_calls               makes calls of LSTM, GRU and SimpleRNN
    rewriting                     replaces steps by layers, variables by PReLUs
    program                       makes the program, and the config that holds it

`reconstructor` and `program` call them for each layer. `normalizations` comes before:
batch normalization that was written by hand is one layer.
"""
