"""Model packs and the five roles they fill: `autoencoder`, `vlm`, `generator`, `identity`, `classifier`.

Nothing here imports torch before a role is first used.
"""

from __future__ import annotations

from updp.models.errors import PackError
from updp.models.pack import ROLES, Pack, list_packs, load_pack

__all__ = ["ROLES", "Pack", "PackError", "list_packs", "load_pack"]
