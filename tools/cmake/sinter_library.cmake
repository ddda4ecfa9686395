# SPDX-License-Identifier: Apache-2.0
# sinter_library(NAME FOLDERS folder... TREES folder...): a static library of all .cpp files in the
# named folders of the current directory, and in and below TREES, with the project's warnings. Most of a small file's compile
# time is its headers', so that some are compiled together (SINTER_UNITY_BATCH).
function(sinter_library name)
  cmake_parse_arguments(ARG "" "" "FOLDERS;TREES" ${ARGN})
  set(sources)
  foreach(tree ${ARG_TREES})
    file(GLOB_RECURSE found CONFIGURE_DEPENDS ${tree}/*.cpp)
    list(APPEND sources ${found})
  endforeach()
  foreach(folder ${ARG_FOLDERS})
    file(GLOB found CONFIGURE_DEPENDS ${folder}/*.cpp)
    list(APPEND sources ${found})
  endforeach()
  add_library(${name} STATIC ${sources})
  sinter_warnings(${name})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR}
                             ${PROJECT_SOURCE_DIR}/runtime/include)
  sinter_unity(${name})
endfunction()

# Compiles sources of a target in batches, each of one folder: when the directory has been read, so that
# all sources and their properties are known. Files that are generated, that have options of their own or
# SKIP_UNITY_BUILD_INCLUSION stay alone. CMake's own batches name sources by their whole path, so that ccache
# would not know them in another checkout.
function(sinter_unity name)
  if(SINTER_UNITY_BATCH GREATER 1)
    cmake_language(EVAL CODE "cmake_language(DEFER CALL sinter_write_batches ${name} [[${PROJECT_SOURCE_DIR}]])")
  endif()
endfunction()

# sinter_write_batches(NAME ROOT): includes are relative to ROOT, which is an include folder of the target.
function(sinter_write_batches name root)
  get_filename_component(root "${root}" ABSOLUTE)
  get_target_property(sources ${name} SOURCES)
  set(kept)
  set(groups)
  foreach(source ${sources})
    get_filename_component(path "${source}" ABSOLUTE)
    set(alone FALSE)
    foreach(property GENERATED SKIP_UNITY_BUILD_INCLUSION COMPILE_OPTIONS COMPILE_DEFINITIONS)
      get_source_file_property(value "${source}" ${property})
      if(value)
        set(alone TRUE)
      endif()
    endforeach()
    get_source_file_property(group "${source}" UNITY_GROUP)
    if(NOT group)
      file(RELATIVE_PATH folder ${root} "${path}")
      get_filename_component(folder "${folder}" DIRECTORY)
      string(MAKE_C_IDENTIFIER "${folder}" group)
    endif()
    string(FIND "${path}" "${root}/" at)
    string(FIND "${path}" "${PROJECT_BINARY_DIR}/" built)
    if(alone OR NOT at EQUAL 0 OR built EQUAL 0 OR NOT path MATCHES "\\.(cpp|cc)$")
      list(APPEND kept "${source}")
    else()
      list(APPEND groups ${group})
      list(APPEND sources_${group} "${path}")
    endif()
  endforeach()
  list(REMOVE_DUPLICATES groups)
  foreach(group ${groups})
    list(LENGTH sources_${group} count)
    math(EXPR last "(${count} - 1) / ${SINTER_UNITY_BATCH}")
    foreach(batch RANGE ${last})
      math(EXPR first "${batch} * ${SINTER_UNITY_BATCH}")
      list(SUBLIST sources_${group} ${first} ${SINTER_UNITY_BATCH} paths)
      list(LENGTH paths count)
      if(count EQUAL 1)
        list(APPEND kept "${paths}")
        continue()
      endif()
      set(text)
      foreach(path ${paths})
        file(RELATIVE_PATH path ${root} "${path}")
        string(APPEND text "#include \"${path}\"\n")
      endforeach()
      set(file ${CMAKE_CURRENT_BINARY_DIR}/batches/${name}/${group}_${batch}.cpp)
      file(CONFIGURE OUTPUT ${file} CONTENT "${text}" @ONLY)
      list(APPEND kept ${file})
    endforeach()
  endforeach()
  set_target_properties(${name} PROPERTIES SOURCES "${kept}")
endfunction()

# sinter_cuda_aware(files...): sources with a part that only builds with the CUDA target have. They
# alone see SINTER_WITH_CUDA, so that with and without it the rest is the same.
function(sinter_cuda_aware)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  if(SINTER_WITH_CUDA)
    set_source_files_properties(${ARGN} PROPERTIES COMPILE_DEFINITIONS SINTER_WITH_CUDA=1
                                COMPILE_OPTIONS "-isystem;${CUDA_INCLUDE_DIR}")
  endif()
endfunction()

# Headers that most files of a target read, compiled once. A file still includes what it uses.
function(sinter_precompile name)
  target_precompile_headers(${name} PRIVATE <algorithm> <cstdint> <functional> <map> <memory>
                            <optional> <span> <string> <string_view> <variant> <vector> ${ARGN})
endfunction()

# sinter_lazy_library(NAME source libraries...): what targets link to have the C libraries: these, or, where the
# target that is linked has the property SINTER_LAZY, NAME_lazy, whose functions open them when they are called.
function(sinter_lazy_library name source)
  add_library(${name}_lazy STATIC ${source})
  target_link_libraries(${name}_lazy PRIVATE sinter_lazy)
  foreach(library ${ARGN})
    if(TARGET ${library})
      target_include_directories(${name}_lazy SYSTEM PRIVATE
                                 $<TARGET_PROPERTY:${library},INTERFACE_INCLUDE_DIRECTORIES>)
    endif()
  endforeach()
  sinter_warnings(${name}_lazy)
  add_library(${name} INTERFACE)
  target_link_libraries(${name} INTERFACE
    "$<IF:$<BOOL:$<TARGET_PROPERTY:SINTER_LAZY>>,${name}_lazy,${ARGN}>")
endfunction()

function(sinter_warnings name)
  target_compile_options(${name} PRIVATE -Wall -Wextra -Wno-missing-field-initializers)
  # Instrumented code gives GCC false positives, so warnings are errors in plain builds alone.
  if(SINTER_WERROR AND NOT SINTER_SANITIZE)
    target_compile_options(${name} PRIVATE -Werror)
  endif()
  if(CMAKE_CXX_COMPILER_ID MATCHES Clang)  # targets may silence warnings that only GCC has
    target_compile_options(${name} PRIVATE -Wno-unknown-warning-option -Wno-pass-failed)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC 12 warns of overlaps and overflows inside std::string where there are none (GCC bug 105651).
    target_compile_options(${name} PRIVATE -Wno-restrict -Wno-array-bounds -Wno-stringop-overflow)
    # A batch is not the main file, so that it counts each unnamed namespace in it as a header's.
    target_compile_options(${name} PRIVATE -Wno-subobject-linkage)
  endif()
endfunction()

# sinter_registry(OUTPUT HEADER NAMESPACE TYPE LIST sources...): writes a source that defines LIST(), which HEADER
# declares: pointers to what the functions that the sources are named after return. sort_family.cpp defines sort_family().
function(sinter_registry output header namespace type list)
  set(declarations)
  set(pointers)
  foreach(source ${ARGN})
    get_filename_component(name ${source} NAME_WE)
    string(APPEND declarations "const ${type}& ${name}();\n")
    string(APPEND pointers "      &${name}(),\n")
  endforeach()
  file(CONFIGURE OUTPUT ${output} @ONLY CONTENT "#include \"${header}\"

namespace sinter::${namespace} {

${declarations}
std::span<const ${type}* const> ${list}() {
  static const ${type}* const all[] = {
${pointers}  };
  return all;
}

}  // namespace sinter::${namespace}
")
endfunction()

# sinter_embed(OUTPUT header namespace type function files...): makes a source that has the files'
# texts, as embed_files.cmake says.
function(sinter_embed output header namespace type function)
  list(TRANSFORM ARGN REPLACE "^[^=]+=" "" OUTPUT_VARIABLE files)
  set(embed ${PROJECT_SOURCE_DIR}/tools/cmake/embed_files.cmake)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${output} -DHEADER=${header} -DNAMESPACE=${namespace}
            -DTYPE=${type} -DFUNCTION=${function} "-DFILES=${ARGN}" -P ${embed}
    DEPENDS ${files} ${embed} VERBATIM)
endfunction()

# sinter_device_headers(OUTPUT folders...): makes a source of all device headers (.cuh) in and below
# the folders, as strings, so that the binary compiles kernels without its sources.
function(sinter_device_headers output)
  set(headers)
  foreach(folder ${ARGN})
    file(GLOB_RECURSE found CONFIGURE_DEPENDS ${folder}/*.cuh)
    list(APPEND headers ${found})
  endforeach()
  sinter_embed(${output} codegen/targets/cuda/embedded_device_headers.h codegen DeviceHeader
               embedded_device_headers ${headers})
endfunction()
