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
import os
import secrets
import time
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Literal

from updp.core.keys import Key
from updp.core.storage import explain

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
            officers, readers = data.get("officers", []), data.get("readers", {})
            if not isinstance(officers, list):
                raise TypeError
            made = cls(
                str(data["header"]),
                str(data["host"]),
                frozenset(map(str, officers)),
                {str(user): str(name) for user, name in readers.items()},
            )
        except OSError:
            raise BadProxy(f"{path}: no such file, or it cannot be read") from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise BadProxy(f"{path}: header, host, officers and [readers] say who a user of the proxy is") from None
        if not made.header.replace("-", "").isalnum():
            raise BadProxy(f"{path}: header is the name of an HTTP header")
        if made.officers & made.readers.keys():
            raise BadProxy(f"{path}: an officer knows which film is which, and cannot be a reader too")
        return made

    def person(self, headers: Iterable[tuple[str, str]]) -> Person | None:
        """Who the header names; nobody if it stands there twice, since one of them may be the client's own."""
        users = [value for name, value in headers if name.lower() == self.header.lower()]
        if len(users) != 1:
            return None
        (user,) = users
        if user in self.officers:
            return Person("officer", user, f"proxy {user}")
        if user in self.readers:
            return Person("reader", self.readers[user], f"proxy {user}")
        return None


class Guard:
    """Tokens and sessions of one server."""

    def __init__(
        self,
        key: Key,
        place: str,
        proxy: Proxy | None = None,
        clock: Callable[[], float] = time.time,
        ended: Path | None = None,
    ) -> None:
        self._secret = key.digest("review-session", place)
        #: Browsers send a cookie to every port of a host: servers of two releases have cookies of two names.
        self.cookie = f"{COOKIE}-{key.digest('review-cookie', place).hex()[:8]}"
        self._tokens: dict[bytes, Person] = {}
        self._left = ended  # a session that was left stays so when the server starts again
        self._ended = set(ended.read_text("ascii").split() if ended is not None and ended.exists() else ())
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

    def who(self, cookie: str | None, headers: Iterable[tuple[str, str]]) -> Person | None:
        """The person behind a request, or None."""
        if self.proxy is not None:
            return self.proxy.person(headers)
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
        with self._lock:
            self._ended.add(person.session)
            if self._left is not None:
                try:
                    with open(os.open(self._left, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "w") as left:
                        left.write(person.session + "\n")
                except OSError as error:
                    raise explain(error) from None

    def form_code(self, person: Person) -> str:
        """What a form of this session has to carry."""
        return self._code(b"form", person.session.encode())

    def genuine(self, person: Person, code: str | None) -> bool:
        return code is not None and hmac.compare_digest(code.encode(), self.form_code(person).encode())

    def _code(self, use: bytes, body: bytes) -> str:
        return hmac.new(self._secret, use + b"\0" + body, "sha256").hexdigest()
