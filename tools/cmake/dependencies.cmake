# SPDX-License-Identifier: Apache-2.0
# Third-party packages. tools/setup installs them: Debian 12 packages but oneDNN, xgrammar and
# the CUDA toolkit.
find_package(Threads REQUIRED)
find_package(fmt 9 REQUIRED)

# oneDNN >= 3.0: the system's, or what tools/setup got from PyPI.
find_package(dnnl 3 CONFIG QUIET)
if(NOT dnnl_FOUND)
  find_package(dnnl 3 CONFIG QUIET PATHS ${CMAKE_CURRENT_LIST_DIR}/../../.deps/onednn NO_DEFAULT_PATH)
endif()
if(NOT dnnl_FOUND)
  message(FATAL_ERROR "No oneDNN 3.x was found (Debian 12's libdnnl-dev is 2.6): run tools/setup, which gets "
                      "it from PyPI into .deps/onednn, or set dnnl_DIR to the folder of dnnl-config.cmake")
endif()
message(STATUS "oneDNN: ${dnnl_VERSION} in ${dnnl_DIR}")
get_target_property(SINTER_DNNL_FILE DNNL::dnnl IMPORTED_LOCATION_RELEASE)
if(NOT SINTER_DNNL_FILE)
  get_target_property(SINTER_DNNL_FILE DNNL::dnnl IMPORTED_LOCATION)
endif()
# One outside of the system's folders is installed with what is built.
get_filename_component(dnnl_folder ${SINTER_DNNL_FILE} DIRECTORY)
file(REAL_PATH ${SINTER_DNNL_FILE} SINTER_DNNL_FILE)
get_filename_component(dnnl_real_folder ${SINTER_DNNL_FILE} DIRECTORY)
set(system_folders ${CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES} /usr/local/lib)
set(SINTER_DNNL_IS_PRIVATE ON)
if(dnnl_folder IN_LIST system_folders OR dnnl_real_folder IN_LIST system_folders)
  set(SINTER_DNNL_IS_PRIVATE OFF)
endif()

# Sources of xgrammar, as tools/setup has them from PyPI: no package is a library.
set(SINTER_XGRAMMAR ${CMAKE_CURRENT_LIST_DIR}/../../.deps/xgrammar CACHE PATH
    "Folder of xgrammar's sources as tools/setup makes it")
if(NOT EXISTS ${SINTER_XGRAMMAR}/cpp/support/work.h)
  message(FATAL_ERROR "No sources of xgrammar were found in ${SINTER_XGRAMMAR}: run tools/setup, which gets them "
                      "from PyPI and patches them, or set SINTER_XGRAMMAR to such a folder")
endif()

# sinter_soname(VARIABLE file): what the loader knows a shared library by.
function(sinter_soname variable file)
  execute_process(COMMAND ${CMAKE_OBJDUMP} -p ${file} OUTPUT_VARIABLE headers ERROR_QUIET)
  if(NOT headers MATCHES "SONAME +([^ \n]+)")
    message(FATAL_ERROR "${file} is no shared library with a soname (by ${CMAKE_OBJDUMP} -p)")
  endif()
  set(${variable} ${CMAKE_MATCH_1} PARENT_SCOPE)
endfunction()
# sinter_debian_package(VARIABLE file otherwise): the installed package that has a file, where there is dpkg.
function(sinter_debian_package variable file otherwise)
  file(REAL_PATH ${file} file)
  execute_process(COMMAND dpkg-query -S ${file} OUTPUT_VARIABLE owner ERROR_QUIET RESULT_VARIABLE failed)
  set(${variable} ${otherwise} PARENT_SCOPE)
  if(NOT failed AND owner MATCHES "^([^:, ]+)")
    set(${variable} ${CMAKE_MATCH_1} PARENT_SCOPE)
  endif()
endfunction()
sinter_soname(SINTER_DNNL_SONAME ${SINTER_DNNL_FILE})
# What the build's own binaries open late is found as what they link.
if(SINTER_DNNL_IS_PRIVATE)
  list(APPEND CMAKE_BUILD_RPATH ${dnnl_folder})
endif()

find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
find_program(FLATC flatc REQUIRED)
find_path(FLATBUFFERS_INCLUDE_DIR flatbuffers/flatbuffers.h REQUIRED)  # headers suffice
find_library(HWY_LIBRARY NAMES hwy REQUIRED)
find_path(HWY_INCLUDE_DIR hwy/highway.h REQUIRED)

