# cmake -D CHECK=bench/check.cmake -D FOLDER=scratch -P check_test.cmake: tests what check.cmake accepts, and its
# messages otherwise.
cmake_minimum_required(VERSION 3.25)
file(MAKE_DIRECTORY ${FOLDER})
set(broken 0)

# ROWS and RECORDED are in brackets, as {...}; COMPLAINT is check.cmake's message, or "" if it must accept them. After
# the bench follows the message if it accepts them.
function(expect claim rows recorded complaint)
  string(REGEX REPLACE "{" "\n@bench {" rows "${rows}")
  string(REPLACE "}{" "},{" recorded "${recorded}")
  file(WRITE ${FOLDER}/rows.txt "boot${rows}\n")
  file(WRITE ${FOLDER}/recorded.json "[${recorded}]\n")
  file(WRITE ${FOLDER}/limits.cmake "limit(single pair cache mean 26)\nlimit(trace on \"\" mean 300 OVER off)\n\
limit(replay jq heap mean 25 PERCENT_OF picolibc)\n\
aim(ram jq \"\" \"ours / TLSF\" 1.03)\nlimit(ram bash \"\" \"ours / TLSF\" 1.03)\n")
  execute_process(COMMAND ${CMAKE_COMMAND} -D ROWS=${FOLDER}/rows.txt -D RECORDED=${FOLDER}/recorded.json -D BENCH=${ARGV4}
    -D LIMITS=${FOLDER}/limits.cmake -P ${CHECK} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  string(REGEX REPLACE "[ \n]+" " " said "${output}")
  string(FIND "${said}" "${complaint}" at)
  string(FIND "${said}" "${ARGV5}" remark)
  if((complaint STREQUAL "" AND NOT status EQUAL 0) OR (complaint AND (status EQUAL 0 OR at EQUAL -1)) OR remark EQUAL -1)
    message("broken: ${claim}\n  status ${status}: ${output}")
    set(broken 1 PARENT_SCOPE)
  else()
    message("${claim}")
  endif()
endfunction()

set(row [[{"case":"pair","allocator":"cache","harts":1,"mean":25.07}]])
expect("what is as recorded passes" "${row}" "${row}" "")
expect("a lower figure passes" [[{"case":"pair","allocator":"cache","harts":1,"mean":24}]] "${row}" "")
expect("a higher figure fails" [[{"case":"pair","allocator":"cache","harts":1,"mean":25.08}]] "${row}"
  "|allocator=cache|case=pair|harts=1| mean 25.07 -> 25.08")
expect("more operations pass" [[{"case":"a","operations":3}]] [[{"case":"a","operations":2}]] "")
expect("a row that is not recorded fails" [[{"case":"pair","allocator":"cache","harts":2,"mean":25}]] "${row}" "|harts=2| not recorded")
expect("a recorded row that is not measured fails" "${row}" "${row}{\"case\":\"fill\",\"mean\":1}" "|case=fill| recorded, but not measured")
expect("a figure that is not recorded fails" [[{"case":"a","mean":1,"max":2}]] [[{"case":"a","mean":1}]] "max 2, not recorded")
expect("a recorded figure that is not measured fails" [[{"case":"a","mean":1}]] [[{"case":"a","mean":1,"max":2}]]
  "max recorded, but not measured")
expect("rows of another build are not missed" [[{"case":"a","build":"rv64","text":1}]]
  [[{"case":"a","build":"rv64","text":1}{"case":"a","build":"rv32","text":1}]] "")
expect("nothing measured fails" "" "${row}" "no figures in")
expect("a recorded figure above a limit fails" [[{"case":"pair","allocator":"cache","harts":1,"mean":26.01}]]
  [[{"case":"pair","allocator":"cache","harts":1,"mean":26.01}]] "mean 26.01, at most 26" single)
set(rows [[{"case":"off","mean":12}{"case":"on","mean":312}]])
expect("a limit is over another case" "${rows}" "${rows}" "" trace)
set(rows [[{"case":"off","mean":12}{"case":"on","mean":312.01}]])
expect("a figure too far above another case fails" "${rows}" "${rows}" "mean 312.01, at most 300 OVER off" trace)
set(rows [[{"case":"jq","allocator":"heap","mean":25}{"case":"jq","allocator":"picolibc","mean":100}]])
expect("a limit is a share of another allocator's" "${rows}" "${rows}" "" replay)
set(rows [[{"case":"jq","allocator":"heap","mean":25.01}{"case":"jq","allocator":"picolibc","mean":100}]])
expect("a figure that is too large a share fails" "${rows}" "${rows}" "at most 25 PERCENT_OF picolibc" replay)
expect("a limit without a row fails" "${row}" "${row}" "not measured, and has a limit" trace)
set(rows [[{"case":"jq","ours":2,"TLSF":1,"ours / TLSF":2}{"case":"bash","ours":1,"TLSF":1,"ours / TLSF":1}]])
expect("an aim that is missed passes, and is told" "${rows}" "${rows}" "" ram "|case=jq| ours / TLSF 2, at most 1.03")
set(rows [[{"case":"jq","ours":1,"TLSF":1,"ours / TLSF":1}{"case":"bash","ours":2,"TLSF":1,"ours / TLSF":2}]])
expect("an aim beside a limit that is not kept" "${rows}" "${rows}" "|case=bash| ours / TLSF 2, at most 1.03" ram)
set(rows [[{"case":"jq","ours":2}{"case":"bash","ours":2}{"case":"pair","allocator":"heap","mean":1}]])
set(recorded [[{"case":"jq","ours":2,"TLSF":1,"ours / TLSF":2}{"case":"bash","ours":2,"TLSF":1,"ours / TLSF":2}{"case":"pair","allocator":"heap","mean":1}{"case":"pair","allocator":"TLSF","mean":1}]])
expect("a peer that the build does not have is not missed" "${rows}" "${recorded}" "" ram)
expect("a peer's row is missed where the build has the peer" [[{"case":"jq","allocator":"TLSF","mean":1}]]
  [[{"case":"jq","allocator":"TLSF","mean":1}{"case":"pair","allocator":"TLSF","mean":1}]] "|allocator=TLSF|case=pair| recorded, but not measured")
if(broken)
  message(FATAL_ERROR "check.cmake does not do what is said above")
endif()
