// SPDX-License-Identifier: Apache-2.0
// The CUDA driver's entry points, loaded at run time and checked at every call.
#pragma once

#include <functional>
#include <string_view>

#include <cuda.h>
#include <sinter/error.h>

namespace sinter::graphs {

class Driver;

/// Throws the Error of a failed driver call: kOutOfMemory for CUDA_ERROR_OUT_OF_MEMORY, else
/// kDevice. The message has the call's name, and the driver's name and text for `result`.
[[noreturn]] void fail(const Driver& driver, CUresult result, std::string_view call);

template <typename Function>
class Entry;

/// One entry point. A call throws on failure; `raw` returns the result instead.
template <typename... Args>
class Entry<CUresult (*)(Args...)> {
 public:
  Entry() = default;
  Entry(const Driver* driver, const char* name, void* address)
      : driver_(driver), name_(name), function_(reinterpret_cast<CUresult (*)(Args...)>(address)) {}

  void operator()(Args... args) const {
    if (const CUresult result = function_(args...); result != CUDA_SUCCESS)
      fail(*driver_, result, name_);
  }
  CUresult raw(Args... args) const noexcept { return function_(args...); }
  /// False for an optional entry point that the installed driver lacks.
  explicit operator bool() const { return function_ != nullptr; }

 private:
  const Driver* driver_ = nullptr;
  const char* name_ = "";
  CUresult (*function_)(Args...) = nullptr;
};

// X(member, entry point). The header's macros choose the version for which it was compiled.
#define SINTER_DRIVER_FUNCTIONS(X)                                            \
  X(get_error_name, cuGetErrorName)                                           \
  X(get_error_string, cuGetErrorString)                                       \
  X(init, cuInit)                                                             \
  X(driver_get_version, cuDriverGetVersion)                                   \
  X(device_get_count, cuDeviceGetCount)                                       \
  X(device_get, cuDeviceGet)                                                  \
  X(device_get_name, cuDeviceGetName)                                         \
  X(device_get_attribute, cuDeviceGetAttribute)                               \
  X(device_total_mem, cuDeviceTotalMem)                                       \
  X(device_can_access_peer, cuDeviceCanAccessPeer)                            \
  X(ctx_enable_peer_access, cuCtxEnablePeerAccess)                            \
  X(primary_ctx_retain, cuDevicePrimaryCtxRetain)                             \
  X(primary_ctx_release, cuDevicePrimaryCtxRelease)                           \
  X(ctx_push_current, cuCtxPushCurrent)                                       \
  X(ctx_pop_current, cuCtxPopCurrent)                                         \
  X(mem_get_info, cuMemGetInfo)                                               \
  X(mem_alloc, cuMemAlloc)                                                    \
  X(mem_free, cuMemFree)                                                      \
  X(mem_host_alloc, cuMemHostAlloc)                                           \
  X(mem_free_host, cuMemFreeHost)                                             \
  X(memcpy_htod_async, cuMemcpyHtoDAsync)                                     \
  X(memcpy_dtoh_async, cuMemcpyDtoHAsync)                                     \
  X(memcpy_dtod_async, cuMemcpyDtoDAsync)                                     \
  X(memset_d8_async, cuMemsetD8Async)                                         \
  X(pointer_get_attribute, cuPointerGetAttribute)                             \
  X(stream_create, cuStreamCreate)                                            \
  X(stream_destroy, cuStreamDestroy)                                          \
  X(stream_synchronize, cuStreamSynchronize)                                  \
  X(stream_is_capturing, cuStreamIsCapturing)                                 \
  X(stream_wait_event, cuStreamWaitEvent)                                     \
  X(stream_begin_capture, cuStreamBeginCapture)                               \
  X(stream_end_capture, cuStreamEndCapture)                                   \
  X(event_create, cuEventCreate)                                              \
  X(event_destroy, cuEventDestroy)                                            \
  X(event_record, cuEventRecord)                                              \
  X(event_synchronize, cuEventSynchronize)                                    \
  X(event_elapsed_time, cuEventElapsedTime)                                   \
  X(module_load_data, cuModuleLoadData)                                       \
  X(module_unload, cuModuleUnload)                                            \
  X(module_get_function, cuModuleGetFunction)                                 \
  X(func_get_attribute, cuFuncGetAttribute)                                   \
  X(func_set_attribute, cuFuncSetAttribute)                                   \
  X(occupancy_max_active_blocks, cuOccupancyMaxActiveBlocksPerMultiprocessor) \
  X(tensor_map_encode_tiled, cuTensorMapEncodeTiled)                          \
  X(tensor_map_encode_im2col, cuTensorMapEncodeIm2col)                        \
  X(launch_kernel_ex, cuLaunchKernelEx)                                       \
  X(graph_instantiate, cuGraphInstantiate)                                    \
  X(graph_destroy, cuGraphDestroy)                                            \
  X(graph_get_nodes, cuGraphGetNodes)                                         \
  X(graph_node_get_type, cuGraphNodeGetType)                                  \
  X(graph_launch, cuGraphLaunch)                                              \
  X(graph_upload, cuGraphUpload)                                              \
  X(graph_exec_update, cuGraphExecUpdate)                                     \
  X(graph_exec_destroy, cuGraphExecDestroy)

// Newer than the oldest supported driver; entries may be empty.
#define SINTER_DRIVER_OPTIONAL_FUNCTIONS(X)                                   \
  X(func_load, cuFuncLoad)                                                    \
  X(stream_get_capture_info, cuStreamGetCaptureInfo_v3)                       \
  X(stream_update_capture_dependencies, cuStreamUpdateCaptureDependencies_v2) \
  X(stream_begin_capture_to_graph, cuStreamBeginCaptureToGraph)               \
  X(graph_conditional_handle_create, cuGraphConditionalHandleCreate)          \
  X(graph_add_node, cuGraphAddNode_v2)

/// The table of entry points of one driver library.
class Driver {
 public:
  /// Returns the address of a symbol ("cuMemAlloc_v2"), or null.
  using Resolver = std::function<void*(const char* symbol)>;

  /// Fills the table and initialises the driver. Throws Error(kDevice) naming a missing symbol, or
  /// if no GPU is visible. Tests pass their own resolver.
  explicit Driver(const Resolver& resolve);
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  /// The machine's driver, loaded from libcuda.so.1 at the first call and never unloaded. Throws
  /// Error(kDevice) with the remedy if it is missing; the next call tries again.
  static const Driver& system();

  /// The newest CUDA version that the driver supports: 13000 for 13.0.
  int version() const { return version_; }

#define SINTER_DECLARE_ENTRY(member, symbol) Entry<decltype(&::symbol)> member;
  SINTER_DRIVER_FUNCTIONS(SINTER_DECLARE_ENTRY)
  SINTER_DRIVER_OPTIONAL_FUNCTIONS(SINTER_DECLARE_ENTRY)
#undef SINTER_DECLARE_ENTRY

 private:
  int version_ = 0;
};

}  // namespace sinter::graphs
