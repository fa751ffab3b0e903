#!/bin/sh
# The table reader from nothing: generated tables, encoder, features, decoder, export, scores. Everything resumes.
# With Chromium, its driver and the package selenium a share of the tables is set by the browser and found by the detector.
# usage: runs/table.sh OUT [steps of the encoder] [steps of the decoder]
# (on one core about 2 minutes a file of tables, 0.1 s an encoder step, 0.6 s a decoder step)
set -eu
out=$1 steps=${2:-8000} decoder=${3:-2500}
tt="derender train table"
$tt samples --out "$out/samples" --files 6
drawn=
if command -v chromedriver >/dev/null; then
    $tt samples --rendered --out "$out/rendered" --first 21 --files 1 --count 500
    drawn="$out/rendered/rendered-00021.npz"
fi
# few as they are, what is drawn comes eight times
$tt encoder "$out"/samples/*.npz $drawn $drawn $drawn $drawn $drawn $drawn $drawn $drawn \
    --out "$out/encoder" --steps "$steps" --threads 1
$tt features --out "$out/features" --encoder "$out/encoder" --files 2
[ -z "$drawn" ] || $tt features --rendered --out "$out/features" --encoder "$out/encoder" --first 121 --files 1 --count 500
$tt decoder "$out/features" --out "$out/decoder" --steps "$decoder" --threads 1
$tt export "$out/decoder/checkpoint.pt" --out "$out/weights" --encoder "$out/encoder" --shards "$out/features"
$tt eval --weights "$out/weights"
[ -z "$drawn" ] || $tt eval --rendered --seed 9500 --count 100 --weights "$out/weights"
