#!/bin/sh
# The formula reader from nothing: pictures by TeX, samples, encoder, decoder, export, scores. Everything resumes.
# usage: runs/formula.sh OUT [files for the encoder] [files for the decoder] [steps of each]; 3,000 pictures a file
# (on two cores about 1 minute a file for pictures and samples, 0.5 s an encoder step, 2 s a decoder step)
# SOURCES="FOLDER.." takes half of the formulas from the TeX sources and docstrings there (docs/training.md names the
# packages), and adds two files of pictures by matplotlib's mathtext. INIT=src/derender/weights/formula goes on from
# the shipped weights.
set -eu
out=$1 seen=${2:-14} other=${3:-14} steps=${4:-3200}
tf="derender train formula"
init=${INIT:+--init $INIT}
mkdir -p "$out"
if [ -n "${SOURCES:-}" ]; then
  [ -e "$out/sources.txt" ] || $tf sources $SOURCES --out "$out/sources.txt"
  from="--sources $out/sources.txt"
  $tf pictures --out "$out/mathtext" --first 5000 --files 2 $from --share 0.3 --mathtext
  $tf samples "$out"/mathtext/*.npz --out "$out/mathtext-samples"
fi
$tf pictures --out "$out/pictures" --files "$((seen + other))" ${from:-}
$tf pictures --out "$out/held" --first 9000 --count 700 --held-out
$tf samples "$out"/pictures/*.npz --out "$out/samples"
first=$(ls "$out"/samples/*.npz | head -n "$seen")
rest=$(ls "$out"/samples/*.npz | tail -n +"$((seen + 1))")
[ -z "${SOURCES:-}" ] || first="$first $(ls "$out"/mathtext-samples/*.npz)"
$tf encoder $first --out "$out/encoder" --steps "$steps" $init
$tf features $rest --out "$out/features" --encoder "$out/encoder"
$tf decoder "$out/features" --out "$out/decoder" --steps "$steps" $init
$tf export "$out/decoder/checkpoint.pt" --out "$out/weights" --encoder "$out/encoder" --shards "$out/features"
$tf eval "$out/held/pictures-09000.npz" --weights "$out/weights"
$tf eval "$out/held/pictures-09000.npz" --weights "$out/weights" --modes exact --degraded
