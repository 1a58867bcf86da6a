"""Checks the client against a server: python3 check.py all|stream|restart. The tests of the harness run it."""

import json
import os
import sys
import threading
import time

from harness_client import Harness, HarnessError, verify_webhook

URL = os.environ["HARNESS_URL"]
KEY, APPROVER, ADMIN = (os.environ.get(name, "") for name in ("HARNESS_KEY", "HARNESS_APPROVER", "HARNESS_ADMIN"))
USER = "python"


def same(got, want, what):
    if got != want:
        raise AssertionError(f"{what}: got {got!r}, want {want!r}")


def refused(call, status, code):
    try:
        call()
    except HarnessError as error:
        same((error.status, error.code), (status, code), str(error))
        return error
    raise AssertionError(f"no error {status} {code}")


def check_all():
    h, approver, admin = Harness(URL, KEY), Harness(URL, APPROVER), Harness(URL, ADMIN)
    same(h.health()["status"], "ok", "health")

    done = h.task(USER, "How many orders came in today?")
    same((done["text"], done["output"], done["logs"]), ("42 orders came in today.", {"orders": 42}, ["counting"]), "task")
    same("".join(h.task_stream(USER, "Say hello.")), "Hello there.", "task_stream")
    more = {"context": {"country": "DE"}, "budget": {"turns": 5, "wall": "2m"}}
    task = h.create_task("How many orders came in today?", idempotency_key="orders", **more)
    same(h.create_task("How many orders came in today?", idempotency_key="orders", **more)["id"], task["id"], "the same key")
    events = [e for e in h.task_events(task["id"]) if e.id]
    same([e.id for e in events], list(range(1, len(events) + 1)), "ids of events")
    same((events[0].type, events[-1].type), ("task.queued", "task.ended"), "events")
    same([e.id for e in h.task_events(task["id"], 1)], [e.id for e in events[1:]], "events behind the first")
    same(list(h.task_events(task["id"], 1000)), [], "events behind the last")
    same(h.wait_task(task["id"])["output"], {"orders": 42}, "wait_task")
    page = h.list_tasks(status="succeeded", limit=1)
    same((len(page["tasks"]), bool(page["next"])), (1, True), "list_tasks")
    later = h.create_task("Say hello.", runAt=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 86400)))
    same(h.cancel_task(later["id"])["status"], "cancelled", "cancel_task")

    same(h.create_session(id="monday")["id"], "monday", "create_session")
    h.create_run('await fs.writeFile("/workspace/n.txt", "42")', sessionId="monday")
    same(h.create_run('return await fs.readFile("/workspace/n.txt")', sessionId="monday")["output"], "42", "the session's file")
    same(h.get_session("monday")["id"], "monday", "get_session")
    same("monday" in [s["id"] for s in h.list_sessions()["sessions"]], True, "list_sessions")
    h.delete_session("monday")

    table = b"day,total\nmon,40\ntue,2\n"
    h.put_file("reports", "in/totals.csv", table)
    same([f["path"] for f in h.list_files("reports")["files"]], ["in", "in/totals.csv"], "list_files")
    same(h.get_file("reports", "in/totals.csv", start=10).data, b"mon,40\ntue,2\n", "a part of a file")
    etag = h.get_file("reports", "in/totals.csv", raw=True).etag
    same(h.get_file("reports", "in/totals.csv", etag=etag, raw=True), None, "a file that has not changed")
    same(h.zip_files("reports", "in")[:2], b"PK", "zip_files")
    sums = h.create_run("let n = 0; for await (const row of input) n += Number(row.total); return n", sessionId="reports", input={"path": "in/totals.csv"})
    same(sums["output"], 42, "a run with an input")
    h.delete_file("reports", "in")
    Harness(URL + "/upload/python", KEY, backoff=0).put_file("reports", "ü 1.csv", table)  # the connection is cut in both directions
    same(Harness(URL + "/download/python", KEY, backoff=0).get_file("reports", "ü 1.csv").data, table, "a file, cut and continued")

    run = h.create_run('console.log("working"); return 6 * 7', timeout="5s")
    same((run["status"], run["output"], run["logs"]), ("succeeded", 42, [{"level": "log", "text": "working"}]), "create_run")
    id = run["runId"]
    same(id in [r["runId"] for r in h.list_runs(limit=50)["runs"]], True, "list_runs")
    same(h.get_run(id)["output"], 42, "get_run")
    same(h.get_journal(id)["records"][-1]["end"]["status"], "succeeded", "get_journal")
    same(h.get_journal(id, limit=1)["next"], 1, "a page of the journal")
    same(h.replay_run(id)["output"], 42, "replay_run")
    same([e.type for e in h.run_events(id)], ["run.log", "run.ended"], "run_events")
    began = h.create_run("await utils.sleep(50); return 1", wait="0s")
    same(h.wait_run(began["runId"])["output"], 1, "wait_run")
    failed = h.create_run("return x.y")
    same((failed["status"], failed["error"]["kind"]), ("failed", "runtime"), "a program that fails")

    send = 'await tools.mailer.send({to: "ann@example.com", subject: "Hello", body: "Hi"}); return 1'
    waiting = h.create_run(send)
    same(waiting["status"], "waiting_approval", "a run that waits")
    approval = waiting["approval"]["id"]
    same(approval in [a["id"] for a in h.list_approvals(status="waiting")["approvals"]], True, "list_approvals")
    same(h.get_approval(approval)["calls"][0]["tool"], "mailer__send", "get_approval")
    same(refused(lambda: h.approve(approval), 403, "forbidden").fix != "", True, "the fix of 403")
    same(approver.deny(approval, "not before Monday")["status"], "denied", "deny")
    same(h.wait_run(waiting["runId"])["error"]["kind"], "denied", "a denied run")
    waiting = h.create_run(send)
    same(approver.approve(waiting["approval"]["id"])["status"], "approved", "approve")
    same(h.wait_run(waiting["runId"])["output"], 1, "an approved run")

    same(approver.get_policy()["rules"] != [], True, "get_policy")
    trial = {"args": {"to": "pii_1e@d1.pii.invalid"}, "preset": "strict", "tokens": [{"text": "pii_1e@d1.pii.invalid", "from": ["crm__get"]}]}
    same(approver.test_policy("mailer__send", **trial)["verdict"]["action"], "deny", "test_policy")
    same(approver.check_policy("- {tools: mailer, action: deny}")["mistakes"][0]["line"], 1, "check_policy")
    same(approver.simulate_policy(policy='- {tools: "mailer__*", action: deny}', runs=100)["changed"] > 0, True, "simulate_policy")
    same(len(approver.compare_presets()["presets"]) > 1, True, "compare_presets")
    same(approver.list_flows(by="server")["runs"] > 0, True, "list_flows")
    same(approver.list_doubts()["doubts"], [], "list_doubts")
    refused(lambda: approver.settle_call(id, 1, "done"), 409, "conflict")

    same("database__query" in [t["name"] for t in h.list_tools()["tools"]], True, "list_tools")
    same(h.search_tools("run sql", limit=1)["tools"][0]["name"], "database__query", "search_tools")
    same(h.get_tool("database__query")["inputSchema"]["type"], "object", "get_tool")
    same("query(input: QueryInput)" in h.get_types(server="database"), True, "get_types")
    same(h.create_run('return await tools.database.query("SELECT 40 + 2 AS answer")')["output"], [{"answer": 42}], "a tool")
    capability = h.create_capability(id)["authToken"]
    same(Harness(URL).call_tool(capability, "database__query", {"query": "SELECT 40 + 2 AS answer"}), [{"answer": 42}], "call_tool")

    h.put_skill("math/double.js", "export default (n) => n * 2")
    same([s["name"] for s in h.list_skills()["skills"]], ["math/double"], "list_skills")
    same(h.get_skill("math/double.js"), "export default (n) => n * 2", "get_skill")
    same(h.create_run('import double from "/skills/math/double.js"\nreturn double(21)')["output"], 42, "a skill")
    h.delete_skill("math")

    schedule = h.create_schedule("How many orders came in today?", cron="0 18 * * 1-5", timeZone="Europe/Berlin")
    same(h.get_schedule(schedule["id"])["cron"], "0 18 * * 1-5", "get_schedule")
    same([s["id"] for s in h.list_schedules()["schedules"]], [schedule["id"]], "list_schedules")
    h.delete_schedule(schedule["id"])

    same(admin.add_server("remote-python", url="https://mcp.example.com/mcp")["name"], "remote-python", "add_server")
    same("remote-python" in [s["name"] for s in admin.list_servers()["servers"]], True, "list_servers")
    admin.remove_server("remote-python")
    refused(lambda: h.remove_server("remote-python"), 403, "forbidden")
    same("harness_" in admin.metrics(), True, "metrics")

    refused(lambda: Harness(URL, "hk_wrong").list_tasks(), 401, "unauthorized")
    same(refused(lambda: h.task("somebody", "x"), 403, "forbidden").message, "not allowed: the credential belongs to another user", "403")
    refused(lambda: h.get_task("task_1"), 404, "not_found")
    same(refused(lambda: h.create_task("x", budget={"turns": -1}), 400, "bad_request").details[0]["location"], "body.budget", "a wrong field")
    dead = Harness("http://127.0.0.1:1", patience=0.1, backoff=0.01)
    same("harness serve" in refused(dead.health, 0, "unreachable").fix, True, "the fix of a server that does not run")

    signed = {"X-Harness-Timestamp": os.environ["WEBHOOK_TIMESTAMP"], "X-Harness-Signature": os.environ["WEBHOOK_SIGNATURE"]}
    secret, body = os.environb[b"WEBHOOK_SECRET"], os.environb[b"WEBHOOK_BODY"]
    same([verify_webhook(secret, signed, b) for b in (body, body + b" ")], [True, False], "verify_webhook")
    same([verify_webhook(b"other", signed, body), verify_webhook(secret, {}, body), verify_webhook(secret, signed, body, within=0)], [False] * 3, "verify_webhook")

    began_at = time.monotonic()
    Harness(URL + "/limited/python", KEY).create_session(id="limited")  # the first request is refused with Retry-After: 1
    same(time.monotonic() - began_at >= 1, True, "Retry-After")
    lost = Harness(URL + "/lost/python", KEY, backoff=0)  # the answer to the first request is lost
    lost.create_task("Say hello.", sessionId="lost")
    same(len(h.list_tasks(sessionId="lost")["tasks"]), 1, "tasks after a lost answer")
    refused(lambda: Harness(URL + "/lost/python-session", KEY).create_session(id="lost-answer"), 0, "unreachable")


