import importlib
import inspect
import json
import os
import pathlib
import re
import subprocess
import sys

import keras
import pytest

import keras_policies

PACKAGE = pathlib.Path(keras_policies.__file__).parent
DATA = pathlib.Path(__file__).parents[1] / "data"


def test_the_version_is_three_numbers():
    assert re.fullmatch(r"\d+\.\d+\.\d+", keras_policies.__version__)


@pytest.mark.once("texts")
def test_the_packages_that_errors_advise_are_those_of_the_extras():
    texts = [path.read_text("utf8") for path in PACKAGE.rglob("*.py")]
    advised = {
        each for text in texts for each in re.findall(r"pip install (\w+)", text)
    }
    assert advised == {
        *("fsspec", "huggingface_hub", "matplotlib", "pyyaml", "tensorflow")
    }
    extras = (PACKAGE.parent / "pyproject.toml").read_text("utf8")
    assert [name for name in advised if f'"{name}' not in extras] == []


@pytest.mark.once("a process of its own")
def test_dir_lists_the_public_names_and_no_others():
    code = "import keras_policies; print(dir(keras_policies))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert eval(done.stdout) == sorted(keras_policies.__all__)
    assert dir(keras_policies) == sorted(keras_policies.__all__)


@pytest.mark.parametrize(
    "line",
    [
        "import keras_policies.experimental as mp",
        "from keras_policies import experimental as mp",
        "import keras_policies as mixed_precision; mp = mixed_precision.experimental",
    ],
)
def test_a_script_of_tf_keras_needs_another_import_alone(line):
    names = {}
    exec(line, names)
    mp = names["mp"]
    policy = mp.Policy("mixed_float16", loss_scale=mp.FixedLossScale(64))
    mp.set_policy(policy)
    assert mp.global_policy() is policy
    assert mp.get_layer_policy(keras.layers.Dense(1)) is policy
    assert mp.LossScaleOptimizer(keras.optimizers.SGD(), "dynamic").dynamic
    assert issubclass(mp.DynamicLossScale, mp.LossScale)
    mp.set_global_policy("float32")
    assert mp.global_policy().name == "float32"


def test_experimental_has_every_old_name_but_those_of_tensorflow_1():
    old = json.loads((DATA / "legacy_names.json").read_text("utf8"))
    names = {
        name
        for module in ("keras.mixed_precision", "mixed_precision")
        for name in old[f"tf.{module}.experimental"]
        if "." not in name
    }
    assert names | {"set_global_policy"} == set(keras_policies.experimental.__all__)


def test_public_names_are_typed():
    untyped = []
    for name in set(keras_policies.__all__) - {"__version__"}:
        public = getattr(keras_policies, name)
        own = vars(public).items() if inspect.isclass(public) else [(name, public)]
        for method, value in own:
            if method.startswith("_") and method not in ("__init__", "__post_init__"):
                continue
            value = getattr(value, "fget", None) or getattr(value, "__func__", value)
            if not inspect.isfunction(value):
                continue
            signature = inspect.signature(value)
            first = list(signature.parameters)[: inspect.isclass(public)]
            missing = [
                item.name
                for item in signature.parameters.values()
                if item.annotation is item.empty and item.name not in first
            ]
            if missing or signature.return_annotation is signature.empty:
                untyped.append(f"{name}.{method}{missing}")
    assert untyped == []


def test_no_module_has_the_name_of_a_public_function():
    for name in keras_policies.__all__:
        if inspect.isfunction(getattr(keras_policies, name)):
            spec = importlib.util.find_spec(f"keras_policies.{name}")
            assert spec is None


def test_every_public_name_is_given_to_the_type_checker():
    used = (pathlib.Path(__file__).parent / "typed_use.py").read_text("utf8")
    for name in keras_policies.__all__:
        assert f"mp.{name}" in used, name


def test_importing_twice_changes_nothing():
    patched = keras.Layer.__call__, keras.Model.compile
    stock = [s._keras_policies_stock for s in patched]
    importlib.reload(keras_policies)
    again = keras.Layer.__call__, keras.Model.compile
    assert [s._keras_policies_stock for s in again] == stock
    assert not hasattr(stock[0], "_keras_policies_stock")
    assert keras.layers.Dense(2, dtype=keras_policies.Policy("infer"))(
        keras.ops.ones((1, 2), dtype="float16")
    ).shape == (1, 2)


@pytest.mark.slow("Keras on numpy needs jax")
@pytest.mark.once("a process of its own")
def test_works_on_the_numpy_backend():
    code = (
        "import keras, keras_policies as mp, numpy as np\n"
        "layer = keras.layers.Dense(2, dtype=mp.Policy('infer'))\n"
        "print(layer(np.ones((1, 2), 'float16')).dtype, layer.dtype_policy.name)"
    )
    env = {**os.environ, "KERAS_BACKEND": "numpy"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["float16", "float16"]


def test_import_loads_no_backend_of_its_own_choice():
    code = (
        "import sys, keras; before = set(sys.modules)\n"
        "import keras_policies; new = set(sys.modules) - before\n"
        "print(sorted({n.split('.')[0] for n in new}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    new = set(eval(done.stdout.splitlines()[-1]))
    assert new <= {"keras", "keras_policies", "numpy"}


def test_a_backend_that_is_not_installed_is_named_with_what_to_do():
    code = """
import sys
class NotInstalled:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] == sys.argv[1]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=sys.argv[1])
sys.meta_path.insert(0, NotInstalled)
import keras_policies
"""
    backend = keras.backend.backend()
    done = subprocess.run(
        [sys.executable, "-c", code, backend], capture_output=True, text=True
    )
    last = done.stderr.splitlines()[-1]
    expected = f"ModuleNotFoundError: Keras is set to the backend {backend!r}, which"
    assert last.startswith(expected)
    assert last.endswith("before Python starts: export KERAS_BACKEND=jax")
    assert "another exception" not in done.stderr


@pytest.mark.slow("a process that imports Keras and matplotlib")
@pytest.mark.once("a process of its own")
def test_the_benchmarks_start():
    """From the root, as README runs them: `.ci/run` does so after all tests."""
    root = PACKAGE.parent
    names = [f"benchmarks.{path.stem}" for path in (root / "benchmarks").glob("*.py")]
    code = f"import importlib\nfor name in {names}: importlib.import_module(name)"
    subprocess.run([sys.executable, "-c", code], cwd=root, check=True)
