# qm_add_unit_test(NAME alloc_arena SOURCES alloc_arena_test.cpp LIBRARIES alloc
#                  [THREADS] [HOST_ONLY | TARGET_ONLY] [HARTS 1 4] [MODES icount singlestep] [TIMEOUT 60])
#
# One source, two runs. NAME is <layer>_<unit>; the ctest name is unit.<layer>.<unit>, its labels are the kind, the layer
# and "threads" for THREADS. LIBRARIES are layers (alloc) or targets. Configured for the host the test links GoogleTest;
# configured for a target it links the subset in tests/support/target and boots in QEMU, once for each of HARTS (default 1;
# with THREADS 1 2 4 8), as unit.<layer>.<unit>@4harts, and once more on one hart for each of MODES, as
# unit.<layer>.<unit>@icount.
#
# THREADS: the test calls qm::test::on_each_hart(). HOST_ONLY, TARGET_ONLY: it is left out of the other's build.
# TIMEOUT: seconds for one run; under a sanitizer and in a slow mode it is multiplied.

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

function(qm_add_unit_test)
  cmake_parse_arguments(PARSE_ARGV 0 T "THREADS;HOST_ONLY;TARGET_ONLY" "NAME;TIMEOUT" "SOURCES;LIBRARIES;HARTS;MODES")
  if(T_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "qm_add_unit_test(${T_NAME}): unknown ${T_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT T_NAME MATCHES "^([a-z0-9]+)_([a-z0-9_]+)$")
    message(FATAL_ERROR "qm_add_unit_test: NAME must be <layer>_<unit>, not '${T_NAME}'")
  endif()
  set(layer ${CMAKE_MATCH_1})
  set(unit ${CMAKE_MATCH_2})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 60)
  endif()
  set(labels unit ${layer})
  if(T_THREADS)
    list(APPEND labels threads)
  endif()
  if(CMAKE_CROSSCOMPILING)
    if(NOT T_HOST_ONLY AND COMMAND qm_add_target_test)
      if(NOT T_HARTS)
        set(T_HARTS 1)
        if(T_THREADS)
          set(T_HARTS 1 2 4 8)
        endif()
      endif()
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
  add_test(NAME unit.${layer}.${unit} COMMAND unit_${T_NAME})
  if(QM_SANITIZE)
    math(EXPR T_TIMEOUT "${T_TIMEOUT} * 3")
  endif()
  set_tests_properties(unit.${layer}.${unit} PROPERTIES LABELS "${labels}" TIMEOUT ${T_TIMEOUT})
endfunction()
