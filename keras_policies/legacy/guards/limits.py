"""Every limit on the cost of a file, on one page.

Name = number  # unit: what it prevents, or why it is so large. Whatever exceeds a limit
is refused with a `LegacyModelError`, or cut off or ignored if the line says so.
`budget` counts limited things, and adds up memory and work.
"""

KIB, MIB, GIB = 2**10, 2**20, 2**30

# The budget of a file, which depends on its size.
MEMORY_PER_BYTE = 8  # bytes of arrays: a float16 weight as float32, with Adam's slots
SMALL_MEMORY_BYTES = 256 * MIB  # of arrays, in addition: any file may ask for them
WORK_PER_BYTE = 0.7  # about microseconds: the prices are in `budget`
SMALL_WORK = 1_200_000  # about microseconds, in addition
RANK = 64  # axes of a tensor: the most in numpy and torch; a gather can double them
LAYER_ORDERS = 1_000  # orders in which a class may have created its lists of layers
LAYER_RUNS = 60_000  # calls: models that call each other; a million take a minute
LAYER_CALLS = 6_000  # that a model lists: each takes Keras most of a millisecond
CALL_INPUTS = 4_000  # tensors that a layer takes in one call

# Archives, and other packed data.
EXPANSION = 4  # times its packed size: zip bombs; packed weights shrink to half
SMALL_FILE_BYTES = 16 * MIB  # in addition, for a whole file: empty groups are zeros
SMALL_ARRAY_BYTES = 4 * KIB  # in addition, for an array
SMALL_TEXT_BYTES = 1 * MIB  # in addition, for all vocabularies
ARCHIVE_ENTRIES = 10_000  # files and folders: the largest tf.keras models have 100s
ARCHIVE_NAME_BYTES = 1024  # of an entry's path: paths that no disk can store
ARCHIVE_PART_BYTES = 255  # of one name in it
ARCHIVE_DEPTH = 32  # nested folders
ARCHIVE_BYTES = 64 * GIB  # of all files: a full disk
ARCHIVE_READ_BYTES = 8 * MIB  # of one read: contents are read in pieces, headers whole
XZ_BYTES = 128 * MIB  # of the dictionary of an .xz file: `xz -9` needs 65 MiB
DOWNLOAD_SILENCE = 60  # seconds without a byte from a host
DOWNLOAD_SECONDS = 60  # before a download must be as fast as this:
DOWNLOAD_RATE = 16 * KIB  # bytes a second: hosts that send a byte a minute
FOLDER_FILES = 100_000  # files whose size and time are checked; others are ignored

# Texts.
JSON_BYTES = 32 * MIB  # of one text, and of all in a file
JSON_VALUES = 2_000_000  # in the same: a value takes up to 100 bytes of memory
JSON_NUMBERS = {  # lengths of lists that Keras builds before it allocates arrays
    "num_oov_indices": 1_000_000,
    "num_thresholds": 100_000,
}
YAML_BYTES = 2 * MIB  # of a text: its parser takes seconds for a megabyte
YAML_SIGNS = {  # in a text: what its parser takes long for, or quadratic time
    **{"%": 1_000, "---": 1_000, "...": 1_000},  # directives, documents
    **{"&": 10_000, "*": 100_000},  # anchors, aliases
    **{":": 100_000, "?": 100_000, "- ": 200_000, ",": 200_000},  # keys, items
}
YAML_DEPTH = 200  # nested values: each level of models takes 4
METADATA_BYTES = 64 * KIB  # of metadata.json in a .keras file
PATH_CHARACTERS = 64 * KIB  # of a layer: the most that HDF5 supports
VOCABULARY_TOKENS = 2_000_000
VOCABULARY_BYTES = 128 * MIB
TEXT_BINS = 2**63  # for hashed texts: TensorFlow counts in int64
TEXT_COUNTS = 10_000_000  # numbers in the row of a text
TEXT_WIDTHS = 100  # words of an n-gram, and different widths

