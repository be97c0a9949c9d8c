#!/bin/sh
# Makes docs/report.png, the picture in README.md. Run it in the checkout. Needs chromium.
set -eu
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
./run --record "$scratch/demo.qm" -c 'kmemtrace start' -c 'workload run leak 300' -c 'workload run neutral 200' \
  -c 'workload run churn 400' -c 'kmemtrace stop'
./qm report --html "$scratch/demo.html" "$scratch/demo.qm"
chromium --headless --no-sandbox --hide-scrollbars --window-size=1000,1160 --virtual-time-budget=3000 \
  --screenshot=docs/report.png "file://$scratch/demo.html"
