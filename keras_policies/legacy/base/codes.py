"""The codes of errors, of parts that differ, and of outcomes, each with a remedy.

An error takes its code from the raising line, its class or its hint; if none of them
sets one, `located` adds the code of the stage. A released code keeps its meaning.
"""

from typing import NamedTuple


class Code(NamedTuple):
    """The title, meaning and remedy of a code, one line each."""

    title: str
    meaning: str
    remedy: str


# Three lines for each code: the title, what it means, what to do.
_TABLE = """\
KP001 The command line is wrong
An option or a path does not fit the command, or two of them exclude each other.
Read the message, and `keras-policies COMMAND --help`.
KP002 Keras, a backend or your own code raised an error
The error comes from outside of this package: from a layer, a backend or your module.
Run the command again with `-v` for the traceback.
KP003 A process ended
The process that built or called the model died, usually for lack of memory.
Convert the model by itself, with `--jobs 1`, on a machine with more memory.
KP004 A package is not installed
The backend, the format or the address needs a Python package that is not installed.
Install the package that the message names.
KP101 There is no such file or folder
Nothing exists at the path, as seen from the current folder.
Check the spelling; put globs in quotes.
KP102 This is not a model of tf.keras
Neither the first bytes nor the files in the folder match a format of tf.keras.
Pass a SavedModel folder, an .h5 or .keras file, or an architecture with its weights.
KP103 The file was written by Keras 3
There is nothing to convert.
Open it with `keras.models.load_model`.
KP104 The file has weights, but no model
It does not record which layers there are or how they are connected.
Build the model in code, and call `keras_policies.load_weights`.
KP105 The file is damaged
It is truncated, was changed, or is not what tf.keras writes.
Copy it again from its source. If tf.keras opens it, report the error.
KP106 A part of the model is missing
A model can consist of several files, such as checkpoint shards and vocabularies.
Copy the whole folder, or pass the file with the weights.
KP107 The file cannot be read or downloaded
The system or the server refused, the file changed meanwhile, or it is encrypted.
Check permissions, address and token; unpack the archive yourself.
KP108 The new file cannot be written
It exists, its folder is missing or read-only, or its name has the wrong ending.
Choose another name, or pass `--overwrite` or `--skip-existing`.
KP109 An argument does not fit the file
It names a signature, an object or weights that this file does not have.
Use one of the names in the message, or leave the argument out.
KP110 The temporary folder cannot be written
It is full, read-only or missing. Archives and downloads are unpacked there.
Make room there, or set TMPDIR to another folder.
KP201 The file exceeds a safety limit
It asks for more memory, work or nesting than any known model of its size.
If you trust the file, see the limits in docs/security.md, and report the error.
KP202 The file asks to run code, or to read other files
Models you do not trust could do harm that way, so it is refused.
If you trust where the model came from, pass `safe_mode=False` (`--unsafe`).
KP203 An archive or a link leads out of its folder
Unpacking it could replace your files, or read files other than the model's.
If you trust it, unpack or copy it yourself, and pass the model in it.
KP301 Classes or functions are missing
The model was saved with classes or functions that Keras 3 does not have.
Pass them as `custom_objects` (`--custom-objects`), or open a SavedModel.
KP302 TensorFlow functions have no counterpart
Keras 3 has no operation that computes the same on all backends.
Pass the layer's class, open another signature, or build that part in code.
KP303 A layer cannot be converted
Keras 3 lacks its class or one of its settings, or the config contradicts itself.
Pass a class of your own, or build the model in code and call `load_weights`.
KP304 The code of a Lambda layer cannot be used
Its bytecode is not run in safe mode, and could not be converted to operations.
Pass the function as a custom object, under the name of the layer.
KP305 The content of a look-up table is missing
The file has the layer, but not the table that it learned.
Build the model in code, with its look-up layers, and call `load_weights`.
KP306 The model takes or returns texts
Keras 3 has texts on the TensorFlow backend only.
Pass `texts="outside"` (`--texts outside`), or set KERAS_BACKEND=tensorflow.
KP307 A tensor is ragged, sparse, complex or of any rank
Keras 3 passes dense tensors of a known rank between layers.
Pass the shape of the input as `input_shapes=` (`--input-shape`), or pad it.
KP308 A layer cannot be rebuilt from its traced function
Its class is missing, and its function does something without a fixed form.
Pass the class, or the sizes of inputs as `input_shapes=` (`--input-shape`).
KP401 Keras could not build the model
A layer, or a class of your own, raised an error for the config in the file.
Check the arguments of your classes; otherwise report the error.
KP402 The weights do not fit the model
Numbers, shapes or names differ, or several orders would fit and none is certain.
Check the model's code, or use a SavedModel, which records each weight's place.
KP403 A layer needs TensorFlow
Keras 3 computes look-ups and texts with TensorFlow, on every backend.
Run `pip install tensorflow-cpu`; the backend can stay as it is.
KP404 Plain Keras computes a layer wrongly
On some backend, the outputs of this layer differ from those of tf.keras.
Exclude that backend with `backends=` (`--backends`), or build the layer in code.
KP405 No source code can be written
The model has a part that code with only Keras cannot build.
Convert it to a .keras file instead.
KP406 Source code has a part that no model needs
Before code runs, its statements and names are compared with a list; one is not on it.
Do not run it. Convert the model to a .keras file, and report the error.
KP501 The model differs from its own graph
The SavedModel holds the graph of its outputs, and those of the rebuilt model differ.
Pass the classes of its layers, or open its signature.
KP502 The outputs differ from the recorded ones
The predictions of the model are not those in the recording.
Check that both belong to the same model, with inputs prepared in the same way.
KP503 The recording cannot be used
It is not an .npz file of x_0, … and y_0, …, does not fit, or proves nothing.
Record varied inputs: `np.savez("outputs.npz", x_0=x, y_0=model.predict(x))`.
KP504 Plain Keras gives other outputs
The new file, opened without this package, does not compute the same as the model.
Report the error; `plain=False` (`--no-plain`) writes the file anyway.
KP601 The training configuration is left out
It cannot be read, or Keras 3 has no counterpart.
Call `model.compile`.
KP602 A loss, metric or optimizer is left out
Keras 3 does not have it, or refuses its settings.
Pass it as a custom object, or call `model.compile`.
KP603 The state of the optimizer is left out
The slots in the file do not fit those of the optimizer in Keras 3.
Training starts with new slots: use a low learning rate at first.
KP604 A loss that a layer added is left out
The loss depends on tensors, or on code, that the model no longer has.
To train as before, pass the class of the layer.
KP605 The model trains or predicts differently
Keras 3 overrides a setting or has another rule; predictions may change as described.
Read the line, which says whether it matters; if it does, pass your own class.
KP606 Shared weights are separate
Keras 3 cannot save a layer that several inner models share.
Predictions are equal; tie the weights again before you train.
KP607 Weights are not in the file
The model has weights that the file does not hold, or the reverse.
Check these weights before you use the model.
KP608 A setting of a layer is left out
Predictions do not need it: an initializer, a regularizer, a result that is not used.
To train as before, set it again in code.
KP609 Layers were rebuilt from their traced functions
Their classes are missing. Inference is as recorded.
Pass the classes to train as before.
KP610 The policy of a layer differs
A class of your own gives its layers another policy than the file records.
Pass `dtype=` in that class, or set the global policy.
KP611 The new file needs `import keras_policies`
It uses a function of tf.keras that this Keras no longer has.
Import the package before you open the file.
KP612 A layer has another name
Its name in the file has characters that names in Keras 3 cannot have on this backend.
Use the new name, as in `model.get_layer(name)`.
KP613 A setting was replaced as you asked
An argument such as `dtype_policy=` makes it superfluous.
Nothing has to be done.
KP620 The model is complete
It predicts and trains as the file says, as far as this was checked.
Nothing has to be done.
KP621 The model was rebuilt
Classes are missing, and their layers were made from the functions in the file.
Use it as it is, or pass the classes (`--custom-objects`) to have them in the model.
KP622 The model trains differently
It predicts as the file says, but something that it did in training is not the same.
Use it to predict; before you train it, read what differs.
KP623 Something is lost
The model lacks a loss, a metric, the state of the optimizer, a regularizer or weights.
Read what is lost; pass it as a custom object, or set it again in code.
KP624 The weights are new
The file is an architecture without weights, so they were initialized as for training.
Pass the file with its weights: `weights=` (`--weights`).
"""
_LINES = iter(_TABLE.splitlines())
CODES = {
    head[:5]: Code(head[6:], meaning, remedy)
    for head, meaning, remedy in zip(_LINES, _LINES, _LINES, strict=True)
}
