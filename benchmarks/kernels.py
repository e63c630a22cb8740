"""What the compiler makes of every Triton kernel, on any machine: no card is needed.

    python -m benchmarks.kernels [--capability 90] [--json] > benchmarks/kernels.md

Launches are taken down from the library's own calls at every size class, compiled for the given
compute capability and read with the tools that Triton brings along: registers per thread, bytes
spilled to the stack, shared memory, and how often tensor cores are used, which exact float32 never
may.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget

import wordsens
from wordsens.kernels import attention_triton, orthogonal_triton, vocabulary_triton
from wordsens.maps import position_sets
from wordsens.maps.attention.view import AttentionView
from wordsens.maps.raf import RandomAttentionFeatures

TYPES = {torch.float32: "*fp32", torch.int64: "*i64"}
ALIGNED = [["tt.divisibility", 16]]


class _Launches:
    """Stands in for a kernel and takes its launches down."""

    def __init__(self, kernel: Any, taken: list[tuple[Any, dict[str, Any]]]) -> None:
        self.kernel, self.taken = kernel, taken

    def __getitem__(self, grid: Any) -> Any:
        def launch(*args: Any, **options: Any) -> None:
            given = dict(zip(self.kernel.arg_names, args, strict=False)) | options
            self.taken.append((self.kernel, given))

        return launch


@contextmanager
def _taking_down() -> Iterator[list[tuple[Any, dict[str, Any]]]]:
    taken: list[tuple[Any, dict[str, Any]]] = []
    modules = (attention_triton, orthogonal_triton, vocabulary_triton)
    kept = [
        (module, name, value)
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, triton.JITFunction) and not name.startswith("_")
    ]
    try:
        for module, name, value in kept:
            setattr(module, name, _Launches(value, taken))
        yield taken
    finally:
        for module, name, value in kept:
            setattr(module, name, value)


def launches() -> list[tuple[Any, dict[str, Any]]]:
    """Every kernel at every size class, with arguments aligned as those of real sizes are."""
    with _taking_down() as taken:
        for name, n, d in (("raf", 32, 64), ("relu_raf", 31, 63), ("qkv", 32, 64)):
            X = torch.randn(1, n, d)
            map = wordsens.build_map(name, n=n, d=d, seed=0, dtype=torch.float32)
            # row 2 attends to the changed word alone: launches differ for such pairs
            X[0, 2] = -X[0, 0]
            heavy = RandomAttentionFeatures(-40 * torch.eye(d)).view(X, position_sets([[0]], n))
            view = map.view(X, position_sets([[0]], n))
            for candidates in (1, 8, 16, 24, 48) if name == "raf" else (8,):
                large = attention_triton.plan(64, candidates, 4096, 5120)
                for seen in (view, heavy) if candidates == 8 and name == "raf" else (view,):
                    v = seen.tokens[:, :, None].expand(1, 1, candidates, 1, d)
                    assert isinstance(seen, AttentionView)
                    with _planned(large):
                        attention_triton.value_and_grad(seen.constants, v)
        for count in (1, 8, 32):
            x, basis = torch.zeros(1, count, 512), torch.zeros(1, 48, 512)
            orthogonal_triton.sweep(x, basis)
            orthogonal_triton.sweep(x, basis, torch.zeros(1, count, 48))
        by_word, by_place = torch.zeros(16, 64), torch.zeros(16, 32)
        own = torch.zeros(32, 64)
        vocabulary_triton.changed_rows(
            by_word, by_word, by_word, own, by_place, by_place, by_place, by_place
        )
    return taken


@contextmanager
def _planned(plan: attention_triton.Plan) -> Iterator[None]:
    kept = attention_triton.plan
    attention_triton.plan = lambda *_: plan  # type: ignore[assignment]
    try:
        yield
    finally:
        attention_triton.plan = kept


def compiled(kernel: Any, given: dict[str, Any], capability: int) -> dict[str, Any]:
    """Compile one launch as Triton would, and read what came out."""
    names = kernel.arg_names
    constants = {p.name: given[p.name] for p in kernel.params if p.is_constexpr}
    signature: dict[str, str] = {}
    attributes: dict[tuple[int], Any] = {}
    for i, name in enumerate(names):
        value = given[name]
        if name in constants or (isinstance(value, int) and value == 1):
            constants[name], signature[name] = value, "constexpr"
        elif isinstance(value, torch.Tensor):
            signature[name], attributes[(i,)] = TYPES[value.dtype], ALIGNED
        elif isinstance(value, float):
            signature[name] = "fp32"
        else:
            signature[name] = "i32"
            if value % 16 == 0:
                attributes[(i,)] = ALIGNED
    options = {key: given[key] for key in ("num_warps", "num_stages") if key in given}
    source = triton.compiler.ASTSource(
        fn=kernel, signature=signature, constexprs=constants, attrs=attributes
    )
    made = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    usage, assembly = _read(made.asm["cubin"])
    registers, stack = re.findall(r"REG:(\d+) STACK:(\d+)", usage)[-1]
    flags = {k: v for k, v in constants.items() if k.isupper()}
    return {
        "kernel": kernel.__name__,
        "configuration": " ".join(f"{k.lower()}={int(v)}" for k, v in flags.items()),
        "registers": int(registers),
        "stack": int(stack),
        "shared": int(made.metadata.shared),
        "tensor_cores": len(re.findall(r"\b(?:[HQID]MMA|[HQI]GMMA)\b", assembly)),
    }


def _read(cubin: bytes) -> tuple[str, str]:
    tools = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(cubin)
        return tuple(  # type: ignore[return-value]
            subprocess.run(command, capture_output=True, text=True, check=True).stdout
            for command in (
                [str(tools / "cuobjdump"), "-res-usage", str(file)],
                [str(tools / "nvdisasm"), str(file)],
            )
        )


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Compile all Triton kernels; no card is needed.")
    parser.add_argument("--capability", type=int, default=90, help="90 for H100 (default)")
    parser.add_argument("--json", action="store_true", help="rows as JSON instead of a table")
    chosen = parser.parse_args(argv)
    rows = {}
    for kernel, given in launches():
        row = compiled(kernel, given, chosen.capability)
        rows[row["kernel"], row["configuration"]] = row
    if chosen.json:
        json.dump(list(rows.values()), sys.stdout)
        return
    print("# What the compiler makes of the kernels\n")
    print(f"triton {triton.__version__}, compute capability {chosen.capability}; no card was used.")
    print("Stack is what registers did not hold, in bytes; shared memory in bytes per program.\n")
    print("| kernel | registers | stack | shared | tensor-core instructions | configuration |")
    print("|---|--:|--:|--:|--:|---|")
    head = ("kernel", "registers", "stack", "shared", "tensor_cores", "configuration")
    for row in rows.values():
        print("| " + " | ".join(str(row[name]) for name in head) + " |")


if __name__ == "__main__":
    main()
