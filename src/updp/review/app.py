"""The pages: who asks is checked first, then a page, a picture or an answer is given.

Server-rendered, with a little JavaScript that is part of the package. Nothing is fetched from elsewhere: the content
security policy allows this server alone, and no inline script or style. Nothing may be stored by a cache. Addresses
hold pseudonyms only.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from updp.core.questions import QUESTIONS
from updp.core.reasons import REPAIR, Reason
from updp.core.storage import OutputError
from updp.pipeline.decisions import OVERRULED, BadDecision, Decision, Kind
from updp.pipeline.stations import whereabouts
from updp.release.assemble import finished
from updp.review.answers import Answers, BadAnswer, check_turn, read_answer
from updp.review.before_after import header_rows, marked_after, marked_before, removed
from updp.review.desk import LARGE, THUMB, Desk, NoDesk
from updp.review.index import ORDERS, Choice
from updp.review.pages import templates
from updp.review.plan import BadPlan, Plan, film_bytes
from updp.review.sessions import LIFETIME, BadToken, Guard, Person

log = logging.getLogger("updp")

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",  # without any, a browser sends the forms of these pages with the origin "null"
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
#: The report of a release is one file with its style and its pictures inside, and no script.
_REPORT = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"
#: Bytes of a form or an answer at most.
_MOST = 65_536
#: Films in a row of the wall, and in a release, at most.
_ROW, _FILMS = 64, 2**62
#: What a page asks of a study; a study that was kept back has few of them.
_FIELDS = ("release_id", "reason", "station", "view", "labels", "labels_from", "decided", "likeness", "seen")
_PLACE = re.compile(r"[0-9]{1,18}")
_STATIC = Path(__file__).parent / "static"
_KINDS = {".css": "text/css", ".js": "text/javascript"}


class Refusal(Exception):
    """A request that is turned away with a page."""

    def __init__(self, status: int, title: str, words: str) -> None:
        super().__init__(title)
        self.status, self.title, self.words = status, title, words


MISSING = Refusal(404, "Not here", "There is no page, film or study of that name in this release.")
NO_SESSION = Refusal(
    401, "Open the page with your link", "The link that `updp review` printed opens one session of twelve hours."
)


@dataclass(frozen=True)
class Study:
    """A reader study that the server shows."""

    folder: Path
    plan: Plan
    answers: Answers


def make_app(guard: Guard, hosts: set[str], desk: Desk | None = None, study: Study | None = None) -> FastAPI:
    """The server's pages. ``hosts`` are the names by which it may be asked for."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)

    def page(name: str, request: Request, status: int = 200, **more: Any) -> Response:
        person: Person | None = getattr(request.state, "person", None)
        about = {
            "person": person,
            "code": guard.form_code(person) if person else "",
            "path": request.url.path,
            "proxied": guard.proxy is not None,
            "has_desk": desk is not None,
            "has_study": study is not None,
            "pending": desk.pending if desk and person and person.role == "officer" else 0,
        }
        return HTMLResponse(templates().get_template(name).render(**about, **more), status)

    def refused(request: Request, why: Refusal) -> Response:
        if "application/json" in request.headers.get("accept", ""):
            return JSONResponse({"error": why.words or why.title}, why.status)
        return page("error.html.jinja", request, why.status, title=why.title, words=why.words)

    @app.middleware("http")
    async def checked(request: Request, call: Callable[[Request], Awaitable[Response]]) -> Response:
        try:
            if request.headers.get("host", "") not in hosts:
                raise Refusal(421, "Wrong address", "This server answers to its own address only.")
            request.state.person = guard.who(request.cookies.get(guard.cookie), request.headers.items())
            if request.method == "POST":
                await _check_form(request, guard, hosts)
            response = await call(request)
        except Refusal as why:
            response = refused(request, why)
        except Exception as error:  # its message may quote a patient
            log.debug("review: %s", whereabouts(error))
            words = "Nothing that was answered or decided is lost. Try again; if it stays, run with --debug."
            response = refused(request, Refusal(500, "Something went wrong", words))
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    faults = {BadDecision: 409, BadAnswer: 422, BadPlan: 409, OutputError: 507, BadToken: 403, NoDesk: 503}
    for kind, status in faults.items():

        def explained(request: Request, error: Exception, status: int = status) -> Response:
            return refused(request, Refusal(status, "That cannot be done", str(error)))

        app.add_exception_handler(kind, explained)

    @app.exception_handler(Refusal)
    def turned_away(request: Request, why: Refusal) -> Response:
        return refused(request, why)

    @app.exception_handler(HTTPException)
    def unknown(request: Request, error: HTTPException) -> Response:
        words = "This address does not take such a request."
        why = MISSING if error.status_code == 404 else Refusal(error.status_code, "That cannot be done", words)
        return refused(request, why)

    @app.exception_handler(RequestValidationError)
    def misunderstood(request: Request, error: RequestValidationError) -> Response:
        return refused(request, Refusal(422, "That cannot be done", "The address has a word where a number belongs."))

    @app.get("/static/{name}")
    def static(name: str) -> Response:
        path = _STATIC / name
        if path.parent != _STATIC or path.suffix not in _KINDS or not path.is_file():
            raise MISSING
        return Response(path.read_bytes(), media_type=_KINDS[path.suffix])

    @app.get("/favicon.ico")
    def icon() -> Response:
        return Response(status_code=204)

    @app.get("/enter/{token}")
    def enter(token: str) -> Response:
        _, cookie = guard.enter(token)
        response = RedirectResponse("/", 303)
        response.set_cookie(guard.cookie, cookie, max_age=LIFETIME, httponly=True, samesite="strict", path="/")
        return response

    @app.post("/leave")
    def leave(request: Request) -> Response:
        guard.leave(_person(request))
        response = page("left.html.jinja", request)
        response.delete_cookie(guard.cookie)
        return response

    @app.get("/")
    def home(request: Request) -> Response:
        return RedirectResponse("/desk" if _person(request).role == "officer" and desk else "/read", 303)

    if desk is not None:
        _add_desk(app, desk, page)
    if study is not None:
        _add_study(app, study, guard, page)
    return app


