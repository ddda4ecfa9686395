# sinter_library(NAME folder...): a static library of all .cpp files in the named folders of the
# current directory (not recursive), with the project's warnings.
function(sinter_library name)
  cmake_parse_arguments(ARG "" "" "FOLDERS;EXCLUDE" ${ARGN})
  set(sources)
  foreach(folder ${ARG_FOLDERS})
    file(GLOB found CONFIGURE_DEPENDS ${folder}/*.cpp)
    list(APPEND sources ${found})
  endforeach()
  add_library(${name} STATIC ${sources})
  sinter_warnings(${name})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/runtime/include)
endfunction()

function(sinter_warnings name)
  target_compile_options(${name} PRIVATE -Wall -Wextra -Werror -Wno-missing-field-initializers)
  if(CMAKE_CXX_COMPILER_ID MATCHES Clang)  # targets may silence warnings that only GCC has
    target_compile_options(${name} PRIVATE -Wno-unknown-warning-option)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC 12 warns of overlapping copies inside std::string where there are none (GCC bug 105651).
    target_compile_options(${name} PRIVATE -Wno-restrict)
  endif()
  # Sanitizers' instrumentation gives GCC false positives of this one (GCC manual, -fsanitize).
  if(SINTER_SANITIZE)
    target_compile_options(${name} PRIVATE -Wno-maybe-uninitialized)
  endif()
endfunction()
