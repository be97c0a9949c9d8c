# The limits of figures, regardless of the recorded ones. check.cmake reads them together with the rows of BENCH. Each
# limit is a design aim of the allocator, between the figures of peers (in brackets, under the same counting) and those
# that seemed possible by hand. Recording a higher figure does not change a limit; a limit that is given up is removed
# here, with a note.

#   limit(bench case allocator figure most [OVER case | PERCENT_OF allocator])
#
# The case may name the text behind it too: "sqlite|pool of=TLSF". In each row of the case and the allocator ("": none), the figure is at most `most`; with OVER, at most that much above
# the figure of the other case; with PERCENT_OF, at most that percentage of the other allocator's figure.
#
#   aim(...)
#
# The same for a limit that is not reached yet. A figure above it is only printed. A limit that is reached becomes
# limit().

# Pairs of 64 bytes, including loop and call (by hand 24; Akaros 114, mimalloc 52 to 123, picolibc 147, TLSF 656), on
# every number of harts. Inlined 13 and a loop of 2. In batches of 256 (Akaros 127, mimalloc 56). The first 1000 objects
# (Akaros 144).
limit(single "pair, hot" cache "pair mean" 26)
limit(single "pair, hot" "cache, inlined" "pair mean" 15)
limit(single "pair, batch of 256" cache "pair mean" 36)
limit(single "cold fill of 1000" cache "malloc mean" 45)
limit(harts "pair, hot, one hart after the other" cache most 26)
limit(harts "pair, hot, all harts at once" cache pair 26)

# Random replacement of 1000 live objects (Akaros 57 and 56; mimalloc's worst 5478), and of sizes from 16 to 1024
# (mimalloc 35 and 31, TLSF 313 and 170).
foreach(operation malloc free)
  limit(single "1000 live, 64 bytes" cache "${operation} mean" 15)
  limit(single "1000 live, 64 bytes" cache "${operation} max" 400)
  limit(single "1000 live, 16 to 1024 bytes" heap "${operation} mean" 28)
  limit(single "1000 live, 16 to 1024 bytes" heap "${operation} max" 500)
endforeach()

# The longest operation among 2000 isolated holes (picolibc 12370 and 16028, TLSF 493 and 265).
foreach(hole 48 960)
  limit(worst "malloc(1000): 2000 holes of ${hole}" heap max 500)
  limit(worst "free of 1000: 2000 holes of ${hole}" heap max 500)
endforeach()
limit(worst "allocate: 2000 holes of 48" arena max 500)
limit(worst "free: 2000 holes of 48" arena max 500)
limit(worst "allocate: 2000 holes, each 16 too small" arena max 500)
limit(worst "free: 2000 holes, each 16 too small" arena max 500)

# The cost that tracing adds, with depth 8 and known stacks: with records left after a stop, and with none left.
limit(trace "on, known stacks" "" "malloc max" 300 OVER off)
limit(trace "on, known stacks" "" "free max" 80 OVER off)
limit(trace "stopped, records left" "" "malloc max" 0 OVER off)
limit(trace "stopped, records left" "" "free max" 60 OVER off)
foreach(state off "stopped, no record left" reset)
  limit(trace "${state}" "" "malloc max" 0 OVER never)
  limit(trace "${state}" "" "free max" 0 OVER never)
endforeach()

# Additional memory for the first traced cache: one page with up to four harts, three with eight, and one page of
# boundary tags.
limit(memory "with one cache traced" "" pages 12288 OVER "with the trace")

# Guarded samples, about one allocation of the heap in 1000: at most 3 % more than with the guards off.
foreach(program sqlite jq redis-threads)
  foreach(bench guards guards_traced)
    limit(${bench} ${program} "" "% of off" 103)
  endforeach()
endforeach()

# The leak scan, and how long a sliced one keeps an interrupt waiting.
limit(scan word "" instructions 6)
limit(scan pointer "" instructions 60)
limit(scan "sliced, a few leaks" "" "waits above 500" 0)

# Real programs: a quarter of picolibc's instructions, and little more memory than picolibc takes and than the program
# has live.
foreach(program sqlite jq redis-threads)
  limit(replay ${program} heap mean 25 PERCENT_OF picolibc)
  limit(replay ${program} heap "peak heap" 112 PERCENT_OF picolibc)
  limit(replay ${program} heap "heap / live" 1.3)
endforeach()

# The same in a pool of 1.02 times picolibc's peak.
foreach(program sqlite jq redis-threads)
  limit(pool "${program}|pool of=picolibc" heap mean 25 PERCENT_OF picolibc)
  limit(pool "${program}|pool of=picolibc" heap pool 102 PERCENT_OF picolibc)
endforeach()

# Other programs: no operation above 1500, except a realloc that moves a block; so too in a pool of 1.03 times TLSF's
# smallest.
foreach(program cc1plus bash python ld)
  foreach(operation malloc free)
    limit(programs ${program} heap "${operation} max" 1500)
    limit(pool ${program} heap "${operation} max" 1500)
  endforeach()
  aim(programs ${program} heap mean 25 PERCENT_OF picolibc)
endforeach()

# The smallest pool of each program, complete and scaled, beside that of TLSF in the same run.
foreach(program sqlite jq redis-threads cc1plus bash python ld)
  foreach(size "32 KB" "64 KB" "128 KB" whole)
    aim(ram "${program}, ${size}" "" "ours / TLSF" 1.03)
  endforeach()
endforeach()

# Aims of the design that are not reached yet.
aim(single "pair, hot" heap "pair mean" 32)
aim(single "pair, hot" "cache, in C" "pair mean" 27)
aim(trace "on, known stacks, in C" "" "malloc mean" 250)
aim(single "1000 live, 16 to 1024 bytes" heap "heap / live" 1.25)
aim(single "1000 live, 16 to 65536 bytes" heap "malloc mean" 250)
aim(single "1000 live, 16 to 65536 bytes" heap "free mean" 200)
foreach(operation malloc free)
  aim(single "1000 live, 16 to 65536 bytes" heap "${operation} max" 600)
  foreach(program sqlite jq redis-threads)
    aim(replay ${program} heap "${operation} max" 600)
  endforeach()
endforeach()
aim(replay jq heap mean 34)
aim(memory "after bootstrap|harts=1" "" RAM 2048)
aim(memory "after bootstrap|harts=4" "" RAM 6144)
aim(memory "with one cache traced" "" pages 4096 OVER "with the trace")
aim(scale "caches|cost=create|count=10000" "" mean 3000)
