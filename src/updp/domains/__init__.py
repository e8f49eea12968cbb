"""Domains: what is particular to one kind of image, one folder or file each.

A domain is added by one file that makes a ``base.Domain`` and one line below, or by an entry point of another package
in the group ``updp.domains``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from updp.core.registry import Registry

if TYPE_CHECKING:
    from updp.core.policy import Policy
    from updp.domains.base import Domain

#: The domain of a source that names none.
DEFAULT = "chest"

#: The domains; other packages add theirs in the group ``updp.domains``.
DOMAINS: Registry[Domain] = Registry(
    "domain", "updp.domains", {"chest": "updp.domains.chest:CHEST", "face": "updp.domains.face:FACE"}
)


def domain_of(policy: Policy) -> Domain:
    """The domain of a release with this policy."""
    return DOMAINS[policy.source.domain or DEFAULT]
