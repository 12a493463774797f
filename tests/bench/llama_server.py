"""llama-server as the package `xllamacpp` brings it, in a process of its own, spoken to over loopback.

Knows its HTTP interface; imports nothing of Fader. `python -m tests.bench.llama_server JOB` (JSON) is that process: it
prints its address and serves until its stdin ends.
"""

from __future__ import annotations

import http.client
import importlib
import importlib.util
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from tests.bench.harness import Missing
from tests.bench.sides import ROOT, SAMPLER

PACKAGE = "xllamacpp"
START_SECONDS = 60.0
CHAIN = {"samplers": ["top_k", "top_p", "temperature"], **SAMPLER}
"""As both sides sample."""


class ServerJob(msgspec.Struct, frozen=True, kw_only=True):
    """How to serve."""

    model: str
    length: int
    threads: int


class Streamed(NamedTuple):
    """One answer as the client saw it."""

    ttft_ms: float
    """From sending the request to the first token."""
    gaps_ms: list[float]
    tokens: int
    reused: int
    """Prompt tokens the server took from its cache, as it says itself."""
    server_ms: float
    """Its own time for the prompt."""


class LlamaServer:
    """A running server. Use as a context manager. Raises Missing when it cannot be had."""

    def __init__(self, job: ServerJob) -> None:
        if importlib.util.find_spec(PACKAGE) is None:
            raise Missing(f'The package {PACKAGE} is not installed: pip install -e ".[bench]" brings llama-server.')
        command = [sys.executable, "-m", "tests.bench.llama_server", msgspec.json.encode(job).decode()]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
        )
        told = self._address()
        self.version, self.system, where = told["version"], told["system"], urlsplit(told["address"])
        if where.hostname not in ("127.0.0.1", "localhost"):
            self.close()
            raise Missing(f"llama-server listens on {where.hostname}, not on loopback.")
        self.connection = http.client.HTTPConnection(where.hostname, where.port or 80, timeout=300)

    def _address(self) -> dict[str, str]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith('{"address"'):
                found: dict[str, str] = json.loads(line)
                return found
        self.close()
        raise Missing(f"llama-server of {PACKAGE} did not start: exit code {self.process.returncode}.")

    def stream(self, ids: Sequence[int], count: int, seed: int = 1) -> Streamed:
        """Generate `count` tokens after these ids, end tokens ignored, and time what arrives."""
        asked = {
            "prompt": list(ids), "n_predict": count, "stream": True, "cache_prompt": True, "ignore_eos": True,
            "return_tokens": True, "seed": seed, **CHAIN,
        }  # fmt: skip
        body = json.dumps(asked)
        self.connection.close()  # it may end an idle connection at any time, so each request has its own
        self.connection.connect()
        begin = time.perf_counter_ns()
        self.connection.request("POST", "/completion", body, {"Content-Type": "application/json"})
        answer = self.connection.getresponse()
        if answer.status != 200:
            raise Missing(f"llama-server answered {answer.status}: {answer.read(300)!r}")
        stamps: list[int] = []
        tokens = 0
        timings: dict[str, float] = {}
        while line := answer.readline():
            at = time.perf_counter_ns()
            if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
                continue
            told = json.loads(line[6:])
            if told.get("tokens"):
                stamps.append(at)
                tokens += len(told["tokens"])
            elif told.get("stop") and not stamps and count == 1:  # a token without text is told of by the end alone
                stamps.append(at)
                tokens += 1
            timings = told.get("timings") or timings
        if tokens != count or len(stamps) != count:
            raise Missing(f"llama-server sent {tokens} tokens in {len(stamps)} pieces, not {count} one by one.")
        gaps = [(after - before) * 1e-6 for before, after in itertools.pairwise(stamps)]
        reused, server_ms = int(timings.get("cache_n", -1)), float(timings.get("prompt_ms", -1.0))
        return Streamed((stamps[0] - begin) * 1e-6, gaps, tokens, reused, server_ms)

    def close(self) -> None:
        """End the server."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def __enter__(self) -> LlamaServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def serve(text: str) -> None:
    """Start the server and wait until nobody listens any more."""
    job = msgspec.json.decode(text, type=ServerJob)
    package: Any = importlib.import_module(PACKAGE)
    params = package.CommonParams()
    params.model.path = job.model
    params.n_ctx, params.n_parallel = job.length, 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = job.threads
    params.flash_attn_type = package.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_ENABLED
    params.cache_prompt = True
    params.port, params.verbosity = 0, -1
    server = package.Server(params)
    system = str(package.get_system_info())
    told = {"address": server.listening_address, "version": package.__version__, "system": system}
    print("\n" + json.dumps(told), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    serve(sys.argv[1])
