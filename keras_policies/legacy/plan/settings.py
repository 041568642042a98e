"""`Settings`: what a conversion goes by."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from keras_policies.annotations import PolicyLike
from keras_policies.legacy.base.model import Vocabulary
from keras_policies.legacy.base.policies import policy_name
from keras_policies.legacy.plan import policies


@dataclasses.dataclass(frozen=True)
class Settings:
    """What a conversion goes by.

    Args:
        safe_mode: bool, whether code in the file, and files that it names, are refused.
        replace: `(name, policy)`; layers whose policy has this name get that policy.
        vocabularies: `{layer path: Vocabulary}`.
    """

    safe_mode: bool = True
    replace: tuple[str, PolicyLike] | None = None
    vocabularies: Mapping[str, Vocabulary] = dataclasses.field(default_factory=dict)

    def policy_of(self, written: Any) -> PolicyLike | None:
        """Return the policy that a `dtype` as written becomes.

        Raises:
            ValueError: if it is no policy of tf.keras.
        """
        if self.replace is not None and policy_name(written) == self.replace[0]:
            return self.replace[1]
        return policies.plain(written)