async def _check_form(request: Request, guard: Guard, hosts: set[str]) -> None:
    """A form or an answer comes from a page of this server, in the session of who sends it."""
    origin = request.headers.get("origin")
    if origin is not None and origin.partition("://")[2] not in hosts:
        raise Refusal(403, "Refused", "The request came from another page.")
    if int(request.headers.get("content-length") or 0) > _MOST:
        raise Refusal(413, "Too large", "The form is larger than this page allows.")
    person = _person(request)
    body = b""
    async for part in request.stream():  # a body that tells no length is cut here
        body += part
        if len(body) > _MOST:
            raise Refusal(413, "Too large", "The form is larger than this page allows.")
    request.state.body, request.state.form = body, {}
    if request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        request.state.form = {name: values[0] for name, values in parse_qs(body.decode("utf-8", "replace")).items()}
    code = request.headers.get("x-form-code") or request.state.form.get("code")
    if not guard.genuine(person, code):
        raise Refusal(403, "Refused", "The form is not of this session; load the page again.")


def _person(request: Request, role: str | None = None) -> Person:
    person: Person | None = getattr(request.state, "person", None)
    if person is None:
        raise NO_SESSION
    if role is not None and person.role != role:
        raise Refusal(403, "Not for you", "This page shows originals and is for the privacy officer alone.")
    return person


# -- the officer's desk ----------------------------------------------------------------------------------------------


