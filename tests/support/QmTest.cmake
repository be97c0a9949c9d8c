# qm_add_unit_test(NAME alloc_arena SOURCES alloc_arena_test.cpp LIBRARIES alloc
#                  [THREADS] [CHECKED] [HOST_ONLY | TARGET_ONLY] [HARTS 1 4] [MODES icount singlestep] [TIMEOUT 60])
#
# One source, two runs. NAME is <layer>_<unit>; the ctest name is unit.<layer>.<unit>, its labels are the kind, the layer
# and "threads" for THREADS. LIBRARIES are layers (alloc) or targets. Configured for the host the test links GoogleTest;
# configured for a target it links the subset in tests/support/target and boots in QEMU.
#
# THREADS: the test calls qm::test::on_each_hart(); it runs once for each of HARTS (default 1 2 4 8), as
#          unit.<layer>.<unit>@4harts.
# HARTS:   without THREADS it counts on the target only (default 1).
# MODES:   on the target, one more run each on the least of HARTS: icount (one instruction is 1 ns, deterministic) and
#          singlestep (one instruction a translation block, so that interrupts land between any two), as
#          unit.<layer>.<unit>@icount. THREADS without HARTS adds slices: 4 harts in deterministic time, whose
#          turns end at random instants from the seed, as unit.<layer>.<unit>@slices.
# HOST_ONLY, TARGET_ONLY: left out of the other's build.
# CHECKED: built in the checking build (QM_CHECKED) as well: what stands on class Cache, which alone is another there.
# TIMEOUT: seconds for one run (default 60); three times that under a sanitizer and in MODES.

set(QM_TEST_SUPPORT_DIR ${CMAKE_CURRENT_LIST_DIR})

function(qm_test_libraries target)
  foreach(library IN LISTS ARGN)
    if(TARGET qm_${library})
      target_link_libraries(${target} PRIVATE qm_${library})
    else()
      target_link_libraries(${target} PRIVATE ${library})
    endif()
  endforeach()
endfunction()

# The ctest name of a run on @p harts harts.
function(qm_test_at_harts test harts result)
  if(harts EQUAL 1)
    set(${result} ${test}@1hart PARENT_SCOPE)
  else()
    set(${result} ${test}@${harts}harts PARENT_SCOPE)
  endif()
endfunction()

function(qm_add_unit_test)
  cmake_parse_arguments(PARSE_ARGV 0 T "THREADS;CHECKED;HOST_ONLY;TARGET_ONLY" "NAME;TIMEOUT" "SOURCES;LIBRARIES;HARTS;MODES")
  if(T_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "qm_add_unit_test(${T_NAME}): unknown ${T_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT T_NAME MATCHES "^([a-z0-9]+)_([a-z0-9_]+)$")
    message(FATAL_ERROR "qm_add_unit_test: NAME must be <layer>_<unit>, not '${T_NAME}'")
  endif()
  set(layer ${CMAKE_MATCH_1})
  set(unit ${CMAKE_MATCH_2})
  if(QM_CHECKED AND NOT T_CHECKED)
    return()
  endif()
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 60)
  endif()
  set(labels unit ${layer})
  if(T_THREADS)
    list(APPEND labels threads)
  endif()
  if(NOT T_HARTS)
    set(T_HARTS 1)
    if(T_THREADS)
      set(T_HARTS 1 2 4 8)
      list(APPEND T_MODES slices)
    endif()
  endif()
  if(CMAKE_CROSSCOMPILING)
    if(NOT T_HOST_ONLY AND COMMAND qm_add_target_test)
      qm_add_target_test(unit_${T_NAME} TEST unit.${layer}.${unit} LABELS ${labels} TIMEOUT ${T_TIMEOUT}
        SOURCES ${T_SOURCES} LIBRARIES ${T_LIBRARIES} HARTS ${T_HARTS} MODES ${T_MODES})
    endif()
    return()
  endif()
  if(T_TARGET_ONLY)
    return()
  endif()
  add_executable(unit_${T_NAME} ${T_SOURCES})
  target_link_libraries(unit_${T_NAME} PRIVATE qm_test_support qm_flags)
  qm_test_libraries(unit_${T_NAME} ${T_LIBRARIES})
  if(QM_SANITIZE)
    math(EXPR T_TIMEOUT "${T_TIMEOUT} * 3")
  endif()
  if(NOT T_THREADS)
    add_test(NAME unit.${layer}.${unit} COMMAND unit_${T_NAME})
    set_tests_properties(unit.${layer}.${unit} PROPERTIES LABELS "${labels}" TIMEOUT ${T_TIMEOUT})
    return()
  endif()
  foreach(harts IN LISTS T_HARTS)
    qm_test_at_harts(unit.${layer}.${unit} ${harts} name)
    add_test(NAME ${name} COMMAND unit_${T_NAME})
    set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT ${T_TIMEOUT} ENVIRONMENT QM_HARTS=${harts}
      PROCESSORS 2)
  endforeach()
endfunction()
