import doctest
import functools
import importlib
import json
import os
import pathlib
import pkgutil
import re
import shutil
import subprocess
import sys
import tarfile
import xml.etree.ElementTree

import keras
import legacy_files
import numpy as np
import pytest

import keras_policies
from keras_policies import backends
from keras_policies.cli import main as cli
from keras_policies.legacy.guards import limits

ROOT = pathlib.Path(__file__).parents[2]
# The pages whose examples run.
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]
PLACES = "*.md", "docs/**/*.md", "tests/**/*.md", "benchmarks/*.md", "tools/*.md"
TEXTS = [text for place in PLACES for text in sorted(ROOT.glob(place))]
FOLDERS = "keras_policies", "tests", "tools", "benchmarks"
SOURCES = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
# A backend is imported where it runs; running `__main__` is running the command.
NOT_IMPORTED = "keras_policies.backends", "keras_policies.__main__"
MODULES = [
    module.name
    for module in pkgutil.walk_packages(keras_policies.__path__, "keras_policies.")
    if not module.name.startswith(NOT_IMPORTED)
]
NAMES = {**vars(keras_policies), "keras": keras, "ops": keras.ops, "np": np}


def examples(page):
    """Return the Python examples of a page."""
    return re.findall(r"```python\n(.*?)```", page.read_text("utf8"), re.DOTALL)


def links(text):
    """Yield `(link, target)` of the links to other files of the repository."""
    for link, target in re.findall(
        r"(\[[^\]]*\]\(([^)\s]*)\))", text.read_text("utf8")
    ):
        if not target.startswith("https://"):
            yield link, target


def anchors(path):
    """Return the anchors of a text's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)", path.read_text("utf8"), re.MULTILINE)
    words = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in words}


@functools.cache
def texts():
    """Return the content of a `.keras` file whose model classifies texts."""
    with tarfile.open(legacy_files.FOLDER / "texts.tar.xz") as archive:
        return archive.extractfile("texts/2.15.1/sentiment/model.keras").read()


@pytest.fixture
def old_files(tmp_path, monkeypatch):
    """Be where the docstrings' legacy files are."""
    source = legacy_files.CORPUS / "2.4.4" / "func_conv_fixed"
    shutil.copytree(source / "saved_model", tmp_path / "model_of_2020")
    for name in "model_of_2020.h5", "weights_of_2020.h5":
        shutil.copy(source / "model.h5", tmp_path / name)
    (tmp_path / "texts_of_2023.keras").write_bytes(texts())
    monkeypatch.chdir(tmp_path)
    return {"x": np.zeros((4, 12, 12, 3), "float32")}


@pytest.mark.filterwarnings("ignore:Explicitly requested dtype int64")  # jax
@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples_run(name, old_files):
    module = importlib.import_module(name)
    public = {name: getattr(keras_policies, name) for name in keras_policies.__all__}
    globs = {**NAMES, **public, **vars(module), **old_files}
    results = doctest.testmod(module, globs=globs, optionflags=doctest.ELLIPSIS)
    assert results.failed == 0


def test_public_names_are_documented():
    for name in set(keras_policies.__all__) - {"__version__"}:
        doc = getattr(keras_policies, name).__doc__
        assert doc, name
        assert "Example:" in doc, name


@pytest.mark.filterwarnings("ignore:Explicitly requested dtype int64")  # jax
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_of_a_page_run(page, old_files, capsys):
    own = "# KERAS_BACKEND=" + keras.backend.backend()
    for example in examples(page):
        if example.startswith("# KERAS_BACKEND=") and not example.startswith(own):
            continue
        keras.config.set_dtype_policy("float32")
        exec(compile(example, page.name, "exec"), {})


