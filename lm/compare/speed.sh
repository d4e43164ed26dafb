#!/bin/sh
# Times training of SmolLM2-135M in turns with PyTorch on two threads, and decoding. Run
# it on an idle machine: the first speed of each line is then the one that counts.
#
#     lm/compare/speed.sh FOLDER [ROUNDS]
#
# FOLDER is that of run.sh, which makes the model.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$(cd "$1" && pwd)
rounds=${2:-3}
export OMP_WAIT_POLICY=passive
cd "$here/.."
go test -c -o "$folder/speed.test" .
ours() { INFINIRL_SPEED=$1 "$folder/speed.test" -test.run Speed135M -test.v | sed -n 's/^.*_test.go:[0-9]*: //p'; }
for round in $(seq "$rounds"); do
	echo "round $round"
	ours all:3
	ours lora:3
	"$folder/venv/bin/python" "$here/speed.py" "$folder/models/smollm2" 3 2>/dev/null
done
ours decode:3
