# cmake -DCOMPILER= -DXLEN=64 -DFLAGS=flag,flag -DINCLUDES=dir,dir -DARCHIVES=alloc.a,hal.a,runtime.a -DDIRECTORY= -P rewind.cmake
# Restartable sections need the hook in the trap entry. An image with sections that never calls qm_rewind() must not
# link, and the name of the missing symbol must say why. It must link with a call, or if it declares that it takes no
# interrupts. With GNU ld, and with lld if available.
cmake_minimum_required(VERSION 3.25)
foreach(list FLAGS INCLUDES ARCHIVES)
  string(REPLACE "," ";" ${list} "${${list}}")
endforeach()
list(REMOVE_DUPLICATES INCLUDES)
list(TRANSFORM INCLUDES PREPEND -I)
file(MAKE_DIRECTORY ${DIRECTORY})

file(WRITE ${DIRECTORY}/firmware.cpp [[
#include <qm/hal/port.hpp>
#include <qm/qm.h>
void qm::hal::platform_fatal(const char*) noexcept {
  for (;;) continue;
}
static unsigned char ram[65536];
extern "C" void start() {
  if (qm_init(ram, sizeof ram) == QM_OK) qm_free(qm_malloc(100));
  for (;;) continue;
}
]])
file(WRITE ${DIRECTORY}/trap.cpp [[
#include <qm/rewind.hpp>
extern "C" std::uintptr_t trap(std::uintptr_t pc, const std::uintptr_t* registers) { return qm_rewind(pc, registers); }
]])
foreach(source firmware trap)
  execute_process(COMMAND ${COMPILER} ${FLAGS} -std=c++20 -O2 -mcmodel=medany -fno-pie -fno-exceptions -ffreestanding ${INCLUDES}
    -c ${DIRECTORY}/${source}.cpp -o ${DIRECTORY}/${source}.o COMMAND_ERROR_IS_FATAL ANY)
endforeach()

# Links the firmware with ARGN. Sets `said` to the linker's messages without positions.
function(link linker result)
  execute_process(COMMAND ${linker} -m elf${XLEN}lriscv -static --gc-sections -e start ${DIRECTORY}/firmware.o ${ARGN} ${ARCHIVES}
    -o ${DIRECTORY}/firmware.elf RESULT_VARIABLE status ERROR_VARIABLE error)
  string(REGEX MATCHALL "undefined (reference to|symbol:) [^\n]*" said "${error}")
  list(REMOVE_DUPLICATES said)
  set(${result} ${status} PARENT_SCOPE)
  set(said "${said}" PARENT_SCOPE)
endfunction()

execute_process(COMMAND ${COMPILER} -print-prog-name=ld OUTPUT_VARIABLE linkers OUTPUT_STRIP_TRAILING_WHITESPACE)
find_program(LLD ld.lld)
if(LLD)
  list(APPEND linkers ${LLD})
endif()
foreach(linker IN LISTS linkers)
  link(${linker} status)
  if(status EQUAL 0 OR NOT said MATCHES "^undefined (reference to|symbol:) [`']?qm_rewind_is_called'?$")
    message(FATAL_ERROR "${linker}: without a call of qm_rewind() status ${status}, and said is: ${said}")
  endif()
  foreach(with "${DIRECTORY}/trap.o" --defsym=qm_rewind_is_called=0)
    link(${linker} status ${with})
    if(NOT status EQUAL 0)
      message(FATAL_ERROR "${linker}: with ${with}: ${said}")
    endif()
  endforeach()
endforeach()
message(STATUS "without a call of qm_rewind() nothing links: ${linkers}")
