#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""vLLM over the work of run_serving.py, in one process, by token ids, with random weights: the peer of `sinter generate --requests`.

  run_vllm.py --size 8b --way f16 --out tests/perf/results/vllm_h100.json     results are added to a file of the same commit
  run_vllm.py --size 1b --way fp8 --work offline_128_128,poisson --rate 25 --out part.json

Needs vLLM 0.26 and a GPU. Work:
  offline_IN_OUT    256 requests at once (IN random tokens in, OUT out) by LLM.generate, the median of the runs
  decode_N          N requests at once: by_difference_ms = (time of 256 out - time of 128 out) / 128, prompts of 128 tokens;
                    first_token_ms and between_tokens_ms: 32 in, 256 out, by the engine's steps (as ours measures it)
  poisson           as ours: 256 requests of 128 in, 128 out, arrivals at 70 % of offline_128_128's requests/s, or --rate
  poisson_mixed     200 requests, 128..1024 in, 64..256 out; at 70 % of the rate at which all at once are done, or --mixed-rate
  prefix            64 prompts of 1,280 tokens, 1,152 of them shared, 32 out; run it with --prefix-caching, and without
Ways: f16; fp8 (weights and activations fp8, cache fp8); fp8w (cache in f16).
"""
import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from common import provenance

BEGAN = time.perf_counter()
CACHE = os.environ.setdefault("VLLM_CACHE_ROOT", os.path.join(tempfile.gettempdir(), "vllm_cache"))
for name, value in {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_USE_FLASHINFER_SAMPLER": "0", "VLLM_NO_USAGE_STATS": "1",
    "VLLM_DO_NOT_TRACK": "1", "DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1",
    "VLLM_HOST_IP": "127.0.0.1", "GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo", "VLLM_PLUGINS": "",
    "TRITON_CACHE_DIR": CACHE + "/triton", "TORCHINDUCTOR_CACHE_DIR": CACHE + "/inductor", "TOKENIZERS_PARALLELISM": "false",
}.items():
    os.environ.setdefault(name, value)

SIZES = {
    "8b": dict(hidden_size=4096, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8, head_dim=128,
               intermediate_size=14336, tie_word_embeddings=False),
    "1b": dict(hidden_size=2048, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8, head_dim=64,
               intermediate_size=8192, tie_word_embeddings=True),
}
VOCABULARY = 128256
# a cache of fp8 needs bfloat16: FlashAttention 3 writes no float16 from fp8 ("For FP8 input, output must have dtype BF16")
WAYS = {"f16": {}, "fp8": {"quantization": "fp8", "kv_cache_dtype": "fp8"}, "fp8w": {"quantization": "fp8"}}
WORK = "offline_128_128,decode_1,decode_64,decode_256,poisson,poisson_mixed,offline_2048_2048"
CAPTURE = {
    "few": [1, 2, 4, 8, 16, 32, 64, 128, 256],
    "mid": [1, 2, 4, *range(8, 64, 8), *range(64, 256, 16), *range(256, 513, 32)],
    "default": None,        # vLLM's own: 51 sizes to 512 with 256 sequences
}


def say(*words):
    print(f"[{time.perf_counter() - BEGAN:7.1f} s]", *words, flush=True)


def write_model(size, folder):
    folder.mkdir(parents=True, exist_ok=True)
    config = dict(architectures=["LlamaForCausalLM"], model_type="llama", vocab_size=VOCABULARY, hidden_act="silu",
                  rms_norm_eps=1e-5, rope_theta=500000.0, max_position_embeddings=8192, attention_bias=False, mlp_bias=False,
                  torch_dtype="float16", bos_token_id=128000, eos_token_id=128001, use_cache=True, initializer_range=0.02,
                  **SIZES[size])
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    return str(folder)


def percentiles(seconds):
    import numpy as np
    if not len(seconds):
        return None
    return {"median": round(float(np.median(seconds)) * 1e3, 3),
            **{f"p{p}": round(float(np.percentile(seconds, p)) * 1e3, 3) for p in (90, 99)}}


class Bench:
    def __init__(self, a):
        say("import vllm")
        import numpy as np
        import torch
        import vllm
        from vllm import LLM, SamplingParams
        from vllm.sampling_params import RequestOutputKind
        say("imported", vllm.__version__, "torch", torch.__version__)
        from vllm.model_executor.models import registry
        if hasattr(registry, "_run_in_subprocess"):      # the look at the model's class: here, not in a process of its own
            registry._run_in_subprocess = lambda function: function()
        self.np, self.SamplingParams, self.kind = np, SamplingParams, RequestOutputKind
        compilation = json.loads(a.compilation_config) if a.compilation_config else {}
        sizes = [int(x) for x in a.capture.split(",")] if a.capture[0].isdigit() else CAPTURE[a.capture]
        if sizes and not a.eager:
            compilation["cudagraph_capture_sizes"] = sizes
        options = dict(
            model=write_model(a.size, a.folder / a.size), load_format="dummy", skip_tokenizer_init=True, seed=0,
            dtype=a.dtype or ("bfloat16" if a.way == "fp8" else "float16"),
            max_model_len=4352, max_num_seqs=256, gpu_memory_utilization=a.memory, enable_prefix_caching=a.prefix_caching,
            generation_config="vllm", enforce_eager=a.eager, compilation_config=compilation, **WAYS[a.way])
        if a.attention:
            options["attention_config"] = {"backend": a.attention}
        options.update(json.loads(a.llm) if a.llm else {})
        say("LLM", options)
        began = time.perf_counter()
        self.llm = LLM(**options)
        self.engine = self.llm.llm_engine
        self.count = 0
        self.about = {"vllm": vllm.__version__, "torch": torch.__version__, "start_s": round(time.perf_counter() - began, 1),
                      "options": {k: v for k, v in options.items() if k != "model"},
                      "environment": {k: v for k, v in os.environ.items() if k.startswith("VLLM_")}}
        try:
            self.about["device"] = torch.cuda.get_device_name(0)
        except Exception as error:
            self.about["device"] = repr(error)
        try:
            c = self.engine.vllm_config
            self.about["config"] = {
                "max_num_batched_tokens": c.scheduler_config.max_num_batched_tokens, "max_num_seqs": c.scheduler_config.max_num_seqs,
                "async_scheduling": c.scheduler_config.async_scheduling, "gpu_blocks": c.cache_config.num_gpu_blocks,
                "block_size": c.cache_config.block_size, "cache_dtype": str(c.cache_config.cache_dtype),
                "cudagraph_mode": str(c.compilation_config.cudagraph_mode),
                "capture_sizes": c.compilation_config.cudagraph_capture_sizes, "mode": str(c.compilation_config.mode),
                "v2_model_runner": bool(getattr(c, "use_v2_model_runner", False)),
                "attention_backend": str(c.attention_config.backend)}
        except Exception as error:
            self.about["config"] = repr(error)
        say("started", json.dumps(self.about["config"]))

    def params(self, tokens, **more):
        return self.SamplingParams(temperature=0.0, max_tokens=tokens, ignore_eos=True, detokenize=False, **more)

    def generate(self, prompts, tokens):
        """seconds, tokens made"""
        tokens = tokens if isinstance(tokens, list) else [tokens] * len(prompts)
        if self.engine.vllm_config.cache_config.enable_prefix_caching:
            self.llm.reset_prefix_cache()
        prompts = [{"prompt_token_ids": p} for p in prompts]
        params = [self.params(t) for t in tokens]
        began = time.perf_counter()
        outputs = self.llm.generate(prompts, params, use_tqdm=False)
        seconds = time.perf_counter() - began
        made = sum(len(o.outputs[0].token_ids) for o in outputs)
        assert made == sum(tokens), (made, sum(tokens))
        return seconds, made

    def loop(self, prompts, tokens, arrivals=None):
        """through the engine's steps: a row as ours writes it. arrivals: seconds from the start, in order; none: all at once"""
        tokens = tokens if isinstance(tokens, list) else [tokens] * len(prompts)
        arrivals = [0.0] * len(prompts) if arrivals is None else arrivals
        n, sent, done, steps, idle = len(prompts), 0, 0, 0, 0.0
        params = [self.params(t, output_kind=self.kind.DELTA) for t in tokens]
        first, last, gaps, got, late = {}, {}, [], 0, []
        base = self.count
        self.count += n
        began = time.perf_counter()
        while done < n:
            now = time.perf_counter() - began
            while sent < n and arrivals[sent] <= now:
                late.append(now - arrivals[sent])
                self.engine.add_request(f"r{base + sent}", {"prompt_token_ids": prompts[sent]}, params[sent])
                sent += 1
            if not self.engine.has_unfinished_requests():
                if sent < n:
                    time.sleep(min(max(arrivals[sent] - (time.perf_counter() - began), 0), 0.001))
                continue
            outputs = self.engine.step()
            at = time.perf_counter() - began
            steps += 1
            for o in outputs:
                new = len(o.outputs[0].token_ids)
                if new:
                    i = int(o.request_id[1:].split("-")[0]) - base
                    got += new
                    if i not in first:
                        first[i] = at - arrivals[i]
                    else:
                        gaps.append((at - last[i]) / new)
                        gaps.extend([(at - last[i]) / new] * (new - 1))
                    last[i] = at
                done += o.finished
        seconds = time.perf_counter() - began
        assert got == sum(tokens), (got, sum(tokens))
        return {"requests": n, "seconds": round(seconds, 4), "tokens": got, "tokens_per_s": round(got / seconds, 1),
                "requests_per_s": round(n / seconds, 4), "steps": steps, "first_token_ms": percentiles(list(first.values())),
                "between_tokens_ms": percentiles(gaps), "sent_late_ms": percentiles(late)}

    def ids(self, draw, count):
        return draw.integers(0, VOCABULARY, count).tolist()

    def warm(self):
        draw = self.np.random.default_rng(1)
        for count, length, tokens in ((1, 32, 8), (64, 128, 8), (256, 128, 32), (8, 2048, 8)):
            seconds, _ = self.generate([self.ids(draw, length) for _ in range(count)], tokens)
            say(f"warm-up {count} x {length} + {tokens}: {seconds:.2f} s")
        self.loop([self.ids(draw, 32) for _ in range(4)], 8)

    def work(self, name, rows, a):
        draw = self.np.random.default_rng(2)
        kind, *numbers = name.split("_")
        if kind == "offline":
            size, tokens = map(int, numbers)
            prompts = [self.ids(draw, size) for _ in range(a.requests)]
            runs = []
            for _ in range(a.repeats if size * tokens < 10 ** 6 else 1):
                seconds, made = self.generate(prompts, tokens)
                runs.append(seconds)
                say(f"{name}: {seconds:.3f} s, {made / seconds:.0f} tokens/s")
            seconds = float(self.np.median(runs))
            return {"requests": a.requests, "seconds": round(seconds, 4), "runs_s": [round(x, 4) for x in runs], "tokens": made,
                    "tokens_per_s": round(made / seconds, 1), "requests_per_s": round(a.requests / seconds, 4)}
        if kind == "decode":
            count = int(numbers[0])
            prompts = [self.ids(draw, 128) for _ in range(count)]
            self.generate(prompts, 16)
            short, long = [], []
            for _ in range(2):
                short.append(self.generate(prompts, 128)[0])
                long.append(self.generate(prompts, 256)[0])
            row = self.loop([self.ids(draw, 32) for _ in range(count)], 256)
            return {"by_difference_ms": round((min(long) - min(short)) / 128 * 1e3, 4), "s_128_out": [round(x, 4) for x in short],
                    "s_256_out": [round(x, 4) for x in long], **row}
        if kind == "prefix":
            shared = self.ids(draw, 1152)
            prompts = [shared + self.ids(draw, 128) for _ in range(64)]
            return {"seconds_runs": [round(self.generate(prompts, 32)[0], 4) for _ in range(3)], "prefix_caching": a.prefix_caching}
        if name == "poisson":
            rate = a.rate or 0.7 * rows["offline_128_128"]["requests_per_s"]
            arrivals = (self.np.cumsum(draw.exponential(1 / rate, 256))).tolist()
            return {"rate": round(rate, 4), **self.loop([self.ids(draw, 128) for _ in range(256)], 128, arrivals)}
        if name == "poisson_mixed":
            prompts = [self.ids(draw, int(x)) for x in draw.integers(128, 1025, 200)]
            tokens = [int(x) for x in draw.integers(64, 257, 200)]
            full = None
            if not a.mixed_rate:
                full = min(self.generate(prompts, tokens)[0] for _ in range(2))
                say(f"{name}: all at once {full:.3f} s")
            rate = a.mixed_rate or 0.7 * 200 / full
            arrivals = (self.np.cumsum(draw.exponential(1 / rate, 200))).tolist()
            return {"rate": round(rate, 4), "all_at_once_s": full, **self.loop(prompts, tokens, arrivals)}
        raise ValueError(name)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--size", default="8b", choices=SIZES)
    p.add_argument("--way", default="f16", choices=WAYS)
    p.add_argument("--work", default=WORK)
    p.add_argument("--rate", type=float, help="requests/s of poisson")
    p.add_argument("--mixed-rate", type=float, help="requests/s of poisson_mixed")
    p.add_argument("--requests", type=int, default=256, help="of offline work")
    p.add_argument("--repeats", type=int, default=3, help="of short offline work")
    p.add_argument("--capture", default="mid", help="few, mid, default, or sizes divided by commas")
    p.add_argument("--prefix-caching", action="store_true")
    p.add_argument("--eager", action="store_true", help="no torch.compile and no graphs")
    p.add_argument("--dtype", help="float16 or bfloat16; none: float16, for fp8 bfloat16")
    p.add_argument("--attention", help="FLASH_ATTN, TRITON_ATTN, ...; none: vLLM chooses")
    p.add_argument("--compilation-config", help="JSON")
    p.add_argument("--llm", help="JSON: more arguments of LLM")
    p.add_argument("--memory", type=float, default=0.9)
    p.add_argument("--deadline", type=float, default=500, help="seconds after which nothing new starts")
    p.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "vllm_models")
    p.add_argument("--commit", help="the commit measured, where there is no git checkout")
    p.add_argument("--out", type=Path, default=Path("vllm.json"))
    a = p.parse_args()
    result = {**provenance(a.commit), "vllm": {}}
    if a.out.exists() and (before := json.loads(a.out.read_text()))["commit"] == result["commit"]:
        result["vllm"] = before["vllm"]
    entry = result["vllm"].setdefault(f"{a.size}_{a.way}", {})

    def write():
        temporary = a.out.with_suffix(".tmp")
        temporary.write_text(json.dumps(result, indent=1))
        temporary.replace(a.out)

    bench = Bench(a)
    entry["about"] = {**bench.about, "date": time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())}
    rows = entry.setdefault("work", {})
    write()
    bench.warm()
    for name in a.work.split(","):
        if time.perf_counter() - BEGAN > a.deadline:
            say("deadline: left out", name)
            continue
        try:
            rows[name] = bench.work(name, rows, a)
        except Exception as error:
            import traceback
            traceback.print_exc()
            rows[name] = {"failed": repr(error)[:500]}
        say(name, json.dumps(rows[name]))
        write()
    say("done")
    sys.stdout.flush()
    os._exit(0)             # no shutdown to wait for


if __name__ == "__main__":
    main()