# HDF5, checkpoints, SavedModels.
WEIGHT_BYTES = 64  # of an HDF5 file, for each weight: a link to one is shorter
HDF5_OVERLAP = 2  # times the size of the file: objects that share bytes
INDEX_BYTES = 512 * MIB  # of a checkpoint's index
INDEX_ENTRIES = 250_000  # tensors in it
KEY_BYTES = 64 * KIB  # of a tensor's name, a path: prefix compression could bomb
ALL_KEYS_BYTES = 64 * MIB  # of the names of all tensors
TENSOR_AXES = 254  # in a checkpoint: tensorflow/core/framework/tensor_shape.h
MESSAGES = 3_000_000  # in a protocol buffer: two bytes can take a hundred when parsed
UNCOUNTED_BYTES = 1 * MIB  # of a protocol buffer: too small for many messages
LINKS = 3_000_000  # followed between objects: a few objects can have many links
SLOT_PARTS = 100  # of a slot's name: scopes, layers, the variable; others are cut off
MODEL_BYTES = 2 * GIB  # of saved_model.pb: the largest protocol buffer
GRAPH_FUNCTIONS = 200_000  # in the library of a graph, or listed beside it
GRAPH_VALUES = 500_000  # nodes and values: parsing multiplies their bytes by 100s
LAYER_FUNCTIONS = 200_000  # listed by the layers
CHILD_PATHS = 64 * MIB  # characters in the paths of all objects
CONSTANT_AXES = 32  # of a constant in a graph: the most in numpy 1
ITERATIONS = 2**31 - 1  # of an optimizer: Keras counts in int32

# Functions of classes that are missing.
NODES = 30_000  # in all functions that are followed
CALL_DEPTH = 60  # nested function calls: Python's stack is limited
OPS = 12_000  # ops and layers that functions become: Keras creates each of them once
LOOP_ROUNDS = 200  # of a loop that is unrolled
LIST_ITEMS = 10_000  # of a TensorList
SCOPE_CHARACTERS = 2000  # of a node's name; others are cut off
SCOPES = 30  # of the name of a node or a weight; others are cut off
BROKEN_CALLS = 20  # groups of nodes that prove not to be layer calls; then all are ops
SIZE_STEPS = 100  # searched for the computation of a product's sizes; then unknown
NAMESAKES = 8  # layers with one name and the same variables; others are not tried
NAME_CHARACTERS = 200  # of a new layer; others are cut off
BOXES = 200  # chosen by non-maximum suppression, a loop that is unrolled
GRADIENT_OPS = 12  # followed to find that a recorded gradient is a product
RATE_OPS = 6  # followed to find the rate of a dropout
SEED_OPS = 16  # searched between a generator and its use: slices, casts, other seeds
SCALING_OPS = 2  # searched between a random draw and its use: a factor, a sum

# Bytecode of Lambda layers.
CODE_BYTES = 1 * MIB  # marshalled
CODE_OBJECTS = 100_000  # in the code: each reference to an object counts again
CODE_DEPTH = 40  # of its objects, and of the values that it builds
CODE_BITS = 1024  # of an integer, stored or computed
CODE_ITEMS = 1000  # of nested tuples that it builds, counted as often as they occur
CODE_CHARACTERS = 10_000  # of a text that it builds
CODE_STEPS = 5000  # instructions that are followed
CODE_CALLS = 20  # nested function calls
CODE_PREFIXES = 3  # EXTENDED_ARG before an instruction: its argument has 32 bits
ROUND_DIGITS = 20  # digits for `round`

# Symbolic dimensions.
DIM_TERMS = 60  # of a polynomial
DIM_PARTS = 200  # numbers and axes in its text: nested quotients double them
DIM_NUMBER = 2**64  # a factor in it: TensorFlow counts in int64
DIM_DEPTH = 20  # nested quotients or bounds
DIM_DIVISOR = 2**10  # of a float that counts as an exact fraction, such as 0.25
DIM_FACTORS = 3  # axes that one axis is split into; beyond this, its size is unknown

# Messages: texts from a file are cut off.
TOLD_BYTES = 2**64  # larger sizes are not printed: they may have any number of digits
TOLD_NAME = 80  # characters of a name
TOLD_REASON = 120  # characters of a Keras error in a note
TOLD_MESSAGE = 2000  # characters of a Keras error in an error: it may hold megabytes
