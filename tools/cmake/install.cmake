# cmake --install, by component:
#   runtime    libsinter.so.N, and oneDNN where it is not the system's
#   compiler   libsinter_compiler.so.N
#   tools      the command `sinter`
#   grpc       its module for gRPC
#   dev        headers, links and static libraries, CMake package, pkg-config files
# `cpack -G DEB` makes a Debian package of each.
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
file(GLOB headers ${PROJECT_SOURCE_DIR}/runtime/include/sinter/*.h)
list(FILTER headers EXCLUDE REGEX "/scalar_op.h$")
if(SINTER_COMPILER)
  file(GLOB compiler_headers ${PROJECT_SOURCE_DIR}/tools/compiler/include/sinter/*.h)
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
install(FILES ${PROJECT_SOURCE_DIR}/tools/cmake/THIRD_PARTY.md DESTINATION ${CMAKE_INSTALL_DOCDIR}
        COMPONENT runtime)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME sinter)
set(CPACK_PACKAGE_VENDOR "Sinter")
set(CPACK_PACKAGE_CONTACT "Sinter maintainers")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Graph-mode fusion compiler and runtime for ONNX models")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL runtime dev)
if(SINTER_COMPILER)
  list(APPEND CPACK_COMPONENTS_ALL compiler tools grpc)
endif()
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# What other packages of these have; they are named below.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_CURRENT_BINARY_DIR})
if(SINTER_DNNL_IS_PRIVATE)
  list(APPEND CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${dnnl_folder})
endif()
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME libsinter)
if(NOT SINTER_DNNL_IS_PRIVATE)
  sinter_debian_package(CPACK_DEBIAN_RUNTIME_PACKAGE_DEPENDS ${SINTER_DNNL_FILE} libdnnl3)
endif()
if(SINTER_COMPILER)
  sinter_debian_package(zip_package ${ZIP_LIBRARY} libzip4)
  sinter_debian_package(sndfile_package ${SNDFILE_LIBRARY} libsndfile1)
  sinter_debian_package(samplerate_package ${SAMPLERATE_LIBRARY} libsamplerate0)
  set(zip_dependency ", ${zip_package}")
endif()
set(CPACK_DEBIAN_COMPILER_PACKAGE_NAME libsinter-compiler)
set(CPACK_DEBIAN_COMPILER_PACKAGE_DEPENDS "libsinter (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME sinter)
# What the command opens late no one finds in it (libhwy: libsinter has it, too).
set(CPACK_DEBIAN_TOOLS_PACKAGE_DEPENDS "libsinter (= ${PROJECT_VERSION})${zip_dependency}")
set(CPACK_DEBIAN_TOOLS_PACKAGE_RECOMMENDS "${sndfile_package}, ${samplerate_package}")
set(CPACK_DEBIAN_TOOLS_PACKAGE_SUGGESTS "sinter-grpc (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_GRPC_PACKAGE_NAME sinter-grpc)
set(CPACK_DEBIAN_GRPC_PACKAGE_DEPENDS "sinter (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_DEV_PACKAGE_NAME libsinter-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "libsinter (= ${PROJECT_VERSION})")
# Static libraries are linked with those of Debian.
set(CPACK_DEBIAN_DEV_PACKAGE_SUGGESTS
    "libsinter-compiler (= ${PROJECT_VERSION}), libfmt-dev, libhwy-dev, libprotobuf-dev, libzip-dev")
include(CPack)
