#!/usr/bin/env python3
"""Compare Gemm with OpenBLAS on one thread.

    python3 lm/kernel/openblas_compare.py [--set avx512] [--rounds 5] [--shapes REGEXP]

Builds the benchmark of this package, installs numpy (whose wheels bring
OpenBLAS) in a virtual environment in a temporary folder, runs both in turns
and prints the best of many short runs, which other load disturbs least.
OPENBLAS_* variables are unset, so that OpenBLAS picks its kernels for this
processor; against the set avx2 it is told to use those of Haswell. What numpy
needs for a product of single elements is taken off its times. The Go times
include the call.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import venv

HERE = os.path.dirname(os.path.abspath(__file__))

NUMPY = """
import json, sys, time
import numpy as np

def best(call, repeat):
    shortest = 1e9
    for _ in range(12):
        start = time.perf_counter()
        for _ in range(repeat):
            call()
        shortest = min(shortest, (time.perf_counter() - start) / repeat)
    return shortest

def product(m, n, k, transposed):
    a = np.random.rand(*((k, m) if transposed else (m, k))).astype('f')
    b, c = np.random.rand(k, n).astype('f'), np.zeros((m, n), 'f')
    if transposed:
        a = a.T
    return lambda: np.dot(a, b, out=c)

times = {"call": best(product(1, 1, 1, False), 2000)}
for name, m, n, k, transposed in json.load(sys.stdin):
    repeat = max(1, int(5e8 / (2 * m * n * k)))
    times[name] = best(product(m, n, k, transposed), repeat)
json.dump(times, sys.stdout)
"""


def go_times(binary, kernel_set, shapes):
    bench = "^BenchmarkGemm$/^%s$/%s" % (kernel_set, shapes)
    out = subprocess.run([binary, "-test.run=^$", "-test.bench=" + bench, "-test.benchtime=3ms", "-test.count=12", "-test.cpu=1"],
                         check=True, capture_output=True, text=True, cwd=HERE).stdout
    times = {}
    for name, ns in re.findall(r"^BenchmarkGemm/\w+/(\S+)\s+\d+\s+(\S+) ns/op", out, re.M):
        times[name] = min(float(ns) * 1e-9, times.get(name, 1e9))
    return times


def parse(name):
    m, n, k = (int(x) for x in re.findall(r"\d+", name))
    return name, m, n, k, name.endswith("At")


def main():
    parser = argparse.ArgumentParser(description="Compare Gemm with OpenBLAS on one thread.")
    parser.add_argument("--set", default="avx512", help="kernel set: avx512, avx2 or go")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--shapes", default=".", help="regular expression of benchmark names, as 200x192x64")
    args = parser.parse_args()

    env = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS_")}
    env["OPENBLAS_NUM_THREADS"] = "1"
    if args.set == "avx2":
        env["OPENBLAS_CORETYPE"] = "Haswell"
    with tempfile.TemporaryDirectory() as folder:
        binary = os.path.join(folder, "kernel.test")
        subprocess.run(["go", "test", "-c", "-o", binary, "."], check=True, cwd=HERE)
        venv.create(os.path.join(folder, "venv"), with_pip=True)
        python = os.path.join(folder, "venv", "bin", "python")
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "numpy"], check=True)

        ours, theirs = {}, {}
        for round_number in range(args.rounds):
            print("round %d of %d" % (round_number + 1, args.rounds), file=sys.stderr)
            times = go_times(binary, args.set, args.shapes)
            if not times:
                sys.exit("no benchmark matches set %r and shapes %r on this processor" % (args.set, args.shapes))
            request = json.dumps([parse(name) for name in times])
            out = subprocess.run([python, "-c", NUMPY], check=True, capture_output=True, text=True, env=env, input=request).stdout
            for best, times in ((ours, times), (theirs, json.loads(out))):
                for name, t in times.items():
                    best[name] = min(t, best.get(name, t))

    print("%-20s %12s %12s %8s" % ("m x n x k, GFLOP/s", args.set, "OpenBLAS", "ratio"))
    for name in ours:
        _, m, n, k, _ = parse(name)
        flop = 2e-9 * m * n * k
        blas = max(theirs[name] - theirs["call"], 1e-9)
        print("%-20s %12.1f %12.1f %8.2f" % (name, flop / ours[name], flop / blas, blas / ours[name]))


if __name__ == "__main__":
    main()