def check_stream():
    want = json.load(open(os.environ["EVENTS"]))
    for cut in range(int(os.environ["CUTS"])):
        h = Harness(f"{URL}/cut/python/{cut}", KEY, backoff=0)
        same([[e.id, e.type, e.data] for e in h.task_events(os.environ["TASK"])], want, f"a stream cut behind byte {cut}")


def check_restart():
    h, approver = Harness(URL, KEY, backoff=0.05), Harness(URL, APPROVER)
    waiting = h.create_run('await tools.mailer.send({to: "ann@example.com", subject: "Hello", body: "Hi"}); return 1')
    task = h.create_task("How many orders came in today?")
    reader = threading.Thread(target=lambda: seen.extend(h.task_events(task["id"])))
    seen = []
    reader.start()
    print("ready", flush=True)
    sys.stdin.readline()  # until the server has been killed and started again
    same(h.wait_task(task["id"])["output"], {"orders": 42}, "the task")
    reader.join()
    ids = [e.id for e in seen if e.id]
    same(ids, list(range(1, len(ids) + 1)), "ids of events")
    same(seen[-1].type, "task.ended", "the last event")
    approver.approve(waiting["approval"]["id"])
    same(h.wait_run(waiting["runId"])["output"], 1, "the run")


if __name__ == "__main__":
    {"all": check_all, "stream": check_stream, "restart": check_restart}[sys.argv[1]]()
    print("ok")
