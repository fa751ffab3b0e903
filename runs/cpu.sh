#!/usr/bin/env bash
# From nothing to readable text in about ten minutes on 2 cores: makes a few shards, trains a small number of steps,
# exports int8 weights and reads held-out regions with them. Also the slow end-to-end test of the training code.
#
#   runs/sources.sh DATA && runs/cpu.sh DATA OUT        (SHARDS, STEPS and REGIONS make it shorter or longer)
set -euo pipefail
data=${1:?usage: runs/cpu.sh DATA OUT} out=${2:?usage: runs/cpu.sh DATA OUT}
shards=${SHARDS:-4} steps=${STEPS:-150} regions=${REGIONS:-256}
half=$(((shards + 1) / 2))
mkdir -p "$out"
# one thread a process is faster than two threads in one: the tower's pictures are small
derender train data --root "$data" --out "$out/shards" --shards "$half" --regions "$regions" &
other=$!
derender train data --root "$data" --out "$out/shards" --first "$half" --shards "$((shards - half))" --regions "$regions"
wait "$other"
derender train data --root "$data" --out "$out/held" --shards 1 --regions 64 --seed 9 --held-out
derender train run --shards "$out/shards" --out "$out/run" --steps "$steps" --warmup 30 --threads 2
derender train export "$out/run/checkpoint.pt" "$out/weights" --shards "$out/shards"
derender train eval --shards "$out/held" --weights "$out/weights" --limit 64 --modes ar,exact,sliding,block
