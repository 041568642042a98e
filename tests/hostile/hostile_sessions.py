"""Graphs of TensorFlow 1 that ask for much time or memory, each made by a function.

As in hostile_sizes.py, `COSTS` says how each is opened, and what the error says.
"""

import hostile_structures as structures
import hostile_worker

LOOP = "tensorflow_1.tar.xz/tensorflow_1/1.15.5/loop/model"
PARTITIONED = "tensorflow_1.tar.xz/tensorflow_1/1.15.5/partitioned/model"
MANY = "more than 500000 nodes and values in its functions"


class Session:
    """A graph that takes "ids", into which `add` puts nodes."""

    def __init__(self):
        files = hostile_worker.original(LOOP)
        self.files = files
        self.found = structures.message("SavedModel", files["saved_model.pb"])
        self.graph = structures.message("Graph", b"")
        self.add("ids", "Placeholder")
        self.add("p", "Placeholder")

    def add(self, name, op, *inputs):
        self.graph.node.add(name=name, op=op, input=inputs)
        return name

    def predicate(self, name="p"):
        """Return a tensor of bools that the input decides."""
        return self.add(name, "Any", "ids")

    def returning(self, name):
        """Return the files of the model that returns a tensor."""
        (meta_graph,) = self.found.meta_graphs
        (signature,) = meta_graph.signature_def
        signature.value.outputs[0].value.name = f"{name}:0"
        meta_graph.graph_def = self.graph.SerializeToString()
        return {**self.files, "saved_model.pb": self.found.SerializeToString()}


def nested_conditions():
    """600 conditions, each inside the last one."""
    g, taken = Session(), "ids"
    predicates = [g.predicate(f"p{i}") for i in range(600)]
    for i, predicate in enumerate(predicates):
        taken = g.add(f"in{i}", "Switch", f"{taken}:1" if i else taken, predicate)
    found = f"{taken}:1"
    for i in reversed(range(600)):
        found = g.add(f"out{i}/Merge", "Merge", f"in{i}", found)
    return g.returning(found)


def one_condition_of_many():
    """A condition that returns 3,000 tensors, which are added up."""
    g = Session()
    predicate, total = g.predicate("q"), "ids"
    for i in range(3000):
        switch = g.add(f"c/Switch_{i}", "Switch", total if not i else "ids", predicate)
        merge = g.add(f"c/Merge_{i}", "Merge", switch, f"{switch}:1")
        total = g.add(f"add_{i}", "AddV2", total, merge)
    return g.returning(total)


def many_switches():
    """A tensor that 3,000 predicates let pass."""
    g, taken = Session(), "ids"
    for i in range(3000):
        switch = g.add(f"s{i}", "Switch", taken, g.predicate(f"p{i}"))
        taken = f"{switch}:1"
    return g.returning(g.add("Merge", "Merge", taken, taken))


def loop_of_many():
    """A loop over 4,000 values, each of which is returned."""
    g, total = Session(), "ids"
    g.add("go", "LoopCond", "any")
    g.add("any", "Any", "merge_0")
    for i in range(4000):
        g.add(f"enter_{i}", "Enter", "ids")
        g.add(f"merge_{i}", "Merge", f"enter_{i}", f"next_{i}")
        g.add(f"switch_{i}", "Switch", f"merge_{i}", "go")
        g.add(f"next_{i}", "NextIteration", f"switch_{i}:1")
        g.add(f"exit_{i}", "Exit", f"switch_{i}")
        total = g.add(f"add_{i}", "AddV2", total, f"exit_{i}")
    return g.returning(total)


def predicate_of_itself():
    """A switch whose predicate is passed on in a circle."""
    g = Session()
    g.add("one", "Identity", "other")
    g.add("other", "Identity", "one")
    switch = g.add("s", "Switch", "ids", "one")
    return g.returning(g.add("Merge", "Merge", switch, f"{switch}:1"))


def branch_of_itself():
    """A condition whose branch takes what it returns."""
    g = Session()
    switch = g.add("s", "Switch", "ids", g.predicate("q"))
    g.add("add", "AddV2", f"{switch}:1", "other")
    g.add("other", "NextIteration", "Merge")
    return g.returning(g.add("Merge", "Merge", switch, "add"))


def dense_graph():
    """2,000 nodes, each of which takes all before it."""
    g = Session()
    switch = g.add("s", "Switch", "ids", g.predicate("q"))
    names = [switch]
    for i in range(1500):
        names.append(g.add(f"n{i}", "AddN", *names))
    return g.returning(g.add("Merge", "Merge", switch, f"{names[-1]}"))


def overlapping_slices():
    """A kernel stored in 100,000 slices, all of them the same one."""
    files = hostile_worker.original(PARTITIONED)
    entries = structures.read_index(files)
    entry = structures.message("BundleEntry", entries[b"kernel"])
    first = entry.slices[0]
    entry.slices.extend([first] * 100_000)
    entry.shape.dim[1].size = 7 + 3 * 100_000
    return structures.with_entries(
        files, {**entries, b"kernel": entry.SerializeToString()}
    )


def missing_slice():
    """A kernel without one of its slices."""
    files = hostile_worker.original(PARTITIONED)
    entries = structures.read_index(files)
    key = next(key for key in entries if key.startswith(b"\0kernel"))
    return structures.with_entries(files, {k: entries[k] for k in {*entries} - {key}})


LOAD, BOTH = ("load",), ("inspect", "load")
COSTS = {
    make.__name__: (actions, make, match)
    for actions, make, match in (
        (LOAD, nested_conditions, "RecursionError|more than"),
        (BOTH, one_condition_of_many, MANY),
        (LOAD, many_switches, MANY),
        (LOAD, loop_of_many, MANY),
        (LOAD, predicate_of_itself, "the graph has a cycle at 'one'"),
        (LOAD, branch_of_itself, "'other' .NextIteration. is not part of"),
        (BOTH, dense_graph, MANY),
        (
            LOAD,
            overlapping_slices,
            "the slices of 'kernel' have 28 values, expected 1200028",
        ),
    )
}