def _add_desk(app: FastAPI, desk: Desk, page: Callable[..., Response]) -> None:
    def choice_of(asked: Mapping[str, str]) -> Choice:
        finding, view, decided = (asked.get(name, "")[:200] for name in ("finding", "view", "decided"))
        upto = asked.get("upto", "")
        return Choice(
            finding, view, decided, asked.get("order", "release"), int(upto) if _PLACE.fullmatch(upto) else None
        )

    def query(choice: Choice) -> str:
        given = {name: getattr(choice, name) for name in ("finding", "view", "decided")}
        given = {name: value for name, value in given.items() if value} | {"order": choice.order}
        return urlencode(given if choice.upto is None else given | {"upto": choice.upto})

    def row_of(release_id: str) -> dict[str, Any]:
        row = desk.index.film(release_id)
        if row is None:
            raise MISSING
        return row

    def standing() -> dict[str, Kind]:
        """What was decided last of every study, unless it was withdrawn."""
        last = {line.ref: line.kind for line in desk.decisions.lines}
        return {ref: kind for ref, kind in last.items() if kind is not Kind.WITHDRAW}

    def tiles(choice: Choice, offset: int, limit: int) -> dict[str, Any]:
        total, rows = desk.index.films(choice, offset, limit)
        decided = standing()
        return {"total": total, "rows": [_tile(row, decided.get(row["ref"])) for row in rows]}

    def image_of(data: bytes | None, media: str) -> Response:
        if data is None:
            raise MISSING
        return Response(data, media_type=media)

    @app.get("/desk")
    def overview(request: Request) -> Response:
        _person(request, "officer")
        from updp.evaluation.report import KINDS, verdict_sentence

        facts = desk.facts
        return page(
            "desk.html.jinja",
            request,
            facts=facts,
            sentence=verdict_sentence(facts),
            titles={one.id: one.title for one in QUESTIONS.values()},
            kinds=KINDS,
            counts=desk.index.counts(),
            reasons=[(code, count, REPAIR[Reason(code)]) for code, count in desk.index.reasons()],
            policy=desk.policy,
            verification=desk.verification,
            folder=desk.folder.name,
            source=desk.source_path is not None,
            looking=desk.looking,
            runs=desk.runs(),
            work=desk.work,
            lines=desk.decisions.lines[-6:][::-1],
            Kind=Kind,
        )

    @app.get("/desk/report")
    def report(request: Request) -> Response:
        """The evidence of the release as its receiver gets it: no script runs in it, and it fetches nothing."""
        _person(request, "officer")
        path = desk.folder / "evidence" / "report.html"
        if not path.is_file():
            raise MISSING
        return Response(path.read_bytes(), media_type="text/html", headers={"Content-Security-Policy": _REPORT})

    @app.get("/desk/status")
    def status(request: Request) -> Response:
        _person(request, "officer")
        checks = desk.verification.checks if desk.verification else None
        return JSONResponse(
            {
                "work": _work(desk.work),
                "looking": _work(desk.looking),
                "seeking": desk.seeking,
                "pending": desk.pending,
                "intact": None if desk.verification is None else desk.verification.intact,
                "checks": None if checks is None else [[c.name, c.outcome, c.detail] for c in checks],
            }
        )

    @app.get("/desk/wall")
    def wall(request: Request) -> Response:
        _person(request, "officer")
        choice = desk.index.settled(choice_of(request.query_params))
        first = tiles(choice, 0, 120)
        return page(
            "wall.html.jinja", request,
            choice=choice, choices=desk.index.choices(), orders={name: words for name, (words, _) in ORDERS.items()},
            first=json.dumps(first), query=query(choice), total=first["total"],
            measured=desk.index.counts()["measured"], looking=desk.looking, again=query(replace(choice, upto=None)),
        )  # fmt: skip

    @app.get("/desk/films")
    def films(request: Request, offset: int = 0, limit: int = 120) -> Response:
        _person(request, "officer")
        offset, limit = min(max(offset, 0), _FILMS), min(max(limit, 1), 500)
        return JSONResponse(tiles(choice_of(request.query_params), offset, limit))

    @app.get("/desk/film/{release_id}")
    def film(request: Request, release_id: str) -> Response:
        _person(request, "officer")
        row, choice = row_of(release_id), choice_of(request.query_params)
        before, after = desk.index.neighbours(release_id, choice)
        return _study_page(request, row, title="Released film", query=query(choice), before=before, after=after)

    @app.get("/desk/film/{release_id}/{kind}")
    def picture(request: Request, release_id: str, kind: str) -> Response:
        _person(request, "officer")
        if kind == "released.png":
            data = desk.released_png(release_id)
        elif kind == "original.png":
            data = desk.original_png(row_of(release_id)["ref"] or "")
        else:
            data = None
        return image_of(data, "image/png")

    @app.get("/desk/strip/{names}")
    def strip(request: Request, names: str, side: int = THUMB, gap: int = 0) -> Response:
        _person(request, "officer")
        data = desk.strip(names.split(",")[:_ROW], min(max(side, 32), LARGE // 2), min(max(gap, 0), 64))
        return image_of(data, "image/jpeg")

    @app.get("/desk/quarantine")
    def quarantine(request: Request, reason: str = "") -> Response:
        _person(request, "officer")
        decided = standing()
        rows = [
            {**row, "repair": REPAIR[Reason(row["reason"])], "decided": decided.get(row["ref"])}
            for row in desk.index.quarantine(reason)
        ]
        return page(
            "quarantine.html.jinja", request,
            rows=rows, reasons=desk.index.reasons(), reason=reason, OVERRULED=OVERRULED,
        )  # fmt: skip

    @app.get("/desk/study/{ref}")
    def kept_back(request: Request, ref: str) -> Response:
        _person(request, "officer")
        row = desk.index.kept_back(ref)
        if row is None:
            raise MISSING
        return _study_page(request, row, title="Kept back", query="", before=None, after=None)

    @app.get("/desk/study/{ref}/original.png")
    def kept_back_picture(request: Request, ref: str) -> Response:
        _person(request, "officer")
        return image_of(desk.original_png(ref), "image/png")

    def _study_page(request: Request, row: dict[str, Any], **more: Any) -> Response:
        shown = desk.shown(row)
        row = dict.fromkeys(_FIELDS) | row
        sections = desk.policy.report.sections
        report = shown.before.report if shown.before else None
        gone = removed(report, desk.cleaner, shown.known, sections) if report else {}
        reason = row.get("reason")
        last, lines = desk.decisions.last(row["ref"] or ""), desk.decisions.lines
        return page(
            "film.html.jinja",
            request,
            row=row,
            labels=[name for name in (row["labels"] or "").split("|") if name],
            problem=shown.problem,
            seeking=shown.before is None and desk.seeking,
            has_original=shown.before is not None and shown.before.pixels is not None,
            header=header_rows(shown.before.header, shown.header) if shown.before and shown.before.header else [],
            released_header=shown.header is not None,
            told=marked_before(report, gone) if report else [],
            left=marked_after(shown.report, report, gone) if shown.report else [],
            repair=REPAIR[Reason(reason)] if reason else "",
            way=OVERRULED.get(Reason(reason)) if reason else None,
            last=last,
            waiting=last in lines[len(lines) - desk.pending :],
            strength=desk.policy.method.strength,
            seed=int(desk.run.get("seed", 0)),
            can_redo=desk.source_path is not None,
            Kind=Kind,
            **more,
        )

    @app.post("/desk/decide")
    def decided(request: Request) -> Response:
        person = _person(request, "officer")
        form: Mapping[str, str] = request.state.form
        ref = form.get("ref", "")
        film = next((row for row in [desk.index.kept_back(ref)] if row), None)
        released = desk.index.film(form.get("film", ""))
        if film is None and (released is None or released["ref"] != ref):
            raise MISSING
        try:
            decision = Decision(
                Kind(form.get("kind", "")),
                ref,
                person.name,
                form.get("words", "")[:2000],
                form.get("text", "")[:200],
                seed=int(form["seed"]) if form.get("seed") else None,
                strength=float(form["strength"]) if form.get("strength") else None,
            )
        except ValueError:
            raise BadDecision("a seed is a whole number, a strength lies between 0 and 1") from None
        desk.decide(decision)
        if released is None:
            return RedirectResponse(f"/desk/study/{ref}", 303)
        choice = choice_of(dict(parse_qsl(form.get("query", ""))))  # the film keeps its place on the wall
        return RedirectResponse(f"/desk/film/{released['release_id']}?{query(choice)}", 303)

    @app.get("/desk/decisions")
    def decisions(request: Request) -> Response:
        _person(request, "officer")
        return page(
            "decisions.html.jinja", request,
            lines=desk.decisions.lines[::-1], work=desk.work, verification=desk.verification,
            folder=ended.folder.name if (ended := finished(desk.out)) else "",
            source=desk.source_path is not None, Kind=Kind,
        )  # fmt: skip

    @app.post("/desk/apply")
    def apply(request: Request) -> Response:
        _person(request, "officer")
        desk.apply()
        return RedirectResponse("/desk/decisions", 303)


def _tile(row: Mapping[str, Any], decided: str | None) -> list[Any]:
    """A film of the wall as its page needs it: id, view, findings, likeness, how sure they are, what was decided."""
    labels = row["labels"]
    words = "not labelled" if labels is None else ", ".join(filter(None, labels.split("|"))) or "no finding"
    return [row["release_id"], row["view"] or "", words.replace("_", " "), row["likeness"], row["seen"], decided]


def _work(work: Any) -> dict[str, Any]:
    return {name: getattr(work, name) for name in ("name", "done", "total", "error", "running")}


# -- readers ---------------------------------------------------------------------------------------------------------


def _add_study(app: FastAPI, study: Study, guard: Guard, page: Callable[..., Response]) -> None:
    plan = study.plan

    def reader_of(request: Request) -> str:
        person = _person(request)
        if person.role != "reader" or person.name not in {reader.name for reader in plan.readers}:
            raise Refusal(403, "Not for you", "This page is for the readers of the study; the officer knows the films.")
        return person.name

    @app.get("/read")
    def read(request: Request) -> Response:
        name = reader_of(request)
        total = len(plan.reader(name).items)
        return page("read.html.jinja", request, reader=name, total=total, simulated=plan.simulated)

    @app.get("/read/plan")
    def handed(request: Request) -> Response:
        name = reader_of(request)
        given = study.answers.of(name)
        # The secret of a hand-out stays here: this reader's answers come in his own session.
        out = {
            "findings": plan.findings,
            "days": plan.days,
            "items": [{"film": item.film, "session": item.session} for item in plan.reader(name).items],
            "answers": {item: answer.to_json() for item, answer in given.items()},
        }
        return JSONResponse(out)

    @app.get("/read/film/{name}")
    def picture(request: Request, name: str) -> Response:
        reader = reader_of(request)
        if name not in {item.film for item in plan.reader(reader).items}:
            raise MISSING
        return Response(film_bytes(study.folder, plan, name), media_type="image/png")

    @app.post("/read/answers")
    def answered(request: Request) -> Response:
        name = reader_of(request)
        try:
            data = json.loads(request.state.body)
        except (ValueError, RecursionError):
            raise BadAnswer("this is not an answer") from None
        now = dt.datetime.now(dt.UTC)
        # The days between sessions are counted by this clock, not by that of the reader's computer.
        answer = replace(read_answer(data, plan, name), at=now.isoformat(timespec="milliseconds"))
        check_turn(answer, study.answers.of(name), plan, name, now)
        study.answers.add(name, [answer])
        return JSONResponse({"saved": answer.item})
