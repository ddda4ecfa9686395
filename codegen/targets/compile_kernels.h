// SPDX-License-Identifier: Apache-2.0
// Texts of kernels, and the code that a target compiles them to.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sinter::codegen {

/// Marks a source that is compiled for the exact GPU if its instructions need it: for sm_90a
/// instead of sm_90, which runs on the same GPUs. On other GPUs its functions do not exist and
/// their variants do not apply.
constexpr std::string_view kExactTarget = "// for the very GPU";
/// Beginning of the text of a user's operator, and of no other kernel (frontend/custom).
constexpr std::string_view kUserText = "#line 1 \"";

/// A translation unit and its architecture.
struct KernelText {
  const std::string* source = nullptr;
  std::string architecture;
};

struct KernelCompileOptions {
  int threads = 0;        // 0: all cores
  std::string cache_dir;  // empty: no cache
  std::function<void(std::size_t done, std::size_t total)> progress;
};

/// A source that the target's compiler rejects: a defect of whatever wrote it.
struct KernelRefusal {
  std::string log;         // of the compiler
  std::string reproducer;  // path of a standalone file, or why there is none
};

struct CompiledKernel {
  std::vector<std::byte> code;  // empty if `refusal`
  bool from_cache = false;
  std::optional<KernelRefusal> refusal;
  std::string remarks;  // compiler's remarks on slow code; empty if none
};

struct KernelCompileStats {
  std::size_t cache_hits = 0;
  double seconds = 0;
  int version = 0;  // of the compiler: 13000 for NVRTC 13.0
};

}  // namespace sinter::codegen
