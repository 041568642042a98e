"""Every attribute of Keras's modules and classes, to see what has replaced some."""

import sys
import types

# Python sets them when a class is first used, or a module imported.
IGNORED = "__builtins__", "_abc_impl", "__doc__"


def every():
    """Return `{(module or class, name): value}` of all modules that are imported."""
    found = {}
    for name, module in list(sys.modules.items()):
        if name != "keras" and not name.startswith("keras."):
            continue
        for key, value in list(vars(module).items()):
            found[name, key] = value
            if isinstance(value, type) and value.__module__.startswith("keras."):
                owner = f"{value.__module__}.{value.__qualname__}"
                found.update({(owner, k): v for k, v in list(vars(value).items())})
    return found


def changed(before):
    """Return the dotted names of attributes that are not those of `before`, sorted.

    Modules and classes that were imported since, and modules in others, do not count.
    """
    owners = {owner for owner, _ in before}
    return sorted(
        f"{owner}.{name}"
        for (owner, name), value in every().items()
        if before.get((owner, name)) is not value
        and owner in owners
        and name not in IGNORED
        and not isinstance(value, types.ModuleType)
    )


def names_in_tables():
    """Return `{dotted name of a dict in a module of Keras: its keys, as names}`."""
    return {
        f"{module}.{name}": {*map(_name, value)}
        for (module, name), value in every().items()
        if isinstance(value, dict) and module in sys.modules and name not in IGNORED
    }


def _name(key):
    is_named = hasattr(key, "__qualname__")
    return f"{key.__module__}.{key.__qualname__}" if is_named else str(key)
