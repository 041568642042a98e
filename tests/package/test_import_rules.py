"""The packages of the project, which of them each may import, and who calls whom."""

import ast
import pathlib
import subprocess
import sys

import legacy_files
import lost_files
import pytest

import keras_policies

pytestmark = pytest.mark.once("it reads the sources", for_all_keras=True)

PACKAGE = pathlib.Path(keras_policies.__file__).parent
SHARED = {"base", "guards"}
# Package of legacy/ -> the packages that it may import; public modules import all.
MAY_IMPORT = {
    "base": {"base"},
    "guards": SHARED,
    "readers": {"readers", *SHARED},
    "values": {"values", *SHARED},
    "ops": {"ops", "values", *SHARED},
    "bytecode": {"bytecode", "ops", "values", *SHARED},
    "texts": {"texts", *SHARED},
    "plan": {"plan", "bytecode", "ops", "values", "texts", *SHARED},
    "assembly": {"assembly", "plan", "bytecode", "ops", "values", "texts", *SHARED},
}
WITHOUT_KERAS = "base", "readers", "texts"
KERAS = "keras.", "keras_policies._common.lazy_keras."


def imported(source):
    """Return the full names of all that a module imports, within functions too."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports name the whole path"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def modules(folder):
    """Return `[(path below the package, names imported)]` for a folder."""
    return [
        (path.relative_to(PACKAGE).as_posix(), imported(path.read_text("utf8")))
        for path in sorted((PACKAGE / folder).rglob("*.py"))
    ]


def is_module(name):
    """Return whether a dotted name below `keras_policies` is a module or a package."""
    path = PACKAGE.joinpath(*name.split(".")[1:])
    return path.is_dir() or path.with_suffix(".py").is_file()


def forbidden(package, names):
    """Return the imports of a package of legacy/ that break the import rules."""
    found = set()
    for name in names:
        if name.startswith("keras_policies.legacy."):
            target = name.split(".")[2]
            if target not in MAY_IMPORT[package]:
                found.add(name)
        elif package in WITHOUT_KERAS and f"{name}.".startswith(KERAS):
            found.add(name)
    return found


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_a_package_of_legacy_imports_only_what_is_below_it(package):
    found = {
        path: forbidden(package, names) for path, names in modules(f"legacy/{package}")
    }
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize("package", ["values", "ops", "bytecode", "plan"])
def test_a_file_is_described_without_importing_keras(package):
    direct = {
        path: [name for name in names if f"{name}.".startswith("keras.")]
        for path, names in modules(f"legacy/{package}")
    }
    assert {path: names for path, names in direct.items() if names} == {}


def circles(imports):
    """Return the groups of modules that import each other, by Tarjan's algorithm.

    `imports` is `{module: modules that it imports}`.
    """
    found, stack, numbers, lowest = [], [], {}, {}

    def visit(module):
        numbers[module] = lowest[module] = len(numbers)
        stack.append(module)
        for other in imports[module]:
            if other not in numbers:
                visit(other)
            if other in stack:
                lowest[module] = min(lowest[module], lowest[other])
        if lowest[module] == numbers[module]:
            at = stack.index(module)
            found.append({*stack[at:]})
            del stack[at:]

    for module in imports:
        if module not in numbers:
            visit(module)
    return [group for group in found if len(group) > 1]


def test_no_two_modules_import_each_other_not_even_for_types():
    names = dict(modules(""))
    by_name = {
        f"keras_policies.{path}".removesuffix(".py")
        .replace("/", ".")
        .removesuffix(".__init__"): path
        for path in names
    }
    graph = {
        path: {by_name.get(n, by_name.get(n.rpartition(".")[0])) for n in imported}
        & names.keys() - {path}
        for path, imported in names.items()
    }
    assert graph["legacy/base/model.py"] >= {"legacy/base/weights.py"}
    assert circles(graph) == []


@pytest.mark.parametrize(
    ("imports", "expected"),
    [
        pytest.param({"a": "b", "b": "c", "c": ""}, [], id="a-line"),
        pytest.param({"a": "bc", "b": "c", "c": ""}, [], id="two-ways"),
        pytest.param({"a": "b", "b": "a"}, [{"a", "b"}], id="two-modules"),
        pytest.param(
            {"x": "a", "a": "b", "b": "cd", "c": "a", "d": ""},
            [{"a", "b", "c"}],
            id="three-modules",
        ),
    ],
)
def test_a_circle_of_imports_is_found(imports, expected):
    assert circles(imports) == expected


INSPECT = """
import sys
import keras_policies_cli
keras_policies_cli.create_package()  # as the command does, without Keras
from keras_policies.legacy import inspection

