"""Lets the site show docstring sections called `Example` as code, not as quotes."""

import textwrap

import griffe

SECTION = "\nExample:\n"


class Examples(griffe.Extension):
    """Renames and indents the sections, as griffe asks of examples."""

    def on_object(self, *, obj, **kwargs):
        if obj.docstring and SECTION in obj.docstring.value:
            text, _, example = obj.docstring.value.partition(SECTION)
            code = textwrap.indent(textwrap.dedent(example), "    ")
            obj.docstring.value = f"{text}\nExamples:\n{code}"
