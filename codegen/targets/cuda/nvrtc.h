// Kernels' text as code: NVRTC, and the cache of what it made.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sinter::codegen {

struct NvrtcOptions {
  int threads = 0;        // 0: all cores
  std::string cache_dir;  // empty: no cache
  std::function<void(std::size_t done, std::size_t total)> progress;
};
/// A source that NVRTC does not take: a defect of what wrote it.
struct KernelRefusal {
  std::string log;         // the compiler's
  std::string reproducer;  // path of a standalone file, or why there is none
};
struct CompiledKernel {
  std::vector<std::byte> cubin;  // empty if `refusal`
  bool from_cache = false;
  std::optional<KernelRefusal> refusal;
};
struct NvrtcStats {
  std::size_t cache_hits = 0;
  double seconds = 0;
  int version = 0;  // 13000 for 13.0
};

/// Compiles every source for every architecture, in parallel; result [source][architecture].
/// Throws Error(kDevice) if NVRTC is not found (saying how to get it).
std::vector<std::vector<CompiledKernel>> compile_cuda(std::span<const std::string> sources,
                                                      std::span<const std::string> architectures,
                                                      const NvrtcOptions& options,
                                                      NvrtcStats& stats);

}  // namespace sinter::codegen
