"""Files elsewhere: read by their address where polars does; failures have exit codes."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import polars as pl
import pytest

from calibkit.errors import ResourceError, UsageError
from calibkit.files.explain import explain
from calibkit.files.sources import open_source
from tests.cli.score_files import simulate, write
from tests.conftest import Invoke, make

FRAME = simulate(400)
NAMES = ("rows.parquet", "rows.csv", "rows.csv.gz", "rows.ndjson", "rows.arrow")


class Served(BaseHTTPRequestHandler):
    """Serves files, and parts of them."""

    files: ClassVar[dict[str, bytes]] = {}
    partly: ClassVar[bool] = True
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        data = self.files.get(self.path.lstrip("/"))
        if data is None:
            self.send_response(403 if "secret" in self.path else 404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range") or "")
        size = len(data)
        if asked and self.partly:
            start = int(asked[1]) if asked[1] else max(size - int(asked[2]), 0)
            end = min(int(asked[2]) + 1, size) if asked[1] and asked[2] else size
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{size}")
            data = data[start:end]
        else:
            self.send_response(200)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if body:
            self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("served")
    for name in NAMES:
        Served.files[name] = write(FRAME, folder / name).read_bytes()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Served)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_those_of_the_file(address: str, name: str) -> None:
    source = open_source([f"{address}/{name}"])
    assert source.rows == FRAME.height
    assert source.read().equals(FRAME)
    assert pl.concat(window.read() for window in source.windows(rows=150)).equals(FRAME)
    assert source.metadata() is not None
    assert source.stretch(130, 150).read().equals(FRAME[130:280])


def test_a_model_of_rows_elsewhere_is_that_of_the_file(
    tmp_path: Path, invoke: Invoke, address: str
) -> None:
    rows, found = write(FRAME, tmp_path / "rows.parquet"), []
    for place in (rows, f"{address}/rows.parquet"):
        model = make(tmp_path / "model.json", "calibrate", place)
        found.append(model.read_bytes())
    assert found[0] == found[1]
    done = invoke("apply", model, f"{address}/rows.csv", "--keep", "id")
    assert done.code == 0 and done.stdout.count(b"\n") == 401


@pytest.mark.parametrize(
    ("place", "error", "said"),
    [
        ("nothing.parquet", UsageError, "no such file; check the address"),
        ("secret.parquet", ResourceError, "credentials"),
        ("ftp://example.org/rows.parquet", UsageError, "ftp:// are not read"),
        ("rows.parquet", UsageError, "download it first"),  # of a server that serves no parts
    ],
)
def test_what_is_not_there_or_not_ours(
    place: str, error: type[Exception], said: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Served, "partly", False)
    with pytest.raises(error, match=said):
        open_source([place if "://" in place else f"{address}/{place}"])


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("error sending request for url (https://b.s3.amazonaws.com/)\n\nCaused by:", "network"),
        (
            "object-store error: Generic HTTP error: error sending request\nCaused by: …",
            "could not be read over the network (Generic HTTP error",
        ),
        (
            "object-store error: Generic S3 error: Error performing PUT "
            "http://169.254.169.254/latest/api/token in 5 ms - 403 Forbidden",
            "credentials",
        ),
        (
            "object-store error: Generic MicrosoftAzure error: Account must be specified",
            "credentials",
        ),
    ],
)
def test_a_store_without_network_or_credentials(said: str, told: str) -> None:
    found = explain("s3://b/rows.parquet", OSError(said))
    assert isinstance(found, ResourceError)
    assert told in found.message
