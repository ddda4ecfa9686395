// SPDX-License-Identifier: Apache-2.0
// Entry points of the fake driver: devices, memory, streams, events, modules, kernels.
#include "tests/graphs/fake_entries.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

namespace sinter::testing {
namespace {

struct FakeFunction {
  std::string name;
  int shared_limit = 49152;
  bool is_assembly = false;
};
struct FakeModule {
  std::string assembly;  // of a module that is text; its kernels do nothing
  std::map<std::string, FakeFunction> functions;
};

CUresult get_error_name(CUresult result, const char** text) {
  *text = result == CUDA_ERROR_OUT_OF_MEMORY     ? "CUDA_ERROR_OUT_OF_MEMORY"
          : result == CUDA_ERROR_LAUNCH_FAILED   ? "CUDA_ERROR_LAUNCH_FAILED"
          : result == CUDA_ERROR_INVALID_CONTEXT ? "CUDA_ERROR_INVALID_CONTEXT"
                                                 : "CUDA_ERROR_FAKE";
  return CUDA_SUCCESS;
}
CUresult get_error_string(CUresult, const char** text) {
  *text = "a fake description";
  return CUDA_SUCCESS;
}
CUresult init(unsigned) {
  ENTER("cuInit");
  return fake().device_count == 0 ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}
CUresult driver_get_version(int* version) {
  *version = fake().driver_version;
  return CUDA_SUCCESS;
}
CUresult device_get_count(int* count) {
  *count = fake().device_count;
  return CUDA_SUCCESS;
}
CUresult device_get(CUdevice* device, int index) {
  *device = index;
  return CUDA_SUCCESS;
}
CUresult device_get_name(char* name, int length, CUdevice) {
  std::strncpy(name, "Fake GPU", static_cast<std::size_t>(length));
  return CUDA_SUCCESS;
}
CUresult device_get_attribute(int* value, CUdevice_attribute which, CUdevice) {
  switch (which) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = fake().major; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = fake().minor; break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = 132; break;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: *value = fake().l2_bytes; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = 232448; break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = 1024; break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: *value = 2048; break;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: *value = 1000000; break;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}
CUresult device_total_mem(std::size_t* bytes, CUdevice) {
  *bytes = fake().total_memory;
  return CUDA_SUCCESS;
}
CUresult ctx_retain(CUcontext* context, CUdevice) {
  ENTER("cuDevicePrimaryCtxRetain");
  ++fake().contexts;
  *context = reinterpret_cast<CUcontext>(&fake());
  return CUDA_SUCCESS;
}
CUresult ctx_release(CUdevice) {
  const std::lock_guard lock(fake().mutex);
  --fake().contexts;
  return CUDA_SUCCESS;
}
CUresult device_can_access_peer(int* can, CUdevice, CUdevice) {
  ENTER("cuDeviceCanAccessPeer");
  *can = fake().peer_access ? 1 : 0;
  return CUDA_SUCCESS;
}
CUresult ctx_enable_peer_access(CUcontext, unsigned) {
  ENTER_CONTEXT("cuCtxEnablePeerAccess");
  return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}
CUresult ctx_push(CUcontext) {
  ++context_depth;
  return CUDA_SUCCESS;
}
CUresult ctx_pop(CUcontext*) {
  --context_depth;
  return CUDA_SUCCESS;
}
CUresult mem_get_info(std::size_t* free_bytes, std::size_t* total) {
  ENTER_CONTEXT("cuMemGetInfo_v2");
  *total = fake().total_memory;
  *free_bytes = fake().total_memory - fake().device_bytes();
  return CUDA_SUCCESS;
}
CUresult mem_alloc(CUdeviceptr* address, std::size_t bytes) {
  ENTER_CONTEXT("cuMemAlloc_v2");
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (fake().device_bytes() + bytes > fake().total_memory) return CUDA_ERROR_OUT_OF_MEMORY;
  void* data = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(data, 0xcd, bytes);
  *address = reinterpret_cast<CUdeviceptr>(data);
  fake().device_memory[*address] = bytes;
  return CUDA_SUCCESS;
}
CUresult mem_free(CUdeviceptr address) {
  ENTER_CONTEXT("cuMemFree_v2");
  if (fake().device_memory.erase(address) == 0) return CUDA_ERROR_INVALID_VALUE;
  std::free(reinterpret_cast<void*>(address));
  return CUDA_SUCCESS;
}
CUresult mem_host_alloc(void** data, std::size_t bytes, unsigned) {
  ENTER_CONTEXT("cuMemHostAlloc");
  *data = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(*data, 0xab, bytes);
  fake().pinned.insert(*data);
  return CUDA_SUCCESS;
}
CUresult mem_free_host(void* data) {
  ENTER_CONTEXT("cuMemFreeHost");
  if (fake().pinned.erase(data) == 0) return CUDA_ERROR_INVALID_VALUE;
  std::free(data);
  return CUDA_SUCCESS;
}

bool is_device_range(CUdeviceptr address, std::size_t bytes) {
  auto at = fake().device_memory.upper_bound(address);
  if (at == fake().device_memory.begin()) return false;
  --at;
  return address + bytes <= at->first + at->second;
}
CUresult copy(CUstream stream, void* target, const void* source, std::size_t bytes) {
  fake().put(stream, CU_GRAPH_NODE_TYPE_MEMCPY, [=] {
    std::memcpy(target, source, bytes);
    fake().clock +=
        fake().copy_microseconds_per_megabyte * static_cast<double>(bytes) / (1024.0 * 1024.0);
  });
  return CUDA_SUCCESS;
}
CUresult memcpy_htod(CUdeviceptr target, const void* source, std::size_t bytes, CUstream stream) {
  ENTER_CONTEXT("cuMemcpyHtoDAsync_v2");
  if (!is_device_range(target, bytes)) return CUDA_ERROR_INVALID_VALUE;
  return copy(stream, reinterpret_cast<void*>(target), source, bytes);
}
CUresult memcpy_dtoh(void* target, CUdeviceptr source, std::size_t bytes, CUstream stream) {
  ENTER_CONTEXT("cuMemcpyDtoHAsync_v2");
  if (!is_device_range(source, bytes)) return CUDA_ERROR_INVALID_VALUE;
  return copy(stream, target, reinterpret_cast<void*>(source), bytes);
}
CUresult memcpy_dtod(CUdeviceptr target, CUdeviceptr source, std::size_t bytes, CUstream stream) {
  ENTER_CONTEXT("cuMemcpyDtoDAsync_v2");
  if (!is_device_range(source, bytes) || !is_device_range(target, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  return copy(stream, reinterpret_cast<void*>(target), reinterpret_cast<void*>(source), bytes);
}
CUresult memset_d8(CUdeviceptr target, unsigned char value, std::size_t bytes, CUstream stream) {
  ENTER_CONTEXT("cuMemsetD8Async");
  if (!is_device_range(target, bytes)) return CUDA_ERROR_INVALID_VALUE;
  fake().put(stream, CU_GRAPH_NODE_TYPE_MEMSET, [=] {
    std::memset(reinterpret_cast<void*>(target), value, bytes);
    fake().clock += fake().fill_time;
  });
  return CUDA_SUCCESS;
}
CUresult pointer_get_attribute(void* value, CUpointer_attribute which, CUdeviceptr address) {
  ENTER("cuPointerGetAttribute");
  if (!is_device_range(address, 1)) return CUDA_ERROR_INVALID_VALUE;
  if (which == CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
    *static_cast<CUmemorytype*>(value) = CU_MEMORYTYPE_DEVICE;
  else if (which == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
    *static_cast<int*>(value) = 0;
  else
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

CUresult stream_create(CUstream* stream, unsigned) {
  ENTER_CONTEXT("cuStreamCreate");
  ++fake().streams;
  *stream = reinterpret_cast<CUstream>(*all_streams.insert(new FakeStream).first);
  return CUDA_SUCCESS;
}
CUresult stream_destroy(CUstream stream) {
  ENTER_CONTEXT("cuStreamDestroy_v2");
  --fake().streams;
  all_streams.erase(reinterpret_cast<FakeStream*>(stream));
  delete reinterpret_cast<FakeStream*>(stream);
  return CUDA_SUCCESS;
}
CUresult stream_synchronize(CUstream stream) {
  ENTER_CONTEXT("cuStreamSynchronize");
  if (!stream_of(stream).capturing) return CUDA_SUCCESS;
  stream_of(stream).invalidated = true;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}
CUresult stream_is_capturing(CUstream stream, CUstreamCaptureStatus* status) {
  ENTER_CONTEXT("cuStreamIsCapturing");
  *status =
      stream_of(stream).capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
CUresult stream_wait_event(CUstream stream, CUevent event, unsigned) {
  ENTER_CONTEXT("cuStreamWaitEvent");
  const auto& recorded = *reinterpret_cast<FakeEvent*>(event);
  FakeStream* from = recorded.recorded_on;
  if (!from || !from->capturing) return CUDA_SUCCESS;
  FakeStream& to = stream_of(stream);
  if (!to.capturing) {
    to = FakeStream{from->capturing};
    to.is_origin = false;
  }
  from->awaited = std::max(from->awaited, recorded.nodes);
  return CUDA_SUCCESS;
}
CUresult event_create(CUevent* event, unsigned) {
  ENTER_CONTEXT("cuEventCreate");
  ++fake().events;
  *event = reinterpret_cast<CUevent>(new FakeEvent);
  return CUDA_SUCCESS;
}
CUresult event_destroy(CUevent event) {
  ENTER_CONTEXT("cuEventDestroy_v2");
  --fake().events;
  delete reinterpret_cast<FakeEvent*>(event);
  return CUDA_SUCCESS;
}
CUresult event_record(CUevent event, CUstream stream) {
  ENTER_CONTEXT("cuEventRecord");
  FakeStream& on = stream_of(stream);
  *reinterpret_cast<FakeEvent*>(event) = {fake().clock += fake().event_time,
                                          on.capturing ? &on : nullptr, on.nodes};
  return CUDA_SUCCESS;
}
CUresult event_synchronize(CUevent) {
  ENTER_CONTEXT("cuEventSynchronize");
  return CUDA_SUCCESS;
}
CUresult event_elapsed_time(float* milliseconds, CUevent start, CUevent stop) {
  ENTER_CONTEXT("cuEventElapsedTime_v2");
  const double from = reinterpret_cast<FakeEvent*>(start)->time;
  const double to = reinterpret_cast<FakeEvent*>(stop)->time;
  if (from < 0 || to < 0) return CUDA_ERROR_INVALID_HANDLE;
  *milliseconds = static_cast<float>((to - from) / 1000);
  return CUDA_SUCCESS;
}

CUresult module_load_data(CUmodule* module, const void* image) {
  ENTER_CONTEXT("cuModuleLoadData");
  const auto* text = static_cast<const char*>(image);
  const bool is_assembly = std::strncmp(text, "\n.version", 9) == 0;
  if (!is_assembly && std::memcmp(image, "cubin", 5) != 0 && std::memcmp(image, "\177ELF", 4) != 0)
    return CUDA_ERROR_INVALID_IMAGE;
  ++fake().modules;
  auto made = std::make_unique<FakeModule>();
  if (is_assembly) made->assembly = text;
  *module = reinterpret_cast<CUmodule>(made.release());
  return CUDA_SUCCESS;
}
CUresult module_unload(CUmodule module) {
  ENTER_CONTEXT("cuModuleUnload");
  --fake().modules;
  delete reinterpret_cast<FakeModule*>(module);
  return CUDA_SUCCESS;
}
CUresult module_get_function(CUfunction* function, CUmodule module, const char* name) {
  ENTER_CONTEXT("cuModuleGetFunction");
  auto& from = *reinterpret_cast<FakeModule*>(module);
  const bool is_assembly = from.assembly.find(std::string(".entry ") + name) != std::string::npos;
  const bool is_modelled = fake().kernels.contains(name);
  if (!is_assembly && !is_modelled) return CUDA_ERROR_NOT_FOUND;
  auto& entry = from.functions[name];
  entry.name = name;
  entry.is_assembly = is_assembly && !is_modelled;
  *function = reinterpret_cast<CUfunction>(&entry);
  return CUDA_SUCCESS;
}
CUresult func_load(CUfunction) {
  ENTER_CONTEXT("cuFuncLoad");
  return CUDA_SUCCESS;
}
CUresult func_get_attribute(int* value, CUfunction_attribute which, CUfunction function) {
  ENTER_CONTEXT("cuFuncGetAttribute");
  const auto& fn = *reinterpret_cast<FakeFunction*>(function);
  const FakeKernel& kernel = fake().kernels.at(fn.name);
  switch (which) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = fn.shared_limit; break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = kernel.registers; break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *value = kernel.local_bytes; break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *value = kernel.static_shared_bytes; break;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}
// Registers are what limits blocks here, besides threads.
CUresult occupancy_max_active_blocks(int* blocks, CUfunction function, int threads, std::size_t) {
  ENTER_CONTEXT("cuOccupancyMaxActiveBlocksPerMultiprocessor");
  const FakeKernel& kernel = fake().kernels.at(reinterpret_cast<FakeFunction*>(function)->name);
  *blocks = std::min(2048 / threads, 65536 / (threads * kernel.registers));
  return CUDA_SUCCESS;
}
CUresult func_set_attribute(CUfunction function, CUfunction_attribute attribute, int value) {
  ENTER_CONTEXT("cuFuncSetAttribute");
  if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
    reinterpret_cast<FakeFunction*>(function)->shared_limit = value;
  return CUDA_SUCCESS;
}
CUresult launch_kernel(const CUlaunchConfig* config, CUfunction function, void** arguments,
                       void** extra) {
  ENTER_CONTEXT("cuLaunchKernelEx");
  const auto& fn = *reinterpret_cast<FakeFunction*>(function);
  if (extra || config->gridDimX == 0 || config->gridDimY == 0 || config->gridDimZ == 0 ||
      config->sharedMemBytes > static_cast<unsigned>(fn.shared_limit))
    return CUDA_ERROR_INVALID_VALUE;
  if (fn.is_assembly) {
    fake().put(config->hStream, CU_GRAPH_NODE_TYPE_KERNEL,
               [] { fake().clock += fake().fill_time; });
    return CUDA_SUCCESS;
  }
  const FakeKernel& kernel = fake().kernels.at(fn.name);
  std::vector<std::uint64_t> values(kernel.parameters);
  for (std::size_t i = 0; i < values.size(); ++i)
    std::memcpy(&values[i], arguments[i], sizeof(std::uint64_t));
  fake().put(config->hStream, CU_GRAPH_NODE_TYPE_KERNEL,
             [config = *config, values, body = kernel.body, name = fn.name] {
               fake().launched.push_back(name);
               fake().configs.push_back(config);
               fake().clock += 10;
               body(config, values);
             });
  return CUDA_SUCCESS;
}

// A map of the fake: address, rank, extents, then strides; as kernels get the first 8 bytes of a
// parameter, they see its address.
void fill_map(CUtensorMap* map, cuuint32_t rank, void* address, const cuuint64_t* extents,
              const cuuint64_t* strides) {
  map->opaque[0] = reinterpret_cast<cuuint64_t>(address);
  map->opaque[1] = rank;
  for (cuuint32_t d = 0; d < rank; ++d) map->opaque[2 + d] = extents[d];
  for (cuuint32_t d = 0; d + 1 < rank; ++d) map->opaque[2 + rank + d] = strides[d];
}

CUresult tensor_map_encode(CUtensorMap* map, CUtensorMapDataType, cuuint32_t rank, void* address,
                           const cuuint64_t* extents, const cuuint64_t* strides, const cuuint32_t*,
                           const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                           CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  ENTER("cuTensorMapEncodeTiled");
  fill_map(map, rank, address, extents, strides);
  return CUDA_SUCCESS;
}

CUresult tensor_map_encode_im2col(CUtensorMap* map, CUtensorMapDataType, cuuint32_t rank,
                                  void* address, const cuuint64_t* extents,
                                  const cuuint64_t* strides, const int* lower, const int* upper,
                                  cuuint32_t, cuuint32_t, const cuuint32_t* steps,
                                  CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                                  CUtensorMapFloatOOBfill) {
  ENTER("cuTensorMapEncodeIm2col");
  for (cuuint32_t d = 0; d + 2 < rank; ++d)
    fake().window_bounds.push_back({lower[d], upper[d], static_cast<int>(steps[d + 1])});
  fill_map(map, rank, address, extents, strides);
  return CUDA_SUCCESS;
}

}  // namespace

EntryPoints driver_entries() {
  return {
      entry("cuGetErrorName", get_error_name),
      entry("cuGetErrorString", get_error_string),
      entry("cuInit", init),
      entry("cuDriverGetVersion", driver_get_version),
      entry("cuDeviceGetCount", device_get_count),
      entry("cuDeviceGet", device_get),
      entry("cuDeviceGetName", device_get_name),
      entry("cuDeviceGetAttribute", device_get_attribute),
      entry("cuDeviceTotalMem_v2", device_total_mem),
      entry("cuDeviceCanAccessPeer", device_can_access_peer),
      entry("cuCtxEnablePeerAccess", ctx_enable_peer_access),
      entry("cuDevicePrimaryCtxRetain", ctx_retain),
      entry("cuDevicePrimaryCtxRelease_v2", ctx_release),
      entry("cuCtxPushCurrent_v2", ctx_push),
      entry("cuCtxPopCurrent_v2", ctx_pop),
      entry("cuMemGetInfo_v2", mem_get_info),
      entry("cuMemAlloc_v2", mem_alloc),
      entry("cuMemFree_v2", mem_free),
      entry("cuMemHostAlloc", mem_host_alloc),
      entry("cuMemFreeHost", mem_free_host),
      entry("cuMemcpyHtoDAsync_v2", memcpy_htod),
      entry("cuMemcpyDtoHAsync_v2", memcpy_dtoh),
      entry("cuMemcpyDtoDAsync_v2", memcpy_dtod),
      entry("cuMemsetD8Async", memset_d8),
      entry("cuPointerGetAttribute", pointer_get_attribute),
      entry("cuStreamCreate", stream_create),
      entry("cuStreamDestroy_v2", stream_destroy),
      entry("cuStreamSynchronize", stream_synchronize),
      entry("cuStreamIsCapturing", stream_is_capturing),
      entry("cuStreamWaitEvent", stream_wait_event),
      entry("cuEventCreate", event_create),
      entry("cuEventDestroy_v2", event_destroy),
      entry("cuEventRecord", event_record),
      entry("cuEventSynchronize", event_synchronize),
      entry("cuEventElapsedTime", event_elapsed_time),
      entry("cuModuleLoadData", module_load_data),
      entry("cuModuleUnload", module_unload),
      entry("cuModuleGetFunction", module_get_function),
      entry("cuFuncLoad", func_load),
      entry("cuFuncGetAttribute", func_get_attribute),
      entry("cuFuncSetAttribute", func_set_attribute),
      entry("cuOccupancyMaxActiveBlocksPerMultiprocessor", occupancy_max_active_blocks),
      entry("cuTensorMapEncodeTiled", tensor_map_encode),
      entry("cuTensorMapEncodeIm2col", tensor_map_encode_im2col),
      entry("cuLaunchKernelEx", launch_kernel),
  };
}

}  // namespace sinter::testing
