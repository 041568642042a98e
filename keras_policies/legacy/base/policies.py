"""Policies as a legacy config writes them."""


def policy_name(dtype):
    """Return the policy's name as written, or None where none is recorded.

    Args:
        dtype: str, dict or None, the `dtype` of a legacy config.
    """
    if isinstance(dtype, dict):
        return (dtype.get("config") or {}).get("name")
    return dtype if isinstance(dtype, str) else None
