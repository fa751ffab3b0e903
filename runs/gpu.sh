#!/usr/bin/env bash
# The recipe on one large GPU, in slices of at most ten minutes: run it again until it says that it is done.
# In: a folder of shards (about 16 MiB for 256 regions) made on a CPU. Out: files below 16 MiB in $out, nothing else.
# State between slices is the checkpoint, cut into parts below 16 MiB; a slice that finds parts puts them together.
#
#   runs/gpu.sh SHARDS OUT        (SECONDS_A_SLICE, STEPS and STAGE2_STEPS make it shorter or longer)
set -euo pipefail
shards=${1:?usage: runs/gpu.sh SHARDS OUT} out=${2:?usage: runs/gpu.sh SHARDS OUT}
slice=${SECONDS_A_SLICE:-480} steps=${STEPS:-20000} more=${STAGE2_STEPS:-4000}
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

put_together() { # stage
  mkdir -p "$work/$1"
  if compgen -G "$out/$1.part.*" >/dev/null; then cat "$out/$1.part."* >"$work/$1/checkpoint.pt"; fi
}
cut_up() { # stage
  rm -f "$out/$1.part."*
  split --bytes=15M --suffix-length=2 "$work/$1/checkpoint.pt" "$out/$1.part."
  cp "$work/$1/log.csv" "$out/$1.$(date +%s).csv"
}
train() { # stage, further options
  local stage=$1
  shift
  put_together "$stage"
  derender train run --shards "$shards" --out "$work/$stage" --device cuda --rows 32768 --micro 8192 --threads 8 \
    --seconds "$slice" "$@"
  cut_up "$stage"
}

if [ ! -e "$out/stage1.done" ]; then
  train stage1 --steps "$steps" --lr 2e-3 --warmup 500 --clusters 64
  if [ "$(tail -n 1 "$work/stage1/log.csv" | cut -d, -f1)" -ge "$steps" ]; then touch "$out/stage1.done"; fi
elif [ ! -e "$out/hard.json" ]; then
  put_together stage1
  derender train export "$work/stage1/checkpoint.pt" "$work/weights" --shards "$shards"
  # what was mined before the time was up counts
  timeout "$((slice + 60))" derender train mine --shards "$shards" --weights "$work/weights" --out "$work/hard.json" \
    --threads 8 || [ $? -eq 124 ]
  cp "$work/hard.json" "$out/hard.json"
elif [ ! -e "$out/stage2.done" ]; then
  put_together stage1
  train stage2 --steps "$more" --lr 5e-4 --warmup 200 --stage 2 --hard "$out/hard.json" --init "$work/stage1/checkpoint.pt"
  if [ "$(tail -n 1 "$work/stage2/log.csv" | cut -d, -f1)" -ge "$more" ]; then touch "$out/stage2.done"; fi
else
  put_together stage2
  derender train export "$work/stage2/checkpoint.pt" "$out/weights" --shards "$shards"
  echo "done: weights in $out/weights"
fi
