"""Client of the HTTP API of mcp-code-exec-harness, with Python's standard library only.

Answers are dictionaries with the fields of the OpenAPI document (/openapi.json). Every failure is a HarnessError. A Harness holds no
connection and no state, so threads may share one.
"""

import base64
import hashlib
import hmac
import http.client
import json
import random
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from typing import Any, Iterator, Mapping, NamedTuple, Optional

__all__ = ["Event", "File", "Harness", "HarnessError", "verify_webhook"]

_FIXES = {
    0: "start harness serve, and check the url of the client",
    401: "make a key with harness keys create, and give it to the client",
    403: "use a key of this user that has the role the message names: harness keys create --user NAME --role ROLE",
    404: "check the id and the key: a key sees what belongs to its user",
    429: "wait as long as retry_after says, or raise server.rateLimit",
}
_NAMES = {0: "unreachable", 413: "payload_too_large", 422: "unprocessable_entity", 429: "too_many_requests"}
_LOST = (OSError, http.client.HTTPException)  # URLError and time limits are OSErrors


class HarnessError(Exception):
    """A request that failed.

    status is the HTTP status, or 0 if there was no answer. code is a word for programs, such as "not_found" or "unreachable". message says
    what is wrong, fix what to do about it ("" if message says that too). details has an entry for each wrong field, with message and
    location. retry_after is the number of seconds that the server asks to wait, or None.
    """

    def __init__(self, status: int, message: str, problem: Optional[dict] = None, retry_after: Optional[float] = None):
        problem = problem or {}
        super().__init__(f"{status}: {message}" if status else message)
        self.status = status
        self.message = message
        self.code = problem.get("code") or _NAMES.get(status) or http.client.responses.get(status, "error").lower().replace(" ", "_")
        self.fix = problem.get("fix") or _FIXES.get(status, "")
        self.details = problem.get("errors", [])
        self.retry_after = retry_after


class Event(NamedTuple):
    """An event of a task or a run. id is 0 for events that are not stored, such as delta. docs/EVENTS.md describes the types."""

    id: int
    type: str
    data: Any


class File(NamedTuple):
    """The bytes of a file and its ETag."""

    data: bytes
    etag: str


