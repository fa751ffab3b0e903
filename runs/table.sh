#!/bin/sh
# The table reader from nothing: generated tables, encoder, features, decoder, stage II, export, scores. Everything resumes.
# With Chromium, its driver and the package selenium a share of the tables is set by the browser, with pdflatex one by TeX;
# both are found by the line detector. Stage II needs the extra `score`.
# usage: runs/table.sh OUT [steps of the encoder] [of the decoder] [of its stage II]
# (on one core about 2 minutes a file of tables, 6 for one that is drawn, 0.1 s an encoder step, 0.6 s a decoder step, 0.3 s a mined table)
set -eu
out=$1 steps=${2:-12000} decoder=${3:-5000} stage2=${4:-450}
tt="derender train table"
by=
! command -v chromedriver >/dev/null || by="browser"
! command -v pdflatex >/dev/null || by="$by tex"
$tt samples --out "$out/samples" --files 6
for one in $by; do $tt samples --by "$one" --out "$out/drawn" --first 21 --files 2 --count 600; done
drawn=
[ -z "$by" ] || drawn=$(ls "$out"/drawn/*.npz)
# few as they are, what is drawn comes five times
# shellcheck disable=SC2086
$tt encoder "$out"/samples/*.npz $drawn $drawn $drawn $drawn $drawn --out "$out/encoder" --steps "$steps" --threads 1
$tt features --out "$out/features" --encoder "$out/encoder" --files 2
for one in $by; do
    $tt features --by "$one" --out "$out/features" --encoder "$out/encoder" --first 121 --files 1 --count 800
done
$tt decoder "$out/features" --out "$out/decoder" --steps "$decoder" --threads 1
$tt export "$out/decoder/checkpoint.pt" --out "$out/weights1" --encoder "$out/encoder" --shards "$out/features"
$tt mine "$out/features" --weights "$out/weights1" --out "$out/hard.json"
$tt decoder "$out/features" --out "$out/stage2" --init "$out/decoder/checkpoint.pt" --hard "$out/hard.json" --share 0.2 \
    --steps "$stage2" --lr 5e-4 --threads 1
$tt export "$out/stage2/checkpoint.pt" --out "$out/weights" --encoder "$out/encoder" --shards "$out/features"
$tt eval --weights "$out/weights"
for one in $by; do $tt eval --by "$one" --seed 9500 --count 100 --weights "$out/weights"; done
