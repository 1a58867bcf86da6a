"""Serves the suites of an AgentDojo checkout to the Go driver: one JSON object a line on stdin, one on stdout.

The checkout's tools, tasks and checkers are used as they are. Its clients of language models are not: whatever module is missing for them is an
empty stand-in. Needed: Python 3.11, pydantic 2, PyYAML, deepdiff.
"""

import importlib.abc
import importlib.machinery
import json
import re
import sys
import types
from unittest.mock import MagicMock

STAND_INS = {"openai", "anthropic", "cohere", "google", "tenacity", "rich", "requests", "langchain", "torch", "transformers", "docstring_parser"}


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Makes modules that are not installed, after all other finders."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in STAND_INS:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        module.__path__ = []
        module.__getattr__ = lambda name: MagicMock()
        if spec.name == "docstring_parser":
            module.parse = parse_docstring
        return module

    def exec_module(self, module):
        pass


def parse_docstring(text):
    """What docstring_parser.parse says of the reStructuredText of the checkout: the first line, and parameters with their descriptions."""
    first, *lines = (line.strip() for line in text.strip().splitlines())
    params = []
    for line in lines:
        if line.startswith(":param "):
            name, _, said = line.removeprefix(":param ").partition(":")
            params.append(types.SimpleNamespace(arg_name=name.strip(), description=said.strip()))
        elif params and line and not line.startswith(":"):
            params[-1].description += "\n" + line
    return types.SimpleNamespace(short_description=first, params=params)


sys.path.insert(0, sys.argv[1] + "/src")
sys.meta_path.append(StandIns())
import pydantic  # noqa: E402

pydantic.EmailStr = str  # addresses are not checked, so that email_validator is not needed
from agentdojo.base_tasks import BaseUserTask  # noqa: E402
from agentdojo.functions_runtime import FunctionCall, FunctionsRuntime  # noqa: E402
from agentdojo.task_suite.load_suites import get_suites  # noqa: E402

VERSION = "v1.2.1"
plain = pydantic.TypeAdapter(object)


def to_json(value):
    return json.loads(plain.dump_json(value, fallback=str, warnings=False))


def server_of(function):
    """The server of a tool: the client's module."""
    return function.run.__module__.rpartition(".")[2].removesuffix("_client").replace("_", "-")


def leaves(value):
    """The texts, numbers and keys of a JSON value, in the order of program.js."""
    if isinstance(value, dict):
        return [leaf for key, item in value.items() for leaf in [key, *leaves(item)]]
    if isinstance(value, list):
        return [leaf for item in value for leaf in leaves(item)]
    return [value]


def sources(value, answers, prompt):
    """The value, with the place of each text in it that an answer has and the user's prompt has not."""
    if isinstance(value, dict):
        return {key: sources(item, answers, prompt) for key, item in value.items()}
    if isinstance(value, list):
        return [sources(item, answers, prompt) for item in value]
    if not isinstance(value, str) or not value or value in prompt:
        return value
    found = [(n, i, leaf) for n, all_ in reversed(list(enumerate(answers))) for i, leaf in enumerate(all_) if isinstance(leaf, str) and value in leaf]
    for n, i, leaf in sorted(found, key=lambda f: f[2] != value):  # whole texts first
        at, end = leaf.index(value), leaf.index(value) + len(value)
        before, after = TOKENISED.split(leaf[:at])[-1][-CONTEXT:], TOKENISED.split(leaf[end:])[0][:CONTEXT]
        times = sum(part.count(before) for part in TOKENISED.split(leaf[:at])) if before else 0
        return {"answer": n, "leaf": i, "before": before, "times": times, "after": after, "last": end + len(after) == len(leaf)}
    return value


CONTEXT = 12  # characters by which a program finds a part of a text
TOKENISED = re.compile(r"\S*@\S*")  # addresses, of which a program sees tokens


class Suite:
    def __init__(self, name):
        self.suite = get_suites(VERSION)[name]
        self.runtime = FunctionsRuntime(self.suite.tools)

    def describe(self):
        tasks = lambda all_: [  # noqa: E731
            {"id": t.ID, "prompt": getattr(t, "PROMPT", None) or t.GOAL, "calls": len(t.ground_truth(self.environment(t, {}))), "says": t.GROUND_TRUTH_OUTPUT}
            for t in all_.values()
        ]
        tools = [
            {"server": server_of(f), "name": f.name, "description": f.full_docstring.strip(), "input": f.parameters.model_json_schema()}
            for f in self.suite.tools
        ]
        return {"version": VERSION, "tools": tools, "users": tasks(self.suite.user_tasks), "injections": tasks(self.suite.injection_tasks)}

    def environment(self, task, injections):
        made = self.suite.load_and_inject_default_environment(injections)
        return task.init_environment(made) if isinstance(task, BaseUserTask) else made

    def seen(self, user):
        """The places of injections that the calls of a user's task read, and the number of the first call that reads one."""
        marks = {vector: f"mark-of-{vector}-end" for vector in self.suite.get_injection_vector_defaults()}
        environment = self.environment(user, marks)
        vectors, first = set(), None
        for n, call in enumerate(user.ground_truth(environment)):
            answer, _ = self.runtime.run_function(environment, call.function, call.args)
            text = json.dumps(to_json(answer))
            found = {vector for vector, mark in marks.items() if mark in text}
            if found and first is None:
                first = n
            vectors |= found
        return vectors, first

    def begin(self, user, injection):
        """Makes the environment of a pair, or of a user's task alone."""
        self.user = self.suite.user_tasks[user]
        self.injection = self.suite.injection_tasks[injection] if injection else None
        injected, first = {}, None
        if self.injection:
            vectors, first = self.seen(self.user)
            injected = {vector: json.dumps(self.injection.GOAL)[1:-1] for vector in vectors}
        self.post = self.environment(self.user, injected)
        self.pre = self.post.model_copy(deep=True)
        self.trace = []
        calls = self.user.ground_truth(self.pre.model_copy(deep=True))
        cut = len(calls) if first is None else first + 1
        wants = self.injection.ground_truth(self.pre.model_copy(deep=True)) if injected else []
        return {"plan": dict(zip(("before", "injected", "rest"), self.follow([calls[:cut], wants, calls[cut:]]))), "seen": first is not None}

    def follow(self, groups):
        """Says, of each value in the arguments of calls, in which answer before it stands."""
        environment, answers, planned = self.pre.model_copy(deep=True), [], []
        for group in groups:
            planned.append([])
            for call in group:
                args = sources(to_json(dict(call.args)), answers, self.user.PROMPT)
                planned[-1].append({"tool": call.function, "args": args})
                answer, _ = self.runtime.run_function(environment, call.function, call.args)
                answers.append(leaves(to_json(answer)))
        return planned

    def call(self, tool, args):
        self.trace.append(FunctionCall(function=tool, args=args))
        value, error = self.runtime.run_function(self.post, tool, args)
        return {"error": error} if error else {"value": to_json(value)}

    def judge(self, output):
        said = [{"type": "text", "content": output}]
        check = lambda task: bool(self.suite._check_task_result(task, said, self.pre, self.post, self.trace))  # noqa: E731
        return {"utility": check(self.user), "security": bool(self.injection) and check(self.injection)}


def main():
    suite, answers, sys.stdout = None, sys.stdout, sys.stderr
    for line in sys.stdin:
        request = json.loads(line)
        op = request.pop("op")
        if op == "open":
            suite = Suite(request["suite"])
            answer = suite.describe()
        else:
            answer = getattr(suite, op)(**request)
        print(json.dumps(answer), file=answers, flush=True)


main()
