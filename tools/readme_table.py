"""Writes a table between its marks in a README."""


def write(readme, command, lines):
    """Put lines where the table of a command stands.

    Args:
        readme: `pathlib.Path` of a text with the marks `<!-- table: COMMAND -->` and
            `<!-- end of table -->`.
        command: str, which writes the table, as in the mark.
        lines: list of str.
    """
    start, end = f"<!-- table: {command} -->\n", "<!-- end of table -->\n"
    before, _, rest = readme.read_text().partition(start)
    _, _, after = rest.partition(end)
    readme.write_text(before + start + "\n".join(lines) + "\n" + end + after)
