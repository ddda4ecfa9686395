# SPDX-License-Identifier: Apache-2.0
# cmake --install, by component:
#   runtime    libsinter.so.N, and oneDNN where it is not the system's
#   compiler   libsinter_compiler.so.N
#   tools      the command `sinter`
#   grpc       its module for gRPC
#   dev        headers, links and static libraries, CMake package, pkg-config files
# tools/release makes packages of them, by tools/packaging/packages.toml.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Sinter)
# oneDNN from elsewhere than the system's folders, as PyPI's, lies in a folder of ours: no other
# program shall find it.
set(private_dir ${CMAKE_INSTALL_LIBDIR}/sinter)
set(products sinter)
if(SINTER_COMPILER)
  list(APPEND products sinter_compiler)
endif()
foreach(product ${products})
  set_target_properties(${product}_shared PROPERTIES INSTALL_RPATH "$ORIGIN;$ORIGIN/sinter")
  # As DT_RPATH, which holds for what libraries in lib/sinter need of each other.
  target_link_options(${product}_shared PRIVATE -Wl,--disable-new-dtags)
  foreach(kind shared static)
    set_target_properties(${product}_${kind} PROPERTIES EXCLUDE_FROM_ALL OFF)
  endforeach()
endforeach()

set_target_properties(sinter_shared PROPERTIES EXPORT_NAME runtime_shared)
set_target_properties(sinter_static PROPERTIES EXPORT_NAME runtime_static)
# A set of its own for each library that may be there alone: CMake refuses a set whose files are not.
install(TARGETS sinter_shared EXPORT SinterRuntimeTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT dev)
install(TARGETS sinter_static EXPORT SinterStaticTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
if(SINTER_COMPILER)
  set_target_properties(sinter_compiler_shared PROPERTIES EXPORT_NAME compiler_shared)
  set_target_properties(sinter_compiler_static PROPERTIES EXPORT_NAME compiler_static)
  install(TARGETS sinter_compiler_shared EXPORT SinterCompilerTargets
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT compiler NAMELINK_COMPONENT dev)
  install(TARGETS sinter_compiler_static EXPORT SinterStaticTargets
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
  install(EXPORT SinterCompilerTargets NAMESPACE Sinter:: DESTINATION ${package_dir} COMPONENT dev)
  set_target_properties(sinter PROPERTIES
    INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR};$ORIGIN/../${private_dir}")
  target_link_options(sinter PRIVATE -Wl,--disable-new-dtags)
  if(TARGET sinter_grpc)
    set_target_properties(sinter_grpc PROPERTIES INSTALL_RPATH "$ORIGIN")
    target_link_options(sinter_grpc PRIVATE -Wl,--disable-new-dtags)
  endif()
  install(TARGETS sinter RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
  install(TARGETS sinter_grpc LIBRARY DESTINATION ${private_dir} COMPONENT grpc)
endif()

if(SINTER_DNNL_IS_PRIVATE)
  # Without names of its inner functions, a fifth of PyPI's.
  set(shipped_dnnl ${SINTER_DNNL_FILE})
  set(stripped ${CMAKE_CURRENT_BINARY_DIR}/shipped/libdnnl.so.3)
  if(CMAKE_STRIP)
    file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/shipped)
    execute_process(COMMAND ${CMAKE_STRIP} -o ${stripped} ${SINTER_DNNL_FILE} RESULT_VARIABLE failed)
    if(NOT failed)
      set(shipped_dnnl ${stripped})
    endif()
  endif()
  install(FILES ${shipped_dnnl} DESTINATION ${private_dir} COMPONENT runtime RENAME libdnnl.so.3)
endif()

# Headers: what users include. scalar_op.h is for the compiler's own folders.
file(GLOB headers ${PROJECT_SOURCE_DIR}/runtime/include/sinter/*.h ${PROJECT_SOURCE_DIR}/runtime/include/sinter/*.inc)
list(FILTER headers EXCLUDE REGEX "/scalar_op.h$")
if(SINTER_COMPILER)
  file(GLOB compiler_headers ${PROJECT_SOURCE_DIR}/tools/compiler/include/sinter/*.h
       ${PROJECT_SOURCE_DIR}/tools/compiler/include/sinter/*.inc)
  list(APPEND headers ${compiler_headers})
endif()
install(FILES ${headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sinter COMPONENT dev)

foreach(set Runtime Static)
  install(EXPORT Sinter${set}Targets NAMESPACE Sinter:: DESTINATION ${package_dir} COMPONENT dev)
endforeach()
set(compiler_file ${CMAKE_INSTALL_LIBDIR}/libsinter_compiler.so.${PROJECT_VERSION})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/SinterConfig.cmake.in SinterConfig.cmake
                              INSTALL_DESTINATION ${package_dir} PATH_VARS private_dir compiler_file)
write_basic_package_version_file(SinterConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/SinterConfig.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/SinterConfigVersion.cmake
        DESTINATION ${package_dir} COMPONENT dev)

# pkg-config: `--static` adds what the static libraries need. The prefix is where the file lies.
set(pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH PC_TO_PREFIX /prefix/${pc_dir} /prefix)
string(REGEX REPLACE "/$" "" PC_TO_PREFIX ${PC_TO_PREFIX})
if(SINTER_DNNL_IS_PRIVATE)
  set(PC_DNNL "-L\${libdir}/sinter -l:libdnnl.so.3 -Wl,-rpath,\${libdir}/sinter")
else()
  set(PC_DNNL "-ldnnl")
endif()
foreach(product ${products})
  configure_file(${CMAKE_CURRENT_LIST_DIR}/${product}.pc.in ${product}.pc @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${product}.pc
          DESTINATION ${pc_dir} COMPONENT dev)
endforeach()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/NOTICE DESTINATION ${CMAKE_INSTALL_DOCDIR}
        COMPONENT runtime)
