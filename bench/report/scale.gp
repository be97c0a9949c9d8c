# One picture of the bench `scale`: a line for each cost, its mean drawn through and its worst dashed. Each cost has a mark of its
# own, by which lines are told apart that lie on each other.
#   gnuplot -e "data='FILE'; grows='live objects'" scale.gp >PICTURE.svg     FILE: what `qm_bench_report series` prints
set terminal svg size 860,420 dynamic font "sans-serif,13" background "white"
set logscale xy
set xlabel grows
set ylabel "instructions of one operation"
set grid xtics ytics linecolor "#dddddd"
set border 3
set tics nomirror
set key outside right top Left reverse samplen 2 autotitle columnheader
set offsets 0.1, 0.1, 0, 0
stats data using 1 nooutput
set xrange [STATS_min * 0.8 : STATS_max * 1.25]
if (STATS_max <= 8) { set xtics (1, 2, 4, 8) } else { set format x "10^{%L}" }
set format y "10^{%L}"
# Colours, and marks that are seen through each other, each of another size.
set linetype 1 linecolor "#0060a8" pointtype 7 pointsize 0.4
set linetype 2 linecolor "#c04000" pointtype 4 pointsize 0.9
set linetype 3 linecolor "#2e8b2e" pointtype 2 pointsize 0.8
set linetype 4 linecolor "#8040a0" pointtype 8 pointsize 1.3
set linetype 5 linecolor "#a08000" pointtype 1 pointsize 1.2
set linetype 6 linecolor "#505050" pointtype 12 pointsize 1.7
plot for [i = 0 : STATS_blocks - 1] data index i using 1:2 with linespoints linetype i + 1 linewidth 2, \
     for [i = 0 : STATS_blocks - 1] data index i using 1:3 with linespoints linetype i + 1 dashtype 2 notitle, \
     keyentry with lines linecolor "black" linewidth 2 title "mean", \
     keyentry with lines linecolor "black" dashtype 2 title "worst"
