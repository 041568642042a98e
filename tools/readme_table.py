"""Write a table between its marks in a README."""


def write(readme, command, lines):
    """Replace the table of a command.

    Args:
        readme: `pathlib.Path` of a text with the marks `<!-- table: COMMAND -->` and
            `<!-- end of table -->`.
        command: str, the command that writes the table, as in the mark.
        lines: list of str, the new table.
    """
    start, end = f"<!-- table: {command} -->\n", "<!-- end of table -->\n"
    before, _, rest = readme.read_text().partition(start)
    _, _, after = rest.partition(end)
    readme.write_text(before + start + "\n".join(lines) + "\n" + end + after)
