"""The documentation as a site, as a browser shows it."""

import functools
import http.server
import importlib.util
import json
import pathlib
import queue
import shutil
import subprocess
import sys
import tempfile
import threading

import pytest

ROOT = pathlib.Path(__file__).parents[2]
BROWSERS = "chromium", "chromium-browser", "google-chrome"
BROWSER = next(filter(None, map(shutil.which, BROWSERS)), None)
WIDTH = 1280
pytestmark = [
    pytest.mark.once("the site is the same", for_all_keras=True),
    pytest.mark.slow("builds the site, with mkdocs of the extra `docs`"),
    pytest.mark.skipif(BROWSER is None, reason=f"none of {BROWSERS} is installed"),
]
# Opens each page in a frame, and posts what the function returns for each.
CHECK = """<!doctype html>
<iframe id="frame" width="WIDTH" height="900"></iframe>
<script>
const pages = PAGES, found = {}, frame = document.getElementById("frame")
const look = LOOK
async function open(page) {
  await new Promise(loaded => { frame.onload = loaded; frame.src = page })
  found[page] = await look(frame.contentDocument)
}
(async () => {
  for (const page of pages) await open(page)
  await fetch("/found", {method: "POST", body: JSON.stringify(found)})
})()
</script>
"""
CUT = """document => [...document.querySelectorAll("pre, pre > code")]
  .filter(block => block.scrollWidth > block.clientWidth)
  .map(block => block.textContent.trim().slice(0, 300))"""
# The first words of rows with more than two lines in a cell.
TALL = """document => [...document.querySelectorAll("article tbody tr")]
  .filter(row => [...row.cells].some(cell => {
    const style = getComputedStyle(cell)
    const padding = parseFloat(style.paddingTop) + parseFloat(style.paddingBottom)
    return cell.clientHeight - padding > 2.6 * parseFloat(style.lineHeight)
  }))
  .map(row => row.innerText.slice(0, 80))"""
# Types each text into the search, and returns the first page and the section below it.
SEARCH = """async document => {
  document.querySelector("[data-md-toggle=search]").click()
  const input = document.querySelector(".md-search__input"), first = {}
  async function results(text, isFound) {
    for (let wait = 0; wait < 100; wait++) {
      input.value = text
      input.dispatchEvent(new Event("keyup"))
      await new Promise(done => setTimeout(done, 50))
      const found = [...document.querySelectorAll(".md-search-result__link")]
      if (isFound == found.length > 0)
        return found.map(link => link.querySelector("h1, h2").textContent)
    }
    return []
  }
  for (const text of TEXTS) {
    await results("", false)
    first[text] = (await results(text, true)).slice(0, 2)
  }
  return first
}"""
# What a newcomer pastes into the search -> the section that it has to find first.
PASTED = {
    "quantization_mode": "'str' object has no attribute 'quantization_mode'",
    "AttributeError: 'str' object has no attribute 'quantization_mode'": (
        "'str' object has no attribute 'quantization_mode'"
    ),
    "KeyError: 'inner_optimizer'": "KeyError: 'inner_optimizer'",
    "ValueError: File format not supported: filepath=model_of_2020. Keras 3 only "
    "supports V3 `.keras` files, legacy H5 format files (`.h5` extension). Note that "
    "the legacy SavedModel format is not supported by `load_model()` in Keras 3. In "
    "order to reload a TensorFlow SavedModel as an inference-only layer in Keras 3, "
    "use `keras.layers.TFSMLayer(model_of_2020, call_endpoint='serving_default')` "
    "(note that your `call_endpoint` might have a different name).": (
        "File format not supported: Keras 3 only supports V3 .keras files, legacy H5 "
        "format files"
    ),
    "ValueError: Layer count mismatch when loading weights from file. Model expected "
    "0 layers, found 2 saved layers.": (
        "Layer count mismatch when loading weights from file"
    ),
    "Unrecognized keyword arguments passed to LSTM: {'time_major': False}": (
        "Unrecognized keyword arguments passed to LSTM: {'time_major': False}"
    ),
    "Exception encountered: Unrecognized keyword arguments: ['batch_shape']": (
        "Unrecognized keyword arguments: ['batch_shape']"
    ),
    "ValueError: Unknown layer: 'Scale'. Please ensure you are using a "
    "`keras.utils.custom_object_scope` and that this object is included in the scope. "
    "See https://www.tensorflow.org/guide/keras/save_and_serialize"
    "#registering_the_custom_object for details.": (
        "Unknown layer: 'Attention2'. Please ensure you are using a "
        "keras.utils.custom_object_scope"
    ),
    "ValueError: Argument(s) not recognized: {'lr': 0.10000000149011612}": (
        "Argument(s) not recognized: {'lr': 0.001}"
    ),
    "loss: nan": "loss: nan",
    "KP301": "Codes",
}


class _Handler(http.server.SimpleHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.posted.put(json.loads(body))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *args):
        pass


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = False  # closing it waits until all connections are closed

    def __init__(self, folder):
        handler = functools.partial(_Handler, directory=folder)
        super().__init__(("localhost", 0), handler)
        self.posted = queue.Queue()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build the site; return its folder and the server of it."""
    assert importlib.util.find_spec("mkdocs"), "install the extra `docs`"
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, ROOT / "tools" / "site.py", folder]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    with _Server(folder) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield folder, server
        server.shutdown()


def seen(site, pages, look):
    """Return what a function of JavaScript returns of each page."""
    folder, server = site
    text = CHECK.replace("WIDTH", str(WIDTH)).replace("LOOK", look)
    (folder / "check.html").write_text(text.replace("PAGES", json.dumps(pages)))
    # Chromium may still write there when it has been told to end.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu"]
        command += ["--remote-debugging-port=0", f"--user-data-dir={profile}"]
        command += [f"http://localhost:{server.server_port}/check.html"]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as browser:
            try:
                return server.posted.get(timeout=1800)
            finally:
                browser.terminate()


def test_no_block_of_code_is_cut_on_the_right(site):
    folder, _ = site
    pages = sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("index.html")
    )
    assert len(pages) > 30
    cut = {page: blocks for page, blocks in seen(site, pages, CUT).items() if blocks}
    assert cut == {}


def test_a_block_that_is_too_wide_is_noticed(site):
    folder, _ = site
    (folder / "wide.html").write_text(f"<pre style='width: 9em'>{'x' * 99}</pre>")
    assert seen(site, ["wide.html"], CUT) == {"wide.html": ["x" * 99]}


def test_no_row_of_a_page_on_legacy_models_is_above_two_lines(site):
    folder, _ = site
    pages = [f"docs/{path.stem}/index.html" for path in ROOT.glob("docs/legacy-*.md")]
    pages += [f"docs/{name}/index.html" for name in ("lost-code", "tensorflow-1")]
    assert all((folder / page).exists() for page in pages)
    tall = {page: rows for page, rows in seen(site, pages, TALL).items() if rows}
    assert tall == {}


def test_the_search_finds_the_remedy_of_a_pasted_error_first(site):
    look = SEARCH.replace("TEXTS", json.dumps([*PASTED]))
    (found,) = seen(site, ["index.html"], look).values()
    assert found == {text: ["Troubleshooting", PASTED[text]] for text in PASTED}
