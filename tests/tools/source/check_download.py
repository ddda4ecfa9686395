#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`--download` by huggingface_hub, from a hub of this test's own: what is asked for, what is left there, and what is said if it fails.

  check_download.py --sinter build/bin/sinter

Models are downloaded once; later runs need no hub. Of a repository other frameworks' weights stay where they are.
"""
import argparse
import hashlib
import http.server
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests" / "models")]
from check_decoders import GOLDENS, write_folder  # noqa: E402

NAME, COMMIT, ROW, TOKENS = "org/tiny", "0123456789abcdef0123456789abcdef01234567", "qwen2", 8


class Hub(http.server.BaseHTTPRequestHandler):
    """Repositories (folders) by name, as huggingface.co answers for them."""
    protocol_version = "HTTP/1.1"
    repositories, sent = {}, []

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        path = unquote(urlsplit(self.path).path).strip("/")
        is_api = path.startswith("api/models/")
        words = path.removeprefix("api/models/").split("/")
        folder = self.repositories.get("/".join(words[:2]))
        if folder is None:
            self.answer(404, b'{"error": "Repository not found"}', {"X-Error-Code": "RepoNotFound"})
        elif is_api and words[2:3] == ["tree"]:
            self.answer(200, json.dumps([{"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
                                         for name, data in self.files(folder).items()]).encode())
        elif is_api:
            self.answer(200, json.dumps({"id": "/".join(words[:2]), "sha": COMMIT, "private": False, "tags": [], "downloads": 0,
                                         "siblings": [{"rfilename": name} for name in self.files(folder)]}).encode())
        else:  # ORG/NAME/resolve/REVISION/FILE
            name = "/".join(words[4:])
            data = self.files(folder).get(name)
            if data is None:
                return self.answer(404, b"", {"X-Error-Code": "EntryNotFound"})
            if self.command == "GET":
                self.sent.append(name)
            self.answer(200, data, {"ETag": f'"{hashlib.sha1(data).hexdigest()}"', "X-Repo-Commit": COMMIT})

    @staticmethod
    def files(folder):
        return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}

    def answer(self, code, body, headers=None):
        self.send_response(code)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_):
        pass


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    sinter = p.parse_args().sinter
    golden = json.loads(GOLDENS.read_text())[ROW]
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        write_folder(ROW, golden, folder / "tiny")
        (folder / "tiny/pytorch_model.bin").write_bytes(b"another framework's")
        Hub.repositories = {NAME: folder / "tiny"}
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "XDG_")) and "proxy" not in name.lower()}
        environment = {**kept, "HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}", "HF_HOME": str(folder / "hub"),
                       "SINTER_CACHE_DIR": str(folder / "cache"), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

        def generate(*words):
            return subprocess.run([sinter, "generate", *words, "--ids", ",".join(map(str, golden["prompt"])), "--max-tokens", str(TOKENS),
                                   "--no-stop", "--no-rates", "--target=cpu", "--json"], env=environment, capture_output=True, text=True)

        def refused(done, *texts):
            assert done.returncode == 2 and all(text in done.stderr for text in texts), (done.returncode, done.stderr)

        refused(generate(NAME), "--download gets it")
        assert not Hub.sent, Hub.sent
        refused(generate("org/none", "--download"), "was not downloaded")
        refused(generate(NAME, "--revision", "v2"), "at the revision 'v2'")
        found = generate(NAME, "--download")
        assert found.returncode == 0, found.stderr
        assert json.loads(found.stdout)["tokens"] == golden["tokens"][:TOKENS], found.stdout
        assert sorted(Hub.sent) == ["config.json", "model.safetensors"], Hub.sent
        server.shutdown()
        server.server_close()
        again = generate(NAME)
        assert again.returncode == 0 and "compiling" not in again.stderr, again.stderr
    print("ok")


if __name__ == "__main__":
    main()
