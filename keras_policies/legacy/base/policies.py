"""Policies as a legacy config writes them."""

from typing import Any


def policy_name(dtype: Any) -> str | None:
    """Return a policy's name as written, or None where none is recorded.

    Args:
        dtype: str, dict or None, the `dtype` of a legacy config.
    """
    if isinstance(dtype, dict):
        name: str | None = (dtype.get("config") or {}).get("name")
        return name
    return dtype if isinstance(dtype, str) else None
