"""Policies as a legacy config writes them."""

from typing import Any


def policy_name(dtype: Any) -> str | None:
    """Return a policy's name from the `dtype` of a legacy config, None without one."""
    if isinstance(dtype, dict):
        name: str | None = (dtype.get("config") or {}).get("name")
        return name
    return dtype if isinstance(dtype, str) else None