if(SINTER_COMPILER)
  find_package(CLI11 REQUIRED)
  find_path(TOMLPLUSPLUS_INCLUDE_DIR toml++/toml.h REQUIRED)
  find_package(nlohmann_json 3.11 REQUIRED)
  find_package(Eigen3 3.4 REQUIRED NO_MODULE)
  find_program(PROTOC protoc REQUIRED)
  # The shared one: Debian's libprotobuf.a fits into no shared library. It fits into the command, which so has no
  # library to load, where it is there.
  find_library(PROTOBUF_SHARED_LIBRARY NAMES protobuf REQUIRED)
  find_library(PROTOBUF_STATIC_LIBRARY NAMES libprotobuf.a)
  find_library(PROTOBUF_Z_LIBRARY NAMES z)
  find_path(PROTOBUF_INCLUDE_DIR google/protobuf/message.h REQUIRED)
  find_file(ONNX_PROTO onnx/onnx.proto PATHS /usr/include REQUIRED NO_DEFAULT_PATH)
  find_library(ZIP_LIBRARY NAMES zip REQUIRED)
  find_path(ZIP_INCLUDE_DIR zip.h REQUIRED)
  # HTTP, of `sinter serve`: Asio and Beast, headers alone.
  find_path(BOOST_INCLUDE_DIR boost/beast/version.hpp REQUIRED)
  add_library(sinter_boost INTERFACE)
  target_include_directories(sinter_boost SYSTEM INTERFACE ${BOOST_INCLUDE_DIR})
  target_compile_definitions(sinter_boost INTERFACE BOOST_ALL_NO_LIB BOOST_ASIO_NO_DEPRECATED
                             BOOST_ERROR_CODE_HEADER_ONLY)
  target_link_libraries(sinter_boost INTERFACE Threads::Threads)
  # gRPC, of `sinter serve`.
  find_program(GRPC_CPP_PLUGIN grpc_cpp_plugin REQUIRED)
  find_library(GRPCPP_LIBRARY NAMES grpc++ REQUIRED)
  find_library(GPR_LIBRARY NAMES gpr REQUIRED)
  find_library(ABSL_SYNCHRONIZATION_LIBRARY NAMES absl_synchronization REQUIRED)  # its headers' part
  find_path(GRPC_INCLUDE_DIR grpcpp/grpcpp.h REQUIRED)
  # Files of sound and other rates, of `sinter transcribe`.
  find_library(SNDFILE_LIBRARY NAMES sndfile REQUIRED)
  find_path(SNDFILE_INCLUDE_DIR sndfile.h REQUIRED)
  find_library(SAMPLERATE_LIBRARY NAMES samplerate REQUIRED)
  find_path(SAMPLERATE_INCLUDE_DIR samplerate.h REQUIRED)
  # Files of images, of models that see.
  find_library(PNG_LIBRARY NAMES png16 png REQUIRED)
  find_path(PNG_INCLUDE_DIR png.h REQUIRED)
  find_library(JPEG_LIBRARY NAMES jpeg REQUIRED)
  find_path(JPEG_INCLUDE_DIR jpeglib.h REQUIRED)
  find_library(WEBP_LIBRARY NAMES webp REQUIRED)
  find_path(WEBP_INCLUDE_DIR webp/decode.h REQUIRED)
  # Patterns of tokenizers.
  find_library(ONIG_LIBRARY NAMES onig REQUIRED)
  find_path(ONIG_INCLUDE_DIR oniguruma.h REQUIRED)
endif()

# Only headers of the CUDA toolkit are needed: every CUDA library is loaded at run time.
set(SINTER_WITH_CUDA OFF)
if(NOT SINTER_CUDA STREQUAL "OFF")
  find_path(CUDA_INCLUDE_DIR cuda.h
            HINTS $ENV{SINTER_CUDA_HOME}/include ENV CUDA_HOME
                  ${PROJECT_SOURCE_DIR}/.deps/cuda/include /usr/local/cuda/include
            PATH_SUFFIXES include)
  if(CUDA_INCLUDE_DIR)
    file(STRINGS ${CUDA_INCLUDE_DIR}/cuda.h cuda_version_line REGEX "^#define CUDA_VERSION ")
    string(REGEX MATCH "[0-9]+" CUDA_VERSION_NUMBER "${cuda_version_line}")
    if(CUDA_VERSION_NUMBER GREATER_EQUAL 12080 AND EXISTS ${CUDA_INCLUDE_DIR}/nvrtc.h
       AND EXISTS ${CUDA_INCLUDE_DIR}/cublasLt.h)
      set(SINTER_WITH_CUDA ON)
    endif()
  endif()
  if(SINTER_WITH_CUDA)
    message(STATUS "CUDA target: on (headers ${CUDA_VERSION_NUMBER} in ${CUDA_INCLUDE_DIR})")
  elseif(SINTER_CUDA STREQUAL "ON")
    message(FATAL_ERROR "SINTER_CUDA=ON, but no CUDA toolkit >= 12.8 with nvrtc.h and cublasLt.h "
                        "was found: set CUDA_HOME, or run tools/setup --cuda")
  else()
    message(STATUS "CUDA target: off, this build is CPU-only (no CUDA toolkit >= 12.8 found; "
                   "tools/setup --cuda gets the needed parts from PyPI)")
  endif()
endif()

# Headers of cuDNN >= 9.8, to build what uses it: the library too is loaded at run time, 9.0 does.
set(SINTER_WITH_CUDNN OFF)
if(SINTER_WITH_CUDA)
  find_path(CUDNN_INCLUDE_DIR cudnn_graph.h
            HINTS ENV CUDNN_HOME ${CUDA_INCLUDE_DIR}
                  ${PROJECT_SOURCE_DIR}/.deps/pypi/nvidia/cudnn/include
            PATH_SUFFIXES include)
  if(CUDNN_INCLUDE_DIR)
    file(STRINGS ${CUDNN_INCLUDE_DIR}/cudnn_version.h cudnn_version_lines
         REGEX "^#define CUDNN_(MAJOR|MINOR) ")
    string(REGEX MATCHALL "[0-9]+" CUDNN_VERSION_NUMBERS "${cudnn_version_lines}")
    list(JOIN CUDNN_VERSION_NUMBERS "." CUDNN_HEADER_VERSION)
    if(CUDNN_HEADER_VERSION VERSION_GREATER_EQUAL 9.8)
      set(SINTER_WITH_CUDNN ON)
    endif()
  endif()
  if(SINTER_WITH_CUDNN)
    message(STATUS "cuDNN: on (headers ${CUDNN_HEADER_VERSION} in ${CUDNN_INCLUDE_DIR})")
  else()
    message(STATUS "cuDNN: off, convolutions on the GPU are done by our own kernels alone "
                   "(no headers >= 9.8 found; tools/setup --cudnn gets them from PyPI)")
  endif()
endif()
