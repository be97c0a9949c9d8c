# cmake -D RECORDER=librecord_allocations.so -D PROGRAM=bench_recorded -D FOLDER=scratch -P record_test.cmake: the trace
# of recorded.c must have all operations of both its threads, and none of its child; with a bound, only the first
# operations. A trace that exists is kept, and a line says so.
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
set(environment ${CMAKE_COMMAND} -E env QM_RECORD=${FOLDER}/program.trace LD_PRELOAD=${RECORDER})
execute_process(COMMAND ${environment} ${PROGRAM} ERROR_VARIABLE errors COMMAND_ERROR_IS_FATAL ANY)
if(NOT errors MATCHES "^librecord_allocations: nothing is recorded: [^\n]*program[.]trace exists [(]errno [0-9]+[)]\n$")
  message(FATAL_ERROR "of a trace that exists: ${errors}")
endif()
file(READ ${FOLDER}/program.trace kept)
string(REPLACE "\n" "|" kept "${kept}")
if(NOT kept STREQUAL trace)
  message(FATAL_ERROR "the trace that existed is now: ${kept}")
endif()
# The shell is recorded, and the programs that it starts say nothing.
file(REMOVE ${FOLDER}/program.trace)
execute_process(COMMAND ${environment} sh -c "\"$0\"; \"$0\"" ${PROGRAM} ERROR_VARIABLE errors COMMAND_ERROR_IS_FATAL ANY)
if(NOT errors STREQUAL "")
  message(FATAL_ERROR "of a program that a recorded one starts: ${errors}")
endif()
