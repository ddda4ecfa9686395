// Kernels' texts and the code that a target makes of them.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sinter::codegen {

/// A line of a source that is compiled for the very GPU where instructions ask for it: for sm_90a
/// where sm_90 is wanted, which runs on the same GPUs. On others the functions that need it are not
/// there, and their variants do not apply.
constexpr std::string_view kExactTarget = "// for the very GPU";
/// What the text of a user's operator begins with, and no other kernel has (frontend/custom).
constexpr std::string_view kUserText = "#line 1 \"";

/// A translation unit and what it is compiled for.
struct KernelText {
  const std::string* source = nullptr;
  std::string architecture;
};

struct KernelCompileOptions {
  int threads = 0;        // 0: all cores
  std::string cache_dir;  // empty: no cache
  std::function<void(std::size_t done, std::size_t total)> progress;
};

/// A source that the target's compiler does not take: a defect of what wrote it.
struct KernelRefusal {
  std::string log;         // the compiler's
  std::string reproducer;  // path of a standalone file, or why there is none
};

struct CompiledKernel {
  std::vector<std::byte> code;  // empty if `refusal`
  bool from_cache = false;
  std::optional<KernelRefusal> refusal;
  std::string remarks;  // why the code may be slow, as the compiler says it; empty: it does not
};

struct KernelCompileStats {
  std::size_t cache_hits = 0;
  double seconds = 0;
  int version = 0;  // of the compiler: 13000 for NVRTC 13.0
};

}  // namespace sinter::codegen
