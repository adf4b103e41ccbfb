"""The old name of two functions of `layers`, until their importers have moved."""

from chapter18._shared.layers import derived_state as read
from chapter18._shared.layers import put_derived_back as put_back

__all__ = ["put_back", "read"]
