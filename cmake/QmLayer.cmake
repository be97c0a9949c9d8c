# Layers: folder = layer = target = include prefix = namespace.
#
#   qm_add_layer(NAME wire RANK 0 SOURCES a.cpp HEADERS include/qm/wire/a.hpp USES ... [APART a.cpp])
#
# makes the library qm_<NAME> (alias quartermaster::<NAME>). Its public headers are the HEADERS below include/ (or
# BASE_DIRS). A layer that uses a layer of the same or a higher rank is refused at configure time. Include paths come
# only from USES, and the repository root is never one, so an upward #include does not compile either.

# Code generation for the target. Exported as quartermaster::codegen for firmware that wants the same; users may omit it.
add_library(qm_codegen INTERFACE)
add_library(quartermaster::codegen ALIAS qm_codegen)
set_target_properties(qm_codegen PROPERTIES EXPORT_NAME codegen)
if(CMAKE_CROSSCOMPILING)
  if(QM_TRACE)
    target_compile_options(qm_codegen INTERFACE -fno-omit-frame-pointer -fno-optimize-sibling-calls)
  endif()
  target_compile_options(qm_codegen INTERFACE -mcmodel=medany -fno-pie
    $<$<COMPILE_LANGUAGE:CXX>:-ffreestanding -fno-exceptions -fno-rtti -fno-threadsafe-statics -ftls-model=local-exec -ffunction-sections -fdata-sections -fno-asynchronous-unwind-tables
      -fno-stack-protector>
    $<$<COMPILE_LANGUAGE:C>:-ffreestanding -ffunction-sections
      -fdata-sections -fno-asynchronous-unwind-tables -fno-stack-protector>)
else()
  # Position-independent, also for shared objects, plug-ins and preloaded libraries. Thread-locals are accessed without
  # a call, which might allocate.
  set(CMAKE_POSITION_INDEPENDENT_CODE ON)
  target_compile_options(qm_codegen INTERFACE -fno-omit-frame-pointer -ftls-model=initial-exec -fno-semantic-interposition)
endif()

# For code of this project: warnings as well; they are errors if this is the top-level project.
add_library(qm_flags INTERFACE)
target_compile_features(qm_flags INTERFACE cxx_std_20)
target_compile_options(qm_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wcast-align -Wextra-semi>
  $<$<COMPILE_LANGUAGE:C>:-std=c99 -Wall -Wextra -Wpedantic -pedantic-errors -Wshadow>
  $<$<COMPILE_LANGUAGE:C,CXX>:-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=>)
if(PROJECT_IS_TOP_LEVEL)
  target_compile_options(qm_flags INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-Werror>)
  # GCC 12's std::stable_sort() calls a function that its own library marks deprecated, and Clang reports that from
  # version 17 on. Clang also reports functions that a build needs only under `if constexpr`.
  target_compile_options(qm_flags INTERFACE
    "$<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wno-deprecated-declarations;-Wno-unneeded-internal-declaration>")
endif()
target_compile_options(qm_flags INTERFACE ${QM_ARCH_FLAGS})
target_link_libraries(qm_flags INTERFACE qm_codegen)
# GCC 12 sees an overlap in `"literal" + std::string` where there is none (GCC bug 105651). For targets that build
# strings.
add_library(qm_no_restrict INTERFACE)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(qm_no_restrict INTERFACE -Wno-restrict)
endif()
if(QM_SANITIZE)
  # Reports show only lines and names; the rest of the debug information would take a tenth of the compile time.
  target_compile_options(qm_flags INTERFACE -fsanitize=${QM_SANITIZE} -fno-sanitize-recover=all -g1)
  # A C function takes a qm_arena, which is qm::Arena in C++: the check of calls through pointers sees two different
  # types.
  target_compile_options(qm_flags INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-fno-sanitize=function>)
  target_link_options(qm_flags INTERFACE -fsanitize=${QM_SANITIZE})
  if(QM_SANITIZE MATCHES "thread")
    # TSan does not model fences. All data that fences order is also accessed with acquire and release, so TSan reports
    # no race.
    target_compile_options(qm_flags INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-tsan>)
  endif()
endif()

# With QM_PCH the standard headers are compiled once for all C++ sources of the targets for which qm_precompile is
# called. Do not call it for a target with its own code generation options.
if(QM_PCH)
  set(headers algorithm array atomic bit charconv concepts cstddef cstdint cstring limits memory new span string_view type_traits utility)
  if(NOT CMAKE_CROSSCOMPILING)
    list(APPEND headers chrono cstdio cstdlib filesystem fstream functional map optional sstream string thread vector)
  endif()
  list(TRANSFORM headers REPLACE "(.+)" "$<$<COMPILE_LANGUAGE:CXX>:<\\1$<ANGLE-R>>")
  # Targets with sources in C too ask for a header of theirs.
  file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/pch.cpp CONTENT "")
  file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/pch.c CONTENT "extern int qm_pch;\n")
  add_library(qm_pch OBJECT EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/pch.cpp ${CMAKE_BINARY_DIR}/pch.c)
  target_precompile_headers(qm_pch PRIVATE ${headers} $<$<COMPILE_LANGUAGE:C>:<stddef.h$<ANGLE-R>>)
  target_link_libraries(qm_pch PRIVATE qm_flags)
endif()
function(qm_precompile target)
  if(QM_PCH)
    target_precompile_headers(${target} REUSE_FROM qm_pch)
    get_target_property(type ${target} TYPE)
    if(type STREQUAL EXECUTABLE AND NOT CMAKE_CROSSCOMPILING)
      target_compile_options(${target} PRIVATE -fPIC)  # as for the libraries and the precompiled header; CMake has added -fPIE
    endif()
  endif()
endfunction()

function(qm_add_layer)
  cmake_parse_arguments(PARSE_ARGV 0 L "" "NAME;RANK" "SOURCES;HEADERS;USES;BASE_DIRS;APART")
  if(NOT L_BASE_DIRS)
    set(L_BASE_DIRS include)
  endif()
  set(target qm_${L_NAME})
  if(L_SOURCES)
    add_library(${target} STATIC ${L_SOURCES})
    set(scope PUBLIC)
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:qm_flags>)
    qm_precompile(${target})
    # Excluded from unity builds (APART): sources that tests replace, and sources that define a name of another source.
    list(LENGTH L_SOURCES count)
    if((L_NAME IN_LIST QM_UNITY OR QM_UNITY STREQUAL ON) AND count GREATER 8)
      set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
    endif()
    foreach(source IN LISTS L_APART)
      set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endforeach()
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  add_library(quartermaster::${L_NAME} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${L_NAME})
  target_compile_features(${target} ${scope} cxx_std_20)
  target_sources(${target} ${scope} FILE_SET HEADERS BASE_DIRS ${L_BASE_DIRS} FILES ${L_HEADERS})
  set_target_properties(${target} PROPERTIES QM_RANK ${L_RANK} VERIFY_INTERFACE_HEADER_SETS ON)
  foreach(used IN LISTS L_USES)
    get_target_property(rank qm_${used} QM_RANK)
    if(NOT rank LESS L_RANK)
      message(FATAL_ERROR "layer ${L_NAME} (rank ${L_RANK}) must not use layer ${used} (rank ${rank})")
    endif()
    target_link_libraries(${target} ${scope} qm_${used})
  endforeach()
endfunction()
