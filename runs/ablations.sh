#!/usr/bin/env bash
# Each choice of the recipe against the same short training without it: the ablation table of docs/training.md. A run that
# is done is not repeated. About six minutes a run on one core.
#
#   runs/ablations.sh SHARDS HELD OUT        (STEPS, ROWS and REGIONS make it shorter or longer; ONLY names some runs)
set -euo pipefail
usage="usage: runs/ablations.sh SHARDS HELD OUT"
shards=${1:?$usage} held=${2:?$usage} out=${3:?$usage}
mkdir -p "$out"

try() { # name, options of `train run`, options of `train eval`
    local name=$1 train=$2 eval=$3
    if [[ -n ${ONLY:-} && " $ONLY " != *" $name "* ]] || [[ -s $out/$name.txt ]]; then return; fi
    # shellcheck disable=SC2086
    derender train run --shards "$shards" --out "$out/$name" --steps "${STEPS:-240}" --rows "${ROWS:-512}" \
        --warmup 40 --threads 1 $train
    # shellcheck disable=SC2086
    derender train eval --shards "$held" --checkpoint "$out/$name/checkpoint.pt" --limit "${REGIONS:-128}" \
        --modes ar,block $eval >"$out/$name.part"
    mv "$out/$name.part" "$out/$name.txt"
    rm -r "${out:?}/$name"
}

try base "" ""
try other-seed "--seed 1" ""
try inverse-t "--weighting inverse" ""
try no-next-token "--objective paper" ""
try place-positions "--no-counted" "--no-counted"
try random-output "--no-copying" ""
try certainty "--certainty 0.1" ""
try block-8 "--blocks 8" "--block 8"
try block-16 "--blocks 16" "--block 16"
try block-32 "--blocks 32" "--block 32"
try block-64 "--blocks 64" "--block 64"
try block-128 "--blocks 128" "--block 128" # a whole training chunk: full attention
try clusters "--clusters 64" ""
tail -n +1 "$out"/*.txt
