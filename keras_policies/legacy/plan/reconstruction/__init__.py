"""Layers whose classes are lost, made of their recorded functions: dicts only.

The modules, in the order in which a lost layer goes through them:

    recorded_layers, traces   finds the layer in the file, and the function to follow
    tracing                   follows its nodes (bodies), to `steps`: layers that are
                              called in it (regions, calls), loops, lookup tables
    losses, training          what it does beside: losses, regularizers, dropout
    frozen                    makes weights of constants, if there are no variables
    uses, holders             find the step that takes a variable, and its bias;
    made_layers               says which stock layer does what the step does
    rewriting                 replaces steps by these layers, other variables by PReLUs
    models, program           makes the program, and the config that holds it

`replacing` calls them for each lost layer of a model. `normalizations` comes before:
batch normalization that was written by hand is one layer. `owner` is the layer whose
steps these are, and `rebuild` tells the user what became of it.
"""
