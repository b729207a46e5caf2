"""The tools for language models, asked by the SDK's own client."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("mcp")

from mcp import Client
from mcp.client.stdio import StdioServerParameters

from alphita.answer.normalizer import Normalizer
from alphita.index.store import Index
from alphita.service import agents, keys
from alphita.service.settings import Settings
from tests.cli.command import alphita
from tests.doubles import HashEncoder
from tests.waiting import SECONDS

ROOT = Path(__file__).parents[2]
TOOLS = ["normalize", "check_code", "annotate", "lookup", "search"]
PATIENT = "Jane Roe's seizure"


def command(index: Path, *more: object) -> list[str]:
    return ["-m", "tests.service.run_server", "mcp", "--to", str(index), "--threads", "1", *map(str, more)]


def ask(server: Any, asking: Callable[[Client], Awaitable[Any]], **options: Any) -> Any:
    async def asked() -> Any:
        async with Client(server, **options) as client:
            return await asking(client)

    return asyncio.run(asyncio.wait_for(asked(), SECONDS))


async def call(client: Client, tool: str, **given: Any) -> dict[str, Any]:
    """Return what a tool answers, after a check against the schema that it promised."""
    answer = await client.call_tool(tool, given)
    assert not answer.is_error, answer.content
    return answer.structured_content


async def refused(client: Client, tool: str, **given: Any) -> str:
    answer = await client.call_tool(tool, given)
    assert answer.is_error
    return answer.content[0].text


class Deciding(Normalizer):
    """Decides as a calibrated one may."""

    decision = "accept"

    def normalize(self, mentions, **options):
        return [replace(one, decision=self.decision, confidence=0.5) for one in super().normalize(mentions, **options)]


@pytest.fixture
def deciding(index_path) -> Deciding:
    return Deciding(Index.open(index_path), encoder=HashEncoder())


def test_over_stdio_a_client_asks_every_tool_and_the_log_has_numbers_alone(index_path, tmp_path):
    async def everything(client: Client) -> list[dict[str, Any]]:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == TOOLS
        assert all(tool.output_schema["type"] == "object" for tool in tools)
        assert all(tool.annotations.read_only_hint for tool in tools)
        for tool in tools:
            assert ('only where "decision" is "accept"' in tool.description) == (tool.name in ("normalize", "annotate"))
        answers = [
            await call(client, "normalize", mentions=["Headache", PATIENT], top=2),
            await call(client, "check_code", mention="Headache", concept_id="T:2"),
            await call(client, "annotate", texts=["No headache."]),
            await call(client, "lookup", concept_id="T:2"),
            await call(client, "search", text="head"),
        ]
        problems = [
            await refused(client, "lookup", concept_id="T:99"),
            await refused(client, "normalize", mentions=["x" * 1_001]),
            await refused(client, "normalize", mentions=["x"] * 101),
            await refused(client, "normalize", mentions=["x"], billable=True),
            await refused(client, "normalize", mentions=["x"], top=101),
        ]
        assert [one.partition(": ")[2][:25] for one in problems[:4]] == [
            "no concept has this id; f",
            "1,001 characters, at most",
            "101 mentions, at most 100",
            "this index tells neither ",
        ]
        return answers

    log = tmp_path / "log"
    program = ["-c", 'exec 2>"$1"; shift; exec "$@"', "sh", str(log), sys.executable, *command(index_path)]
    environment = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "ALPHITA_CACHE") if name in os.environ}
    parameters = StdioServerParameters(
        command="sh", args=program, cwd=ROOT, env=environment | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    )
    normalized, checked, annotated, concept, found = ask(parameters, everything)
    # Without a calibration nothing is accepted, and the model is told so.
    answer = normalized["results"][0]
    assert (answer["decision"], answer["concept_id"], answer["candidates"][0]["concept_id"]) == ("review", None, "T:2")
    assert "no calibration, so that nothing is accepted" in answer["reason"]
    assert "no calibration" in checked["reason"]
    assert not checked["may_be_used"]
    [mention] = annotated["results"][0]["mentions"]
    assert (mention["mention"], mention["is_present"], mention["concept_id"]) == ("headache", False, None)
    assert mention["reason"] == 'equal to "Headache" of Headache; negated by "No"'
    assert concept["name"] == "Headache"
    assert found["concepts"][0]["id"] == "T:2"
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    assert [(line["tool"], line["rows"]) for line in lines][:2] == [("normalize", 2), ("check_code", 1)]
    assert all(set(line) <= {"time", "level", "event", "tool", "rows", "refused"} for line in lines)
    assert "Jane" not in log.read_text()


def test_a_code_is_given_only_where_it_is_accepted(deciding):
    async def asking(client: Client) -> list[dict[str, Any]]:
        return [
            (await call(client, "normalize", mentions=["Headache"]))["results"][0],
            await call(client, "check_code", mention="Headache", concept_id="T:2"),
            await call(client, "check_code", mention="Headache", concept_id="T:1"),
            await call(client, "check_code", mention="Headache", concept_id="made up"),
            await call(client, "check_code", mention="Headache", concept_id="2"),
        ]

    answer, same, other, invented, bare = ask(agents.server(deciding, Settings()), asking)
    assert (answer["decision"], answer["concept_id"], answer["confidence"]) == ("accept", "T:2", 0.5)
    assert [one["may_be_used"] for one in (same, other, invented, bare)] == [True, False, False, True]
    assert other["reason"].startswith("another code is accepted, T:2: ")
    deciding.decision, asked = "review", []
    further = [lambda kind, questions: asked.append(kind) or agents.Work(deciding)(kind, questions)]
    answer, same, *_ = ask(agents.server(deciding, Settings(), further), asking)
    assert (answer["decision"], answer["concept_id"], same["may_be_used"], bool(asked)) == ("review", None, False, True)
    assert answer["candidates"][0]["concept_id"] == "T:2"


def test_a_fault_tells_the_model_nothing_of_what_was_asked(deciding, monkeypatch, caplog):
    def fail(*_: object, **__: object) -> None:
        raise ValueError(PATIENT)

    monkeypatch.setattr(Deciding, "normalize", fail)
    server = agents.server(deciding, Settings())
    problem = ask(server, lambda client: refused(client, "normalize", mentions=[PATIENT]))
    assert "Jane" not in problem + "".join(record.getMessage() for record in caplog.records)
    assert "see the server's log" in problem


def test_over_http_access_is_that_of_the_service(index_path, tmp_path):
    path = tmp_path / "keys.tsv"
    key, monitor = keys.add(path, "ann"), keys.add(path, "grafana", roles=["monitor"])
    for options, headers in (((), {}), (("--keys", path), {"Authorization": f"Bearer {key}"})):
        with open(tmp_path / "log", "w") as log:
            program = [sys.executable, *command(index_path, "--http", "127.0.0.1:0", *options)]
            environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
            process = subprocess.Popen(
                program, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=log, text=True
            )
        try:
            line = process.stdout.readline()
            assert line.startswith("serving on http://"), line + (tmp_path / "log").read_text()
            url = line.split()[2] + "mcp"
            call_ = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
            with httpx.Client(headers={"Accept": "application/json, text/event-stream"}, timeout=SECONDS) as client:
                assert client.post(url, json=call_, headers={"Host": "evil.example"} | headers).status_code == 403
                assert client.post(url, json=call_, headers={"Origin": "http://evil.example"}).status_code == 403
                assert client.get(url, headers=headers).status_code == 405
                assert client.post(url, content=b"x" * 3_000_000, headers=headers).status_code == 413
                assert (client.post(url, json=call_).status_code == 401) == bool(options)
                sent = {"Authorization": f"Bearer {monitor}"}
                assert (client.post(url, json=call_, headers=sent).status_code == 403) == bool(options)
                assert client.get(url.replace("mcp", "ready")).json() == {"status": "ready"}
            if not options:
                for mode in ("auto", "legacy"):
                    found = ask(
                        url, lambda client: call(client, "normalize", mentions=[PATIENT, "Headache"]), mode=mode
                    )
                    assert found["results"][1]["candidates"][0]["concept_id"] == "T:2"
        finally:
            process.terminate()
            assert process.wait(SECONDS) == 0
            process.stdout.close()
        assert "Jane" not in (tmp_path / "log").read_text()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--http", "8080"), "--http '8080' is not HOST:PORT; write it as 127.0.0.1:8080"),
        (("--http", "0.0.0.0:0"), "listening on 0.0.0.0 would let other machines in"),
        (("--keys", "keys.tsv"), "--keys and --allow-host go with --http HOST:PORT"),
    ],
)
def test_wrong_use_is_said_at_once(options, problem, capsys):
    assert alphita("mcp", "--to", "none.index", *options) == 2
    assert problem in capsys.readouterr().err
