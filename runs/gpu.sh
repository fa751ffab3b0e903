#!/usr/bin/env bash
# The recipe on one large GPU, in slices of at most ten minutes: run it again until it says that it is done.
# In: a folder of shards (about 16 MiB for 256 regions) made on a CPU. Out: files below 16 MiB in $out, nothing else.
# State between slices is the checkpoint, cut into parts below 16 MiB; a slice that finds parts puts them together.
#
#   runs/gpu.sh text SHARDS OUT        (SECONDS_A_SLICE, STEPS and STAGE2_STEPS make it shorter or longer)
#   runs/gpu.sh formula PICTURES OUT   (files of `derender train formula pictures`, 11 MiB for 3,000; five at the most, for
#     they are degraded anew in each slice; INIT=src/derender/weights/formula goes on from the shipped weights; a dry run:
#     DEVICE=cpu STEPS=4 SEEDS="1 2" PIECES=300 ROWS=512 runs/gpu.sh formula PICTURES OUT)
set -euo pipefail
usage="usage: runs/gpu.sh text|formula DATA OUT"
task=${1:?$usage} shards=${2:?$usage} out=${3:?$usage}
slice=${SECONDS_A_SLICE:-480} steps=${STEPS:-20000} more=${STAGE2_STEPS:-4000}
device=${DEVICE:-cuda} seeds=${SEEDS:-1 2 3 4 5 6 7 8} pieces=${PIECES:-20000} rows=${ROWS:-32768}
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
  derender train run --shards "$shards" --out "$work/$stage" --device "$device" --rows "$rows" --micro 8192 --threads 8 \
    --seconds "$slice" "$@"
  cut_up "$stage"
}

wait_all() { # a job that failed ends the slice
  for job in $(jobs -p); do wait "$job"; done
}
left() { # seconds of the slice that making samples has left over
  echo "$((slice > SECONDS + 60 ? slice - SECONDS : 60))"
}

formula() { # the encoder sees two thirds of the pictures, the decoder the others; each degraded once for each seed
  local f="derender train formula" n=0 stage=encoder use=seen init=()
  if [ -n "${INIT:-}" ]; then init=(--init "$INIT"); fi
  if [ -e "$out/encoder.done" ]; then stage=decoder use=other; fi
  for file in "$shards"/pictures-*.npz; do
    n=$((n + 1))
    if [ "$((n % 3))" -eq 0 ]; then ln -s "$(realpath "$file")" "$work/other-$n.npz"; else ln -s "$(realpath "$file")" "$work/seen-$n.npz"; fi
  done
  for seed in $seeds; do
    $f samples "$work/$use"-*.npz --out "$work/samples-$seed" --seed "$seed" >/dev/null &
  done
  wait_all
  put_together encoder
  put_together decoder
  if [ "$stage" = encoder ]; then
    $f encoder "$work"/samples-*/*.npz --out "$work/encoder" --steps "$steps" --pieces "$pieces" --device "$device" \
      --seconds "$(left)" "${init[@]}"
  else
    $f encoder --out "$work/encoder" # only writes its ONNX files again
    for seed in $seeds; do
      for file in "$work/samples-$seed"/*.npz; do mv "$file" "$work/samples-$seed/$(basename "$file" .npz)-$seed.npz"; done
      $f features "$work/samples-$seed"/*.npz --encoder "$work/encoder" --out "$work/features" &
    done
    wait_all
    $f decoder "$work/features" --out "$work/decoder" --steps "$steps" --rows "$rows" --device "$device" --seconds "$(left)" \
      "${init[@]}"
    $f export "$work/decoder/checkpoint.pt" --out "$out/weights" --encoder "$work/encoder" --shards "$work/features"
  fi
  cut_up "$stage"
  if [ "$(tail -n 1 "$work/$stage/log.csv" | cut -d, -f1)" -ge "$steps" ]; then touch "$out/$stage.done"; fi
}

if [ "$task" = formula ] && [ -e "$out/decoder.done" ]; then
  echo "done: weights in $out/weights"
elif [ "$task" = formula ]; then
  formula
elif [ ! -e "$out/stage1.done" ]; then
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