inspection.inspect_model(sys.stdin.read())
print(*(name for name in sys.modules if name.startswith("keras_policies.legacy.")))
"""
FOR_LOST_CODE = "assembly", "bytecode", "ops", "plan.reconstruction", "values"


@pytest.mark.parametrize("file", ["model.h5", "saved_model"])
def test_a_model_of_stock_layers_is_inspected_without_the_modules_for_lost_code(file):
    path = legacy_files.FOLDER / "corpus" / "2.4.4" / "func_conv_fixed" / file
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", INSPECT],
        input=str(path),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    names = done.stdout.split()
    loaded = {name.removeprefix("keras_policies.legacy.") for name in names}
    assert {"inspection", "plan.layers"} <= loaded
    assert {name for name in loaded if name.startswith(FOR_LOST_CODE)} == set()


LONGEST = 400  # lines of a module
TO_BE_SPLIT = {"loss_scaling/optimizer.py", "legacy/readers/keras_archive.py"}


def test_no_module_is_longer_than_what_is_read_at_once():
    lines = {
        path.relative_to(PACKAGE).as_posix(): path.read_text("utf8").count("\n")
        for path in PACKAGE.rglob("*.py")
    }
    assert len(lines) > 200
    longer = {path for path, count in lines.items() if count > LONGEST}
    assert longer - TO_BE_SPLIT == set()


def test_every_package_of_legacy_has_import_rules():
    packages = {path.name for path in (PACKAGE / "legacy").iterdir() if path.is_dir()}
    assert packages - {"__pycache__"} == set(MAY_IMPORT)


def test_one_module_imports_the_reader_of_tensorflow_1_and_its_door_alone():
    folder = "legacy/readers/saved_model"
    inside = f"keras_policies.{folder}.tensorflow_1".replace("/", ".")
    users = {
        path: {name for name in names if name.startswith(inside)}
        for path, names in modules("")
        if not path.startswith(f"{folder}/tensorflow_1/")
    }
    assert {path: names for path, names in users.items() if names} == {
        f"{folder}/saved_model.py": {f"{inside}.tensorflow_1"}
    }


def test_legacy_imports_nothing_of_the_package_root():
    for path, names in modules("legacy"):
        ours = {name for name in names if name.partition(".")[0] == "keras_policies"}
        from_root = {
            name for name in ours if name.count(".") < 2 and not is_module(name)
        }
        assert from_root == set(), path


def test_keras_internals_imports_nothing_of_ours():
    for path, names in modules("keras_internals"):
        ours = {name for name in names if name.partition(".")[0] == "keras_policies"}
        own = {name for name in ours if name.startswith("keras_policies.keras_int")}
        assert ours == own, path


def test_source_imports_what_is_common_alone():
    for path, names in modules("source"):
        ours = {name for name in names if name.partition(".")[0] == "keras_policies"}
        own = ("keras_policies.source.", "keras_policies._common.")
        assert {name for name in ours if not name.startswith(own)} == set(), path


@pytest.mark.parametrize(
    ("package", "above"),
    [
        pytest.param("legacy", ("diagnostics", "cli", "source"), id="legacy"),
        pytest.param("diagnostics", ("legacy", "cli", "source"), id="diagnostics"),
        pytest.param("backends", ("legacy", "diagnostics", "cli"), id="backends"),
    ],
)
def test_packages_beside_each_other_do_not_import_one_another(package, above):
    beginnings = tuple(f"keras_policies.{name}" for name in above)
    assert modules(package)
    for path, names in modules(package):
        assert {name for name in names if name.startswith(beginnings)} == set(), path


@pytest.mark.parametrize(
    ("package", "source"),
    [
        pytest.param(
            "readers",
            "from keras_policies.legacy.plan import training",
            id="reader-of-plan",
        ),
        pytest.param(
            "plan",
            "def f():\n    from keras_policies.legacy.assembly.build import build",
            id="plan-of-build-in-a-function",
        ),
        pytest.param("base", "import keras", id="base-of-keras"),
        pytest.param(
            "readers",
            "from keras_policies._common.lazy_keras import keras",
            id="reader-of-late",
        ),
        pytest.param(
            "ops",
            "from keras_policies.legacy import loading",
            id="ops-of-a-public-module",
        ),
    ],
)
def test_an_import_against_the_rules_is_found(package, source):
    assert forbidden(package, imported(source)) != set()


class Calls:
    """Counts the calls between packages, while `sys.setprofile` has its `event`."""

    def __init__(self):
        self.between, self.returns = 0, 0
        self.stack = []  # frames of the project, each with its package

    def event(self, frame, kind, _):
        path = pathlib.Path(frame.f_code.co_filename)
        if kind == "return" and self.stack and self.stack[-1][0] is frame:
            self.stack.pop()
        if kind != "call" or not path.is_relative_to(PACKAGE):
            return
        package = path.relative_to(PACKAGE).parent
        waiting = [of for _, of in self.stack]
        if waiting and waiting[-1] != package:
            self.between += 1
            self.returns += package in waiting
        self.stack.append((frame, package))


@pytest.mark.filterwarnings("ignore:.*classes of these layers")
def test_few_calls_return_to_a_package_that_waits_for_them(tmp_path):
    """Data flows one way. What returns are hooks of Keras, and ends of callbacks."""
    legacy_files.unpacked(tmp_path, lost_files.archives("2.15.1", [""]))
    calls = Calls()
    for name in ("subclassed_blocks", "subclassed_in_functional", "layer_norm_inside"):
        model = lost_files.of(tmp_path, f"2.15.1/{name}").model
        sys.setprofile(calls.event)
        try:
            keras_policies.load_model(model, verify=False)
        finally:
            sys.setprofile(None)
    assert calls.between > 5000
    assert calls.returns < 0.05 * calls.between
