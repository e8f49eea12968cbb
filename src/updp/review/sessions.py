"""Who may see what: one-time tokens, signed cookies, a code against forged forms.

A token opens one session and is gone. The cookie says who it is and until when, under an HMAC of the hospital's key, so
that a session outlives a restart of the server. Behind a reverse proxy the name of the user comes from the one header
that the configuration names; no other forwarded header is read.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Literal

from updp.core.keys import Key

Role = Literal["officer", "reader"]
COOKIE = "updp-review"
#: A working day: whoever comes back tomorrow asks for a new token.
LIFETIME = 12 * 3600


class BadToken(ValueError):
    """The token is wrong or was used before."""


class BadProxy(ValueError):
    """The configuration of the reverse proxy cannot be used."""


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody with a session."""

    role: Role
    name: str
    session: str = ""


@dataclass(frozen=True)
class Proxy:
    """A reverse proxy that has checked who a user is."""

    header: str
    host: str
    officers: frozenset[str] = frozenset()
    readers: Mapping[str, str] = field(default_factory=dict)  # user of the proxy -> reader of the plan

    @classmethod
    def load(cls, path: Path) -> Proxy:
        """Read ``header``, ``host``, ``officers`` and ``[readers]`` from a TOML file."""
        try:
            data = tomllib.loads(path.read_text("utf-8"))
            made = cls(
                str(data["header"]),
                str(data["host"]),
                frozenset(map(str, data.get("officers", ()))),
                {str(user): str(name) for user, name in data.get("readers", {}).items()},
            )
        except OSError:
            raise BadProxy(f"{path}: no such file, or it cannot be read") from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise BadProxy(f"{path}: header, host, officers and [readers] say who a user of the proxy is") from None
        if not made.header.replace("-", "").isalnum():
            raise BadProxy(f"{path}: header is the name of an HTTP header")
        return made

    def person(self, user: str | None) -> Person | None:
        if user is None:
            return None
        if user in self.officers:
            return Person("officer", user, f"proxy {user}")
        if user in self.readers:
            return Person("reader", self.readers[user], f"proxy {user}")
        return None


class Guard:
    """Tokens and sessions of one server."""

    def __init__(
        self, key: Key, place: str, proxy: Proxy | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self._secret = key.digest("review-session", place)
        self._tokens: dict[bytes, Person] = {}
        self._ended: set[str] = set()
        self._lock = Lock()
        self.proxy, self._clock = proxy, clock

    def token(self, role: Role, name: str) -> str:
        """A new token for one person."""
        token = secrets.token_urlsafe(24)
        with self._lock:
            self._tokens[hashlib.sha256(token.encode()).digest()] = Person(role, name)
        return token

    def enter(self, token: str) -> tuple[Person, str]:
        """The person of a token, which is used up, and the cookie of the new session."""
        with self._lock:
            found = self._tokens.pop(hashlib.sha256(token.encode()).digest(), None)
        if found is None:
            raise BadToken("this link is wrong or was used before; start `updp review` again for a new one")
        person = Person(found.role, found.name, secrets.token_hex(16))
        body = json.dumps([person.role, person.name, person.session, int(self._clock()) + LIFETIME]).encode()
        return person, f"{base64.urlsafe_b64encode(body).decode()}.{self._code(b'cookie', body)}"

    def who(self, cookie: str | None, headers: Mapping[str, str]) -> Person | None:
        """The person behind a request, or None."""
        if self.proxy is not None:
            return self.proxy.person(headers.get(self.proxy.header))
        if not cookie:
            return None
        try:
            text, _, code = cookie.rpartition(".")
            body = base64.b64decode(text, b"-_", validate=True)
            if not hmac.compare_digest(code, self._code(b"cookie", body)):
                return None
            role, name, session, until = json.loads(body)
        except (ValueError, TypeError):
            return None
        if until < self._clock() or session in self._ended:
            return None
        return Person(role, name, session)

    def leave(self, person: Person) -> None:
        self._ended.add(person.session)

    def form_code(self, person: Person) -> str:
        """What a form of this session has to carry."""
        return self._code(b"form", person.session.encode())

    def genuine(self, person: Person, code: str | None) -> bool:
        return code is not None and hmac.compare_digest(code, self.form_code(person))

    def _code(self, use: bytes, body: bytes) -> str:
        return hmac.new(self._secret, use + b"\0" + body, "sha256").hexdigest()
