// Loop programs as CUDA kernels: emit, compile with NVRTC, cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <sinter/dtype.h>

#include "codegen/cuda/schedule_choice.h"
#include "codegen/lowering/expr_table.h"
#include "codegen/lowering/product_lowering.h"
#include "runtime/plan/plan_data.h"

namespace sinter::codegen {

struct KernelRequest {
  const plan::fb::LoopProgramT* program = nullptr;
  std::string name;                  // C identifier made of the operators, unique in the plan
  std::vector<std::string> origins;  // ONNX nodes, for the comment
  std::vector<DType> buffer_types;   // element type of each of program->buffers
  /// The matrix product that the program reads, whose program `program` is; null if there is none.
  const ProductProgram* product = nullptr;
  /// Launched before the step in front has ended; waits for it itself (KernelVariant.overlaps).
  bool early = false;
  std::set<std::uint32_t> given = {};  // buffers of the plan that no step writes
  std::string schedule = {};           // the one to use, for measuring; empty: choose
  std::string block = "blockIdx.x";    // the text of the block's number
  bool precise = false;                // no cheaper forms of functions: see approximations.h
  ScheduleWish wish = {};              // what takes the place of the rule's schedules
};

/// One translation unit with one or more variants of a kernel.
struct EmittedKernel {
  std::string source;                       // CUDA text, without the device headers
  plan::fb::KernelStepT step;               // variants (module not yet set) and args
  std::vector<plan::fb::KernelStepT> more;  // what runs after it, of the same source
  std::vector<VariantChoice> choices;       // the rule's variants; empty: nothing can be chosen
};

/// Chooses schedules and writes the kernel. Deterministic. Throws Error(kUnsupported) naming the
/// request if no schedule takes it.
EmittedKernel emit_cuda(const KernelRequest& request, ExprTable& exprs);

/// Whether a kernel can be made for a request with a product; else `reason` says why not.
bool can_emit_product(const KernelRequest& request, ExprTable& exprs, std::string& reason);

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
