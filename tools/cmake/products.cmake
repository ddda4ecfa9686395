# SPDX-License-Identifier: Apache-2.0
# What users link: Sinter::runtime and, with SINTER_COMPILER, Sinter::compiler. Both are put together
# of the folders' libraries, each as a shared and as a static library; BUILD_SHARED_LIBS chooses which
# of the two the names stand for in a project that adds this one as a subdirectory.
#
# sinter_product(NAME parts...): libNAME.so (target NAME_shared) and libNAME.a (target NAME_static) of
# the objects of `parts`. What these link that is not a part is linked by the product.
function(sinter_product name)
  set(objects)
  foreach(part ${ARGN})
    list(APPEND objects $<TARGET_OBJECTS:${part}>)
  endforeach()
  # Before 1.0 the layout of what users compile in may change with each minor version.
  set(soversion ${PROJECT_VERSION_MAJOR})
  if(soversion EQUAL 0)
    set(soversion ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  endif()
  foreach(kind shared static)
    string(TOUPPER ${kind} type)
    add_library(${name}_${kind} ${type} EXCLUDE_FROM_ALL ${objects})
    set_target_properties(${name}_${kind} PROPERTIES OUTPUT_NAME ${name} LINKER_LANGUAGE CXX
      VERSION ${PROJECT_VERSION} SOVERSION ${soversion})
  endforeach()
  # A shared library must be whole, and shows nothing of the static libraries in it.
  set(exports ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/exports.map)
  target_link_options(${name}_shared PRIVATE -Wl,--no-undefined -Wl,--gc-sections
                      -Wl,--version-script=${exports})
  set_target_properties(${name}_shared PROPERTIES LINK_DEPENDS ${exports})
endfunction()

set(runtime_parts sinter_files sinter_plan sinter_libraries sinter_xgrammar sinter_sandbox sinter_grammar sinter_runtime)
if(SINTER_WITH_CUDA)
  list(APPEND runtime_parts sinter_runtime_cuda sinter_graphs)
endif()
sinter_product(sinter ${runtime_parts})
set(runtime_headers $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/runtime/include>
                    $<INSTALL_INTERFACE:include>)
set(runtime_libraries fmt::fmt Threads::Threads ${CMAKE_DL_LIBS}
                      $<BUILD_INTERFACE:${HWY_LIBRARY}> $<INSTALL_INTERFACE:hwy>)
foreach(kind shared static)
  target_include_directories(sinter_${kind} INTERFACE ${runtime_headers})
  target_compile_features(sinter_${kind} INTERFACE cxx_std_20)
  # Of a static library the user's link has to do it.
  target_link_libraries(sinter_${kind} PRIVATE ${runtime_libraries})
endforeach()
set_target_properties(sinter_shared PROPERTIES SINTER_LAZY ${SINTER_OPENS_LATE})
target_link_libraries(sinter_shared PRIVATE sinter_onednn)
target_link_libraries(sinter_static PRIVATE DNNL::dnnl)

if(SINTER_COMPILER)
  # Files and the plan format are in both libraries: they are not API.
  set(compiler_parts sinter_compiler sinter_ir sinter_onnx_proto sinter_frontend sinter_fusion
                     sinter_codegen sinter_json)
  sinter_product(sinter_compiler ${compiler_parts})
  target_sources(sinter_compiler_shared PRIVATE $<TARGET_OBJECTS:sinter_files>
                 $<TARGET_OBJECTS:sinter_plan> $<TARGET_OBJECTS:sinter_libraries>
                 $<TARGET_OBJECTS:sinter_sandbox>)
  foreach(kind shared static)
    target_include_directories(sinter_compiler_${kind} INTERFACE
      $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/tools/compiler/include> $<INSTALL_INTERFACE:include>)
    target_link_libraries(sinter_compiler_${kind} PUBLIC sinter_${kind}
      PRIVATE fmt::fmt Threads::Threads ${CMAKE_DL_LIBS}
              $<BUILD_INTERFACE:${PROTOBUF_SHARED_LIBRARY};${ZIP_LIBRARY};${HWY_LIBRARY}>
              $<INSTALL_INTERFACE:protobuf;zip;hwy>)
  endforeach()
endif()

if(BUILD_SHARED_LIBS OR NOT DEFINED BUILD_SHARED_LIBS)
  set(kind shared)
else()
  set(kind static)
endif()
add_library(Sinter::runtime ALIAS sinter_${kind})
if(SINTER_COMPILER)
  add_library(Sinter::compiler ALIAS sinter_compiler_${kind})
endif()
