# The package: `cmake --install` puts headers, libraries and find_package(quartermaster) below one prefix. A prefix holds one
# port, as a build does.
#
#   include/qm/...  lib/libqm_*.a  lib/cmake/quartermaster/  share/quartermaster/{cmake,linker,firmware,gdb}
#
# share/ has the same layout as the source tree, so that one cmake/QmFirmware.cmake serves both.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(targets codegen)
foreach(library wire hal alloc new malloc pmr conformance trace console console_trace console_scan chips boot app app_trace runtime host)
  if(TARGET qm_${library})
    list(APPEND targets ${library})
  endif()
endforeach()
list(JOIN targets ", " quartermaster_components)
list(TRANSFORM targets PREPEND qm_)
install(TARGETS ${targets} EXPORT quartermaster ARCHIVE FILE_SET HEADERS FILE_SET port)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/quartermaster)
install(EXPORT quartermaster NAMESPACE quartermaster:: FILE quartermaster-targets.cmake DESTINATION ${package})
configure_package_config_file(cmake/package/quartermaster-config.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/quartermaster-config.cmake
  INSTALL_DESTINATION ${package} PATH_VARS CMAKE_INSTALL_DATADIR)
# In versions 0.x a new minor number may break compatibility.
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/quartermaster-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/quartermaster-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/quartermaster-config-version.cmake
  DESTINATION ${package})

# pkg-config: quartermaster is the allocator; the other libraries precede it on the link line.
file(RELATIVE_PATH QM_PC_UP /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" QM_PC_UP ${QM_PC_UP})
function(_qm_install_pc name what requires)
  set(QM_PC_NAME ${name})
  set(QM_PC_WHAT ${what})
  set(QM_PC_REQUIRES ${requires})
  list(JOIN ARGN " " QM_PC_LIBS)
  configure_file(cmake/package/quartermaster.pc.in ${PROJECT_BINARY_DIR}/${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()
set(system "")
if(NOT CMAKE_CROSSCOMPILING)
  set(system -lstdc++ -pthread)
endif()
_qm_install_pc(quartermaster "A memory allocator that can say who allocated every byte" "" -lqm_alloc -lqm_hal ${system})
if(TARGET qm_malloc)
  _qm_install_pc(quartermaster-malloc "malloc() and operator new from it" quartermaster -lqm_malloc)
endif()
if(TARGET qm_trace)
  _qm_install_pc(quartermaster-trace "Its trace: who holds the memory" quartermaster -lqm_trace -lqm_wire)
endif()

set(share ${CMAKE_INSTALL_DATADIR}/quartermaster)
install(FILES host/gdb/quartermaster.py DESTINATION ${share}/gdb)
if(CMAKE_CROSSCOMPILING)
  install(DIRECTORY cmake/toolchains DESTINATION ${share}/cmake)
endif()
if(TARGET qm_boot)
  install(FILES cmake/QmFirmware.cmake cmake/VerifyImage.cmake cmake/symbol_table.awk DESTINATION ${share}/cmake)
  install(FILES linker/qemu_virt.ld DESTINATION ${share}/linker)
  install(FILES firmware/boot/src/symbols_none.S DESTINATION ${share}/firmware/boot/src)
endif()
foreach(program qm qm-analysis qm-replay)  # qm starts the others, which lie in the same folder
  if(TARGET ${program})
    install(TARGETS ${program})
  endif()
endforeach()
# The targets that have to be built before `cmake --install`.
set(QM_INSTALLED "")
foreach(target ${targets} qm qm-analysis qm-replay)
  if(TARGET ${target})
    get_target_property(type ${target} TYPE)
    if(NOT type STREQUAL INTERFACE_LIBRARY)
      list(APPEND QM_INSTALLED ${target})
    endif()
  endif()
endforeach()
install(FILES LICENSE CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
