"""Run the notebooks, and compare what they print with what is checked in.

`python tools/notebooks.py` for CI; with `--write` the outputs are kept. Numbers may
differ from machine to machine, and pictures in their pixels: the words may not, nor
whether there is a picture.
"""

import pathlib
import re
import sys
import time

import nbclient
import nbformat

FOLDER = pathlib.Path(__file__).parent.parent / "notebooks"
# What TensorFlow logs when it is imported, which Keras does on every backend.
LOGGED = re.compile(r"(WARNING: All log messages|[IW]\d{4} ).*\n")
# A sign goes with its number, and a decimal point, an exponent and grouping commas.
NUMBER = re.compile(r"-?\d+(?:[.,]\d+)*(?:e[+-]?\d+)?%?")
SPACES = re.compile(r"[ \t]+")


def words(output):
    """Return what is compared of an output: its kind, and its text without numbers."""
    if output["output_type"] == "stream":
        kind, text = output["name"], output["text"]
    elif output["output_type"] == "error":
        kind, text = "error", output["evalue"]
    else:
        data = output["data"]
        kind = "picture" if "image/png" in data else "value"
        text = "" if kind == "picture" else data.get("text/plain", "")
    return kind, SPACES.sub(" ", NUMBER.sub("#", text)).strip()


def printed(cell):
    """Return the words of a cell's outputs; what was printed in parts is one."""
    found = []
    for output in cell.get("outputs", []):
        kind, text = words(output)
        if found and found[-1][0] == kind and output["output_type"] == "stream":
            found[-1] = kind, f"{found[-1][1]}\n{text}"
        else:
            found.append((kind, text))
    return found


def differences(checked_in, run):
    """Yield what is not the same in two notebooks, by cell."""
    for number, (old, new) in enumerate(zip(checked_in.cells, run.cells, strict=True)):
        if printed(old) != printed(new):
            yield f"cell {number}: checked in is\n{printed(old)}\nnow\n{printed(new)}"


def executed(path):
    """Return the notebook, run in its folder; raise if a cell does."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.update(outputs=[], execution_count=None)
    client = nbclient.NotebookClient(
        notebook,
        timeout=600,
        resources={"metadata": {"path": str(path.parent)}},
        record_timing=False,
    )
    client.execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [item for item in cell.outputs if not _is_logged(item)]
    return notebook


def _is_logged(output):
    return output.get("name") == "stderr" and not LOGGED.sub("", output["text"])


def main():
    failed = False
    for path in sorted(FOLDER.glob("*.ipynb")):
        start, checked_in = time.monotonic(), nbformat.read(path, as_version=4)
        run = executed(path)
        print(f"{path.name} ran in {time.monotonic() - start:.0f} s")
        if "--write" in sys.argv:
            nbformat.write(run, path)
            continue
        for difference in differences(checked_in, run):
            failed = True
            print(difference)
    sys.exit(failed)


if __name__ == "__main__":
    main()
