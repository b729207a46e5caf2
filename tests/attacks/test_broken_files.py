"""Files of a running server that are broken before SIGHUP: it goes on, and a key that was taken out ends."""

from __future__ import annotations

import os
import signal

import httpx
import pytest

from alphita.service import keys
from tests.service.test_serving import serving

RIGHTS = '["*"]\nrights = ["read"]\n'
BROKEN = {
    "the audit log is a folder": ("audit", os.mkdir),
    "the audit log is a pipe that nobody reads": ("audit", os.mkfifo),
    "the roles are no TOML": ("rights", lambda path: path.write_text("[[[")),
    "the roles are a folder": ("rights", os.mkdir),
}


@pytest.fixture(scope="module")
def server(index_path, tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    (folder / "rights").write_text(RIGHTS)
    keys.add(folder / "keys", "ann")
    options = [part for name in ("keys", "rights", "audit") for part in (f"--{name}", folder / name)]
    with serving(folder, "--index", index_path, *options) as made:
        made.wait_for("ready")
        yield made, folder


@pytest.mark.parametrize(("name", "put"), BROKEN.values(), ids=BROKEN)
def test_a_key_that_was_taken_out_ends_whatever_else_is_broken(server, name, put):
    running, folder = server
    before = (folder / "keys").read_text()
    bearer = {"Authorization": f"Bearer {keys.add(folder / 'keys', 'bob')}"}

    def hang_up(event: str) -> int:
        count = sum(line["event"] == event for line in running.log())
        running.process.send_signal(signal.SIGHUP)
        running.wait_for(event, count + 1)
        return httpx.get(f"{running.url}/search?q=cold", headers=bearer).status_code

    assert hang_up("reloaded") == 200
    (folder / "keys").write_text(before)
    (folder / name).rename(folder / "moved")
    put(folder / name)
    try:
        assert hang_up("reloaded" if name == "audit" else "reloaded in part") == 401
        assert running.process.poll() is None
        assert httpx.get(f"{running.url}/health").status_code == 200
    finally:
        (folder / name).rmdir() if (folder / name).is_dir() else (folder / name).unlink()
        (folder / "moved").rename(folder / name)
