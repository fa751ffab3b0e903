#!/bin/sh
# The table reader from nothing: generated tables, encoder, features, decoder, export, scores. Everything resumes.
# usage: runs/table.sh OUT [steps of the encoder] [steps of the decoder]
# (on one core about 2 minutes a file of tables, 0.2 s an encoder step, 1 s a decoder step)
set -eu
out=$1 steps=${2:-6000} decoder=${3:-1000}
tt="derender train table"
$tt samples --out "$out/samples" --files 6
$tt encoder "$out"/samples/*.npz --out "$out/encoder" --steps "$steps" --threads 1
$tt features --out "$out/features" --encoder "$out/encoder" --files 2
$tt decoder "$out/features" --out "$out/decoder" --steps "$decoder" --threads 1
$tt export "$out/decoder/checkpoint.pt" --out "$out/weights" --encoder "$out/encoder" --shards "$out/features"
$tt eval --weights "$out/weights"
