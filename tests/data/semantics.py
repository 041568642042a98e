"""What tf.keras 2.0 and 2.4 really did: a part of the recorded truth.

`data/legacy_semantics.json` was measured by running those releases; see
`data/README.md`.
"""

import json
import pathlib

DATA = pathlib.Path(__file__).parent
SEMANTICS = json.loads((DATA / "legacy_semantics.json").read_text())
