"""Run the notebooks and compare their outputs with those that are checked in.

`python tools/notebooks.py` compares; with `--write` it keeps the new outputs. Numbers
and the pixels of pictures may differ between machines. Words must be equal, and no
picture may be missing.
"""

import pathlib
import re
import sys
import time

import nbclient
import nbformat

FOLDER = pathlib.Path(__file__).parent.parent / "notebooks"
# TensorFlow's log on import. Keras imports TensorFlow on every backend.
LOGGED = re.compile(r"(WARNING: All log messages|[IW]\d{4} ).*\n")
# With sign, decimal point, grouping commas and exponent.
NUMBER = re.compile(r"-?\d+(?:[.,]\d+)*(?:e[+-]?\d+)?%?")
SPACES = re.compile(r"[ \t]+")


def words(output):
    """Return what is compared of an output: its kind and its text without numbers."""
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
    """Return the words of a cell's outputs; parts of one stream are joined."""
    found = []
    for output in cell.get("outputs", []):
        kind, text = words(output)
        if found and found[-1][0] == kind and output["output_type"] == "stream":
            found[-1] = kind, f"{found[-1][1]}\n{text}"
        else:
            found.append((kind, text))
    return found


def differences(checked_in, run):
    """Yield the differences between two notebooks, by cell."""
    for number, (old, new) in enumerate(zip(checked_in.cells, run.cells, strict=True)):
        if printed(old) != printed(new):
            yield f"cell {number}: checked in is\n{printed(old)}\nnow\n{printed(new)}"


def executed(path):
    """Run a notebook in its folder and return it; raise if a cell raises."""
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