@pytest.mark.slow("a process of its own: Keras has to be there before the package")
def test_the_first_screen_of_the_readme_is_what_a_shell_prints(old_files, tmp_path):
    text = (ROOT / "README.md").read_text("utf8")
    (example,) = re.findall(r"```pycon\n(.*?)```", text, re.DOTALL)
    (tmp_path / "example.txt").write_text(example, "utf8")
    done = subprocess.run(
        [sys.executable, "-m", "doctest", "example.txt"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    saved = keras.models.load_model("model.keras")
    assert saved.get_layer("conv_a").dtype_policy.name == "mixed_float16"


# A file for each error of stock Keras that has a section of its own, in their order.
RAISING = (
    "corpus/2.4.4/func_conv_fixed/model.h5",
    "corpus/2.0.0/float32_loss_scale/model.h5",
    "corpus/2.4.4/func_conv_fixed/saved_model",
    "lookups.tar.xz/2.15.1/StringLookup-tf_idf/model.h5",
    "corpus/1.15.5/rnn_dynamic/model.h5",
    "keras_2.tar.xz/2.2.4/plain_sgd.h5",
    "corpus/2.0.0/func_multi_io/model.h5",
    "more.tar.xz/2.0.0/losses_by_name/model.h5",
    "more.tar.xz/2.15.1/attention/model.keras",
    "corpus/2.0.0/seq_dense/model.h5",
    "lambdas.tar.xz/2.7-keras-2.0.6/wrapped/model.h5",
    "forms.tar.xz/2.15.1/dense_and_an_input/model.h5",
    "reports.tar.xz/2.15.1/inception_resnet/model.h5",
    "inner/2.4.4/functional/model.h5",
)
OF_KERAS_2 = "Unrecognized keyword arguments: ['batch_shape']"
STOCK = """
import sys, json, keras
def raised(path):
    try:
        keras.models.load_model(path)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
print(json.dumps([*map(raised, sys.argv[1:])]))
"""


@pytest.mark.once("the words of Keras 3.15")
@pytest.mark.slow("a process of its own, without the package")
def test_errors_that_are_headings_are_those_of_stock_keras(tmp_path):
    def place(name):
        archive, is_packed, member = name.partition(".tar.xz/")
        if not is_packed:
            return str(legacy_files.FOLDER / name)
        with tarfile.open(legacy_files.FOLDER / f"{archive}.tar.xz") as packed:
            packed.extract(member, tmp_path / archive, **legacy_files.AS_DATA)
        return str(tmp_path / archive / member)

    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", STOCK, *map(place, RAISING)],
        capture_output=True,
        text=True,
    )
    errors = json.loads(done.stdout.splitlines()[-1])
    page = (ROOT / "docs" / "troubleshooting.md").read_text("utf8")
    section = page.partition("## Plain Keras")[2].partition("### Other errors")[0]
    headings = re.findall(r"^### (.*)", section, re.MULTILINE)
    headings.remove(OF_KERAS_2)

    def words(text):
        return {*re.findall(r"\w+", text)} - {"Attention2", "001", "0"}

    pairs = zip(headings, errors, strict=True)
    assert [pair for pair in pairs if words(pair[0]) - words(pair[1])] == []


def test_the_page_has_a_loop_for_each_backend():
    page = ROOT / "docs" / "training-loops.md"
    first_lines = [text.split("\n")[0] for text in examples(page)]
    loops = sorted(line for line in first_lines if line.startswith("# KERAS_BACKEND="))
    assert loops == [f"# KERAS_BACKEND={backend}" for backend in backends.NAMES]


def test_readme_leads_to_every_page():
    linked = {target for _, target in links(ROOT / "README.md")}
    pages = [path.relative_to(ROOT) for path in PAGES[1:]]
    assert pages
    assert linked >= {path.as_posix() for path in pages}


@pytest.mark.parametrize(
    "text", TEXTS, ids=lambda text: f"{text.parent.name}-{text.name}"
)
def test_links_lead_to_a_file_and_a_heading(text):
    for link, target in links(text):
        name, _, anchor = target.partition("#")
        path = text.parent / name if name else text
        assert path.exists(), link
        assert not anchor or anchor in anchors(path), link


@pytest.mark.parametrize(
    "text", TEXTS, ids=lambda text: f"{text.parent.name}-{text.name}"
)
def test_python_files_named_in_a_text_exist(text):
    for name in set(re.findall(r"[\w/]+\.py\b", text.read_text("utf8"))):
        assert any(path.as_posix().endswith(f"/{name}") for path in SOURCES), name


@pytest.mark.parametrize("command", ["inspect", "convert", "verify", "code", "diff"])
def test_the_command_line_page_has_every_option(command, capsys):
    with pytest.raises(SystemExit, match="0"):
        cli.main([command, "--help"])
    options = set(re.findall(r"--[a-z-]+", capsys.readouterr().out)) - {"--help"}
    page = (ROOT / "docs" / "command-line.md").read_text("utf8")
    shared, own = (
        page.split(f"## {title}\n")[1].split("\n## ")[0]
        for title in ("Options of several commands", command)
    )
    rows = re.findall(r"^\| `(--[a-z-]+).*? \| ([\w, ]+) \|", shared, re.MULTILINE)
    found = {name for name, commands in rows if command in commands.split(", ")}
    found.update(re.findall(r"^\| `(--[a-z-]+)", own, re.MULTILINE))
    assert found == options


def test_the_compatibility_page_names_the_classes_that_do_not_all_open():
    text = (ROOT / "docs" / "tested-files.md").read_text("utf8")
    table = text.split("<!-- table: python tools/layer_results.py -->")[1]
    counts = re.findall(r"^\| (\w+) \|(.* \d+/\d+.*)\|$", table, re.MULTILINE)
    gaps = {
        name
        for name, cells in counts
        if any(good != of for good, of in re.findall(r"(\d+)/(\d+)", cells))
    }
    page = (ROOT / "docs" / "compatibility.md").read_text("utf8")
    rows = re.findall(r"^\| ([\w, ]+) \|", page.split("| class |")[1], re.MULTILINE)
    assert {name for row in rows for name in row.split(", ")} == gaps


def test_the_reference_has_every_public_name():
    pages = [path.read_text("utf8") for path in ROOT.glob("docs/api/*.md")]
    lines = "\n".join(pages)
    shown = re.findall(r"^::: keras_policies\.([\w.]+)$", lines, re.MULTILINE)
    names = {*keras_policies.__all__} - {"__version__", "set_global_policy"}
    assert sorted(name.rpartition(".")[2] for name in shown) == sorted(names)


def test_the_overview_of_the_reference_has_every_public_name_and_page():
    page = (ROOT / "docs" / "api.md").read_text("utf8")
    results = {"Converted", "LayerDescription", "LeftOut", "ModelDescription"}
    results |= {"Outcome", "OutcomeWarning"}
    names = {*keras_policies.__all__} - {"__version__", "TextInputs"} - results
    assert names <= {*re.findall(r"`(\w+)`", page)}
    linked = {target for _, target in links(ROOT / "docs" / "api.md")}
    assert {f"api/{path.name}" for path in ROOT.glob("docs/api/*.md")} <= linked


def test_the_limits_on_the_security_page_are_those_of_the_code():
    page = (ROOT / "docs" / "security.md").read_text("utf8")
    mib, million = limits.MIB, 1_000_000
    rows = (
        f"| {limits.MEMORY_PER_BYTE} times the size of the file, and "
        f"{limits.SMALL_MEMORY_BYTES // mib} MiB, added up |",
        f"| {limits.WORK_PER_BYTE} for each byte of the file, and "
        f"{limits.SMALL_WORK / million} million, added up |",
        f"| axes of a tensor | {limits.RANK} |",
        f"| {limits.LAYER_CALLS:,}, and {limits.CALL_INPUTS:,} tensors in one call; "
        f"{limits.LAYER_RUNS:,} runs of layers in models that call each other |",
        f"| YAML | {limits.YAML_BYTES // mib} MiB, {limits.YAML_SIGNS[':']:,} keys, "
        f"{limits.YAML_SIGNS['&']:,} anchors, {limits.YAML_DEPTH} levels |",
        f"a download ends at {limits.ARCHIVE_BYTES // limits.GIB} GiB",
        f"if it is slower than {limits.DOWNLOAD_RATE // limits.KIB} KiB a second",
        f"| {limits.EXPANSION} times its packed size, and "
        f"{limits.SMALL_FILE_BYTES // mib} MiB |",
        f"| {limits.ARCHIVE_ENTRIES:,}, with paths of {limits.ARCHIVE_NAME_BYTES:,} "
        f"bytes and {limits.ARCHIVE_DEPTH} levels, "
        f"{limits.ARCHIVE_BYTES // limits.GIB} GiB in all",
        f"| JSON | {limits.JSON_BYTES // mib} MiB, "
        f"{limits.JSON_VALUES // million} million values |",
        f"| vocabularies | {limits.VOCABULARY_BYTES // mib} MiB, "
        f"{limits.VOCABULARY_TOKENS // million} million tokens |",
        f"| {limits.INDEX_BYTES // mib} MiB, {limits.INDEX_ENTRIES:,} entries, with",
        f"| protocol buffers | {limits.MESSAGES // million} million messages |",
    )
    assert [row for row in rows if row not in page] == []


COMMENT = re.compile(r"<!--(.*?)-->", re.DOTALL)
# Written by programs, which say so above what they write; a history grows.
GENERATED = "<!-- table: python "
# Rows that tests compare with `codes.CODES`, and with `keras_internals.TABLE`.
COPIED = re.compile(r'^\| (<a id="kp\d+"|`keras\.).*\n', re.MULTILINE)
NOT_READ_THROUGH = "results.md", "tested-files.md", "CHANGELOG.md"
READ = [text for text in TEXTS if text.name not in NOT_READ_THROUGH]
# To look things up in, and not to read.
REFERENCES = "troubleshooting.md", "porting-reference.md", "command-line.md"
PROMISING = re.compile(r"\b(no|never|nothing|every|all|always|only)\b", re.IGNORECASE)
PROMISES = [
    ("README.md", "## How far you can rely on it"),
    *[
        (f"docs/{name}.md", "# ")
        for name in ("how-it-works", "lost-code", "checked", "security")
    ],
]


def words_of(text):
    """Return the words that a reader sees, code among them."""
    return [word for word in COMMENT.sub("", text).split() if re.search(r"\w", word)]


def by_hand(path):
    """Return the text of a page without what a program writes."""
    return path.read_text("utf8").partition(GENERATED)[0]


def written(path):
    """Return the text of a page without what comes from a program or a table of it."""
    return COPIED.sub("", by_hand(path))


def units(text):
    """Return the sentences and the rows of tables of a text, without code."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    text = COMMENT.sub(lambda found: f"<!--{found[1].strip()}-->", text)
    found = []
    for block in re.split(r"\n\n|\n(?=\||- |\d+\. )", text):
        is_whole = block.lstrip().startswith(("|", "#", "!"))
        found += [block] if is_whole else re.split(r"(?<=[.:;])\s+", block)
    return [unit for unit in found if not unit.lstrip().startswith(("#", "!"))]


def test_the_pages_have_at_most_25000_words_together():
    assert sum(len(words_of(by_hand(text))) for text in READ) <= 25_000


@pytest.mark.parametrize(
    "text", READ, ids=lambda text: f"{text.parent.name}-{text.name}"
)
def test_a_page_is_read_in_minutes_and_a_cell_at_a_glance(text):
    content = written(text)
    if text.name not in REFERENCES:
        assert len(words_of(content)) <= 1500
    rows = re.findall(r"^\|.*\|$", content, re.MULTILINE)
    cells = [cell for row in rows for cell in row.split(" | ")]
    assert [cell for cell in cells if len(words_of(cell)) > 40] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_begins_with_who_needs_it(page):
    first = page.read_text("utf8").split("\n\n")[1]
    assert re.match(r"You \w+", first), first


@pytest.mark.parametrize(("name", "heading"), PROMISES, ids=[n for n, _ in PROMISES])
def test_a_promise_stands_beside_its_test(name, heading):
    section = (ROOT / name).read_text("utf8").partition(heading)[2]
    promises = [
        unit for unit in units(section) if PROMISING.search(COMMENT.sub("", unit))
    ]
    assert section
    assert [unit for unit in promises if "<!--tests/" not in unit] == []


def test_a_promise_without_a_test_is_noticed():
    text = "It runs. It never\nfails.\n\n```\nno code\n```\n\n- All of it\n- some"
    found = [unit for unit in units(text) if PROMISING.search(unit)]
    assert found == ["It never\nfails.", "- All of it"]


@pytest.mark.parametrize(
    "text", TEXTS, ids=lambda text: f"{text.parent.name}-{text.name}"
)
def test_a_comment_does_not_end_its_paragraph(text):
    """As Markdown has it: a comment at the start of a line is a block of its own."""
    assert re.findall(r"^ *<!-- tests/.*", text.read_text("utf8"), re.MULTILINE) == []


def test_the_tests_that_pages_name_are_there():
    named = {
        pair
        for text in TEXTS
        for comment in COMMENT.findall(text.read_text("utf8"))
        for pair in re.findall(r"(tests/\S+\.py)::(test_\w+)", comment)
    }
    assert len(named) >= 30
    for path, name in named:
        assert f"def {name}(" in (ROOT / path).read_text("utf8"), name


def test_a_picture_has_a_light_and_a_dark_form_and_loads_nothing():
    pictures = sorted(ROOT.glob("docs/*.svg"))
    assert len(pictures) == 3
    for picture in pictures:
        text = picture.read_text("utf8")
        xml.etree.ElementTree.fromstring(text)
        assert "prefers-color-scheme: dark" in text
        assert {*re.findall(r"https?://[^\"]+", text)} == {"http://www.w3.org/2000/svg"}


def test_every_limit_on_the_page_of_limits_is_used_and_no_other_page_has_one():
    legacy = pathlib.Path(limits.__file__).parents[1]
    sources = [path.read_text("utf8") for path in legacy.rglob("*.py")]
    names = {name for name in vars(limits) if name.isupper()} - {"KIB", "MIB", "GIB"}
    used = {
        name for text in sources for name in re.findall(r"limits\.([A-Z0-9_]+)", text)
    }
    assert names - used == set(), "nothing uses limits.NAME of these"
    assert used - names <= {"GIB", "MIB"}
    elsewhere = [n for text in sources for n in re.findall(r"^MAX_\w+ =", text, re.M)]
    assert elsewhere == [], "enter them in legacy/guards/limits.py"


def test_the_workflow_runs_the_second_command_of_readme_on_each_system():
    text = (ROOT / "README.md").read_text("utf8")
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text("utf8")
    for start, system in ("python3 -m venv", "!="), ("python -m venv", "=="):
        _, second = [line for line in text.split("\n") if line.startswith(start)]
        step = f"- if: runner.os {system} 'Windows'\n"
        assert second in workflow.partition(step)[2].partition("- if:")[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_are_quoted_as_cmd_exe_understands(page):
    blocks = re.findall(r"```sh\n(.*?)```", page.read_text("utf8"), re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    lines = [line for line in lines if "xargs" not in line]  # which Windows lacks
    assert not [line for line in lines if line.count("'") > line.count('"')]
