# cmake -D RECORDER=librecord_allocations.so -D PROGRAM=bench_recorded -D FOLDER=scratch -P record_test.cmake: the trace
# of recorded.c must have all operations of both its threads, and none of its child; with a bound, only the first
# operations.
cmake_minimum_required(VERSION 3.25)
file(MAKE_DIRECTORY ${FOLDER})

function(record most result)
  file(REMOVE ${FOLDER}/program.trace)
  execute_process(COMMAND ${CMAKE_COMMAND} -E env QM_RECORD=${FOLDER}/program.trace QM_RECORD_OPERATIONS=${most} LD_PRELOAD=${RECORDER}
    ${PROGRAM} COMMAND_ERROR_IS_FATAL ANY)
  file(READ ${FOLDER}/program.trace trace)
  string(REPLACE "\n" "|" trace "${trace}")
  set(${result} "${trace}" PARENT_SCOPE)
endfunction()

# The C library allocates when it creates the thread.
record(1000 trace)
if(NOT trace MATCHES "^t 0[|]a 0 10[|]a 1 21[|]r 0 1000[|]f 1[|]a 1 30[|](a [0-9]+ [0-9]+[|])*t 1[|]f 0[|]a 0 77[|](f [0-9]+[|])*t 0[|](f [0-9]+[|])*r 1 31[|]")
  message(FATAL_ERROR "recorded: ${trace}")
endif()
record(4 trace)
if(NOT trace STREQUAL "t 0|a 0 10|a 1 21|r 0 1000|f 1|")
  message(FATAL_ERROR "at most 4 operations: ${trace}")
endif()