class Harness:
    """A server and the key to use.

    patience is how many seconds a request, or a stream without a new event, is tried again before it fails. backoff is the first pause
    between tries in seconds; it doubles up to 2 s. timeout is how long a connection may be silent: longer than the longest run that
    create_run waits for.

    Tried again are: requests that change nothing twice (GET, PUT, DELETE, and POST with an Idempotency-Key, which the client makes),
    requests that were not accepted (429), and connections that were refused. Retry-After is obeyed.
    """

    def __init__(self, url: str = "http://127.0.0.1:3000", key: str = "", *, patience: float = 60, backoff: float = 0.2, timeout: float = 300):
        self._url = url.rstrip("/")
        self._key = key
        self._patience = patience
        self._backoff = backoff
        self._timeout = timeout

    # Requests.

    def _open(self, method: str, path: str, body: Any, headers: Mapping[str, str], timeout: float) -> http.client.HTTPResponse:
        request = urllib.request.Request(self._url + path, method=method, headers=dict(headers))
        if self._key:
            request.add_header("Authorization", f"Bearer {self._key}")
        if isinstance(body, bytes):
            request.add_header("Content-Type", "application/octet-stream")
            request.data = body
        elif body is not None:
            request.add_header("Content-Type", "application/json")
            request.data = json.dumps(body).encode()
        try:
            return urllib.request.urlopen(request, timeout=timeout)
        except urllib.error.HTTPError as refused:
            if refused.code == 304:
                return refused  # type: ignore[return-value]
            raise _refusal(refused) from None

    def _pauses(self, error: BaseException, safe: bool, tries: int, until: float) -> bool:
        """Pauses before the next try and returns True, or returns False if there is to be none."""
        pause = min(self._backoff * 2**tries, 2) * random.uniform(0.5, 1)
        if isinstance(error, HarnessError):
            if error.status != 429 and not (safe and error.status in (502, 503, 504)):
                return False
            pause = error.retry_after if error.retry_after is not None else pause
        elif not safe and not isinstance(getattr(error, "reason", error), ConnectionRefusedError):
            return False
        if time.monotonic() + pause > until:
            return False
        time.sleep(pause)
        return True

    def _send(self, method: str, path: str, body: Any = None, *, query: Optional[dict] = None, headers: Mapping[str, str] = {}, safe: Optional[bool] = None):
        """Sends a request and returns the answer, whose body is read, as (status, headers, bytes)."""
        path += _query(query)
        safe = method != "POST" or "Idempotency-Key" in headers if safe is None else safe
        until, tries = time.monotonic() + self._patience, 0
        while True:
            try:
                with self._open(method, path, body, headers, self._timeout) as answer:
                    return answer.status, answer.headers, answer.read()
            except (HarnessError, *_LOST) as error:
                if not self._pauses(error, safe, tries, until):
                    raise _failure(error) from None
            tries += 1

    def _json(self, method: str, path: str, body: Any = None, **more) -> Any:
        text = self._send(method, path, body, **more)[2]
        return json.loads(text) if text else None

    def _post(self, path: str, body: dict, key: Optional[str]) -> Any:
        return self._json("POST", path, body, headers={"Idempotency-Key": key or str(uuid.uuid4())})

    def _events(self, path: str, after: int, last: str, appears: float = 0) -> Iterator[Event]:
        until, tries = time.monotonic() + self._patience, 0
        appears += time.monotonic()
        while True:
            try:
                with self._open("GET", path, None, {"Last-Event-ID": str(after)} if after else {}, min(self._timeout, 60)) as answer:
                    if answer.status == 204:  # it has ended, and there is nothing more
                        return
                    for event in _parse(answer):
                        if event.id:
                            if event.id <= after:
                                continue
                            after, until, tries = event.id, time.monotonic() + self._patience, 0
                        yield event
                        if event.type == last:
                            return
                error: BaseException = ConnectionError("the stream ended early")
            except (HarnessError, *_LOST) as failed:
                error = failed
            if isinstance(error, HarnessError) and error.status == 404 and time.monotonic() < appears:
                time.sleep(self._backoff or 0.05)
            elif not self._pauses(error, True, tries, until):
                raise _failure(error) from None
            tries += 1

    # Tasks.

    def health(self) -> dict:
        return self._json("GET", "/health")

    def task(self, user_id: str, task: str, *, idempotency_key: Optional[str] = None, **more) -> dict:
        """Executes a task and returns its answer. A task that failed returns too, with error."""
        return self._post("/task", {"userId": user_id, "task": task, **more}, idempotency_key)

    def task_stream(self, user_id: str, task: str, **more) -> Iterator[str]:
        """Yields the answer of a task as it is written. It is not continued after a lost connection: use task_events for that."""
        try:
            with self._open("POST", "/task/stream", {"userId": user_id, "task": task, **more}, {}, self._timeout) as answer:
                for event in _parse(answer):
                    if event.data == "[DONE]":
                        return
                    if "error" in event.data:
                        raise HarnessError(500, event.data["error"])
                    yield event.data["chunk"]
            raise ConnectionError("the stream ended early")
        except _LOST as error:
            raise _failure(error) from None

    def create_task(self, task: str, *, idempotency_key: Optional[str] = None, **more) -> dict:
        """Begins a task in the background."""
        return self._post("/v1/tasks", {"task": task, **more}, idempotency_key)

    def list_tasks(self, **query) -> dict:
        return self._json("GET", "/v1/tasks", query=query)

    def get_task(self, id: str) -> dict:
        return self._json("GET", f"/v1/tasks/{_q(id)}")

    def cancel_task(self, id: str) -> dict:
        return self._json("POST", f"/v1/tasks/{_q(id)}/cancel", safe=True)  # a second one changes nothing

    def task_events(self, id: str, after: int = 0) -> Iterator[Event]:
        """Yields the events of a task behind one until it has ended, each stored event once; it goes on after lost connections."""
        return self._events(f"/v1/tasks/{_q(id)}/events", after, "task.ended")

    def wait_task(self, id: str) -> dict:
        """Waits for the end of a task, also through a restart of the server, and returns the task."""
        for _ in self.task_events(id):
            pass
        return self.get_task(id)

    # Runs.

    def create_run(self, code: str, *, idempotency_key: Optional[str] = None, **more) -> dict:
        """Executes a program and returns its outcome, or what it waits for. With wait="0s" the run goes on: see wait_run."""
        return self._post("/v1/runs", {"code": code, **more}, idempotency_key)

    def list_runs(self, **query) -> dict:
        return self._json("GET", "/v1/runs", query=query)

    def get_run(self, id: str) -> dict:
        return self._json("GET", f"/v1/runs/{_q(id)}")

    def get_journal(self, id: str, **query) -> dict:
        return self._json("GET", f"/v1/runs/{_q(id)}/journal", query=query)

    def replay_run(self, id: str, *, force: bool = False) -> dict:
        return self._json("POST", f"/v1/runs/{_q(id)}/replay", query={"force": force or None}, safe=True)  # it calls no server

    def run_events(self, id: str, after: int = 0) -> Iterator[Event]:
        """Yields the events of a run as task_events those of a task. A run that create_run did not wait for is recorded up to a second
        later, so this asks for an unknown run for 5 s."""
        return self._events(f"/v1/runs/{_q(id)}/events", after, "run.ended", appears=5)

    def wait_run(self, id: str) -> dict:
        """Waits for the end of a run, also through approvals, and returns the run."""
        for _ in self.run_events(id):
            pass
        return self.get_run(id)

    def create_capability(self, run_id: str) -> dict:
        """Makes the token with which call_tool calls tools in the name of a run."""
        return self._json("POST", f"/v1/runs/{_q(run_id)}/capability")

    def call_tool(self, capability: str, tool: str, input: Any) -> Any:
        return self._json("POST", "/internal/mcp-call", {"authToken": capability, "toolName": tool, "input": input})

    def list_doubts(self, **query) -> dict:
        return self._json("GET", "/v1/doubts", query=query)

    def settle_call(self, run_id: str, call: int, verdict: str, note: str = "") -> dict:
        """Says whether a write in doubt was "done" or "not_done"."""
        return self._json("POST", f"/v1/runs/{_q(run_id)}/calls/{call}/settle", {"verdict": verdict, "note": note}, safe=True)

    # Approvals and policy.

    def list_approvals(self, **query) -> dict:
        return self._json("GET", "/v1/approvals", query=query)

    def get_approval(self, id: str) -> dict:
        return self._json("GET", f"/v1/approvals/{_q(id)}")

    def approve(self, id: str, *, remember: bool = False) -> dict:
        return self._json("POST", f"/v1/approvals/{_q(id)}", {"decision": "approve", "remember": remember})

    def deny(self, id: str, reason: str = "") -> dict:
        return self._json("POST", f"/v1/approvals/{_q(id)}", {"decision": "deny", "reason": reason})

    def get_policy(self) -> dict:
        return self._json("GET", "/v1/policy")

    def test_policy(self, tool: str, **more) -> dict:
        return self._json("POST", "/v1/policy/test", {"tool": tool, **more}, safe=True)

    def check_policy(self, policy: str) -> dict:
        return self._json("POST", "/v1/policy/check", {"policy": policy}, safe=True)

    def simulate_policy(self, **body) -> dict:
        return self._json("POST", "/v1/policy/simulation", body, safe=True)

    def compare_presets(self, **query) -> dict:
        return self._json("GET", "/v1/policy/presets", query=query)

    def list_flows(self, **query) -> dict:
        return self._json("GET", "/v1/policy/flows", query=query)

    # Sessions and files.

    def create_session(self, **body) -> dict:
        return self._json("POST", "/v1/sessions", body)

    def list_sessions(self, **query) -> dict:
        return self._json("GET", "/v1/sessions", query=query)

    def get_session(self, id: str) -> dict:
        return self._json("GET", f"/v1/sessions/{_q(id)}")

    def delete_session(self, id: str) -> None:
        self._send("DELETE", f"/v1/sessions/{_q(id)}")

    def list_files(self, session: str, folder: str = "") -> dict:
        return self._json("GET", _file(session, folder))

    def zip_files(self, session: str, folder: str = "") -> bytes:
        return self._send("GET", _file(session, folder), query={"format": "zip"})[2]

    def get_file(self, session: str, path: str, *, start: int = 0, etag: str = "", raw: bool = False) -> Optional[File]:
        """Reads a file from an offset on; None if it still has the given ETag. A download that was cut off goes on where it ended."""
        return self._download(_file(session, path), start, etag, raw)

    def put_file(self, session: str, path: str, data: bytes) -> None:
        """Writes a file. An upload that was cut off goes on where it ended."""
        self._upload(_file(session, path), data)

    def delete_file(self, session: str, path: str) -> None:
        self._send("DELETE", _file(session, path))

    def _download(self, path: str, start: int, etag: str, raw: bool) -> Optional[File]:
        path += _query({"raw": "true" if raw else None})
        until, tries, data, version = time.monotonic() + self._patience, 0, b"", ""
        while True:
            headers = {"If-None-Match": etag} if etag and not version else {}
            if start + len(data):
                headers["Range"] = f"bytes={start + len(data)}-"
            if version:
                headers["If-Range"] = version
            try:
                with self._open("GET", path, None, headers, self._timeout) as answer:
                    if answer.status == 304:
                        return None
                    skip = start if answer.status == 200 else 0
                    if answer.status == 200:  # the whole file, because it has changed
                        data = b""
                    version = answer.headers["ETag"]
                    try:
                        data += answer.read()[skip:]
                    except http.client.IncompleteRead as cut:
                        data += cut.partial[skip:]
                        raise
                    return File(data, version)
            except (HarnessError, *_LOST) as error:
                if not self._pauses(error, True, tries, until):
                    raise _failure(error) from None
            tries += 1

    def _upload(self, path: str, data: bytes) -> None:
        digest = {"Repr-Digest": f"sha-256=:{base64.b64encode(hashlib.sha256(data).digest()).decode()}:"}
        until, tries, sent = time.monotonic() + self._patience, 0, 0
        while True:
            headers = {**digest, "Content-Range": f"bytes {sent}-{len(data) - 1}/{len(data)}"} if sent else digest
            try:
                with self._open("PUT", path, data[sent:], headers, self._timeout):
                    return
            except (HarnessError, *_LOST) as error:
                if not self._pauses(error, True, tries, until):
                    raise _failure(error) from None
            tries += 1
            if data:
                status, answer, _ = self._send("PUT", path, b"", headers={**digest, "Content-Range": f"bytes */{len(data)}"})
                if status != 202:  # all of it has come
                    return
                sent = int(answer["Upload-Offset"])

    # Tools and skills.

    def list_tools(self, **query) -> dict:
        return self._json("GET", "/v1/tools", query=query)

    def search_tools(self, q: str, **query) -> dict:
        return self._json("GET", "/v1/tools/search", query={"q": q, **query})

    def get_tool(self, name: str) -> dict:
        return self._json("GET", f"/v1/tools/{_q(name)}")

    def get_types(self, **query) -> str:
        """Returns the TypeScript declarations of tools."""
        return self._send("GET", "/v1/tools.d.ts", query=query)[2].decode()

    def list_skills(self, **query) -> dict:
        return self._json("GET", "/v1/skills", query=query)

    def get_skill(self, path: str) -> str:
        return self._send("GET", f"/v1/skills/{_path(path)}")[2].decode()

    def put_skill(self, path: str, source: str) -> None:
        self._send("PUT", f"/v1/skills/{_path(path)}", source.encode())

    def delete_skill(self, path: str) -> None:
        self._send("DELETE", f"/v1/skills/{_path(path)}")

    # Schedules, servers and metrics.

    def create_schedule(self, task: str, *, idempotency_key: Optional[str] = None, **more) -> dict:
        return self._post("/v1/schedules", {"task": task, **more}, idempotency_key)

    def list_schedules(self, **query) -> dict:
        return self._json("GET", "/v1/schedules", query=query)

    def get_schedule(self, id: str) -> dict:
        return self._json("GET", f"/v1/schedules/{_q(id)}")

    def delete_schedule(self, id: str) -> None:
        self._send("DELETE", f"/v1/schedules/{_q(id)}")

    def list_servers(self) -> dict:
        return self._json("GET", "/v1/servers")

    def add_server(self, name: str, **more) -> dict:
        return self._json("POST", "/v1/servers", {"name": name, **more})

    def remove_server(self, name: str) -> None:
        self._send("DELETE", f"/v1/servers/{_q(name)}")

    def metrics(self) -> str:
        return self._send("GET", "/metrics")[2].decode()


