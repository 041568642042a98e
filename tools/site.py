"""Builds the documentation as a site; a warning is an error.

    python tools/site.py [FOLDER]

The default FOLDER is `site`. In the repository, pages are where readers on GitHub look
for them; for mkdocs, they are copied to one folder with the same paths.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).parents[1]
TEXTS = (
    *("*.md", "LICENSE", "docs/**/*.md", "docs/site.css", "notebooks/*.ipynb"),
    *(
        "tests/README.md",
        "tests/data/README.md",
        "tools/README.md",
        "benchmarks/README.md",
        "benchmarks/results.md",
    ),
    *("benchmarks/*.png", "docs/*.png", "docs/*.svg"),
)


# In the search, the page of errors comes before others with the same words.
FIRST = pathlib.Path("docs", "troubleshooting.md")
BOOST = "---\nsearch:\n  boost: 50\n---\n"


def main(target):
    with tempfile.TemporaryDirectory() as source:
        for pattern in TEXTS:
            for path in ROOT.glob(pattern):
                copy = pathlib.Path(source, path.relative_to(ROOT))
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, copy)
        page = pathlib.Path(source, FIRST)
        page.write_text(BOOST + page.read_text("utf8"), "utf8")
        command = ["-m", "mkdocs", "build", "--site-dir", target]
        # Otherwise mkdocs-material prints an announcement to stderr.
        environment = {"SITE_SOURCE": source, "NO_MKDOCS_2_WARNING": "1"}
        subprocess.run(
            [sys.executable, *command],
            cwd=ROOT,
            env=os.environ | environment,
            check=True,
        )
    print(f"the site: {target}")


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "site"))
