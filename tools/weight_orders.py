"""Opens the random models of `write_orders.py`, and counts those with correct weights.

    KERAS_BACKEND=torch python tools/weight_orders.py FOLDER [--part 0/2]

tests/data/legacy/write_orders.py writes FOLDER, under several releases of TensorFlow.
For each release and form, this prints how many files have each weight in its original
place, and how many are refused because they do not record which parts were frozen.
Refused files that tf.keras itself can reopen are counted separately. It names each file
that is wrong or cannot be built. The exit status is 1 if a file is wrong.
"""

import argparse
import collections
import json
import pathlib
import sys
import warnings

import _helpers  # noqa: F401 - finds them
import written_orders

FORMS = "model.h5", "weights.h5", "checkpoint", "model.keras", "saved_model"


def outcome(path, about):
    """Return what became of a file, in a word, and what is to be said about it."""
    reopened, count = about["tf.keras"]
    try:
        model = written_orders.opened(path, about["spec"])
    except Exception as error:  # whatever Keras raises
        by_tensorflow = "" if reopened == count else " (nor does tf.keras)"
        return f"not built{by_tensorflow}", f"{type(error).__name__}: {error}"[:300]
    if model is None:
        by_tensorflow = "right" if reopened == count else "wrong"
        return f"refused (tf.keras: {by_tensorflow})", ""
    found = written_orders.wrong(model, path.parent)
    return ("wrong", ", ".join(found)) if found else ("right", "")


def main(folder, part):
    number, parts = map(int, part.split("/"))
    totals = collections.defaultdict(collections.Counter)
    for case in sorted(pathlib.Path(folder).glob("*/*/spec.json"))[number::parts]:
        about = json.loads(case.read_text())
        for form in FORMS:
            path = case.parent / form
            is_there = path.exists() or path.with_suffix(".index").exists()
            if not is_there or not written_orders.is_open(form, about["spec"]):
                continue
            result, text = outcome(path, about)
            totals[case.parents[1].name, form][result] += 1
            if text:
                print(path, result, text, flush=True)
    for (release, form), counts in sorted(totals.items()):
        listed = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
        print(f"{release} {form}: {listed}")
    return any(counts["wrong"] for counts in totals.values())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--part", default="0/1")
    warnings.simplefilter("ignore")
    sys.exit(main(**vars(parser.parse_args())))