def verify_webhook(secret: bytes, headers: Mapping[str, str], body: bytes, *, within: float = 300) -> bool:
    """Reports whether a webhook comes from a harness with this secret (server.webhooks.secret) and is at most `within` seconds old."""
    stamp = headers.get("X-Harness-Timestamp") or ""
    signed = hmac.new(secret, stamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    signature = (headers.get("X-Harness-Signature") or "").encode()
    return stamp.isdigit() and abs(time.time() - int(stamp)) < within and hmac.compare_digest(signature, b"sha256=" + signed.encode())


def _parse(lines) -> Iterator[Event]:
    """Yields the events of a stream of server-sent events. An event that has not come whole is left out."""
    id, kind, data = 0, "message", []
    for line in lines:
        if not line.endswith(b"\n"):
            return
        name, _, value = line.decode().rstrip("\r\n").partition(":")
        value = value[1:] if value.startswith(" ") else value
        if name == "id":
            id = int(value)
        elif name == "event":
            kind = value
        elif name == "data":
            data.append(value)
        elif not line.strip():
            if data:
                text = "\n".join(data)
                yield Event(id, kind, text if text == "[DONE]" else json.loads(text))
            id, kind, data = 0, "message", []


def _refusal(refused: urllib.error.HTTPError) -> HarnessError:
    with refused:
        try:
            problem = json.load(refused)
        except (ValueError, *_LOST):
            problem = {}
    after = refused.headers.get("Retry-After", "")
    return HarnessError(refused.code, problem.get("detail") or refused.reason, problem, float(after) if after.isdigit() else None)


def _failure(error: BaseException) -> HarnessError:
    if isinstance(error, HarnessError):
        return error
    return HarnessError(0, f"no answer of the harness: {getattr(error, 'reason', error)}")


def _q(text: str) -> str:
    return urllib.parse.quote(text, safe="")


def _path(path: str) -> str:
    return urllib.parse.quote(path.strip("/"))


def _file(session: str, path: str) -> str:
    return f"/v1/sessions/{_q(session)}/files" + (f"/{_path(path)}" if path.strip("/") else "")


def _query(query: Optional[dict]) -> str:
    text = urllib.parse.urlencode({k: str(v).lower() if isinstance(v, bool) else v for k, v in (query or {}).items() if v is not None})
    return "?" + text if text else ""
