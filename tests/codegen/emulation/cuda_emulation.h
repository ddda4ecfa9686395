// SPDX-License-Identifier: Apache-2.0
// Runs emitted kernels on the CPU (see cuda_emulator/cuda_emulator.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codegen/emit/kernel_request.h"
#include "tests/support/loop_interpreter.h"

namespace sinter::test {

/// Kernels compiled into one library by the host's compiler.
class EmulatedKernels {
 public:
  /// Compiles; throws std::runtime_error with the compiler's output if that fails. `for_ranks`:
  /// several threads may run kernels at once.
  explicit EmulatedKernels(std::span<const codegen::EmittedKernel> kernels, bool for_ranks = false);
  ~EmulatedKernels();
  EmulatedKernels(const EmulatedKernels&) = delete;
  EmulatedKernels& operator=(const EmulatedKernels&) = delete;

  /// Runs one variant on `memory` (bytes by plan buffer). Every buffer ends at a page that cannot
  /// be accessed, so that reading past it crashes. Throws std::runtime_error if barriers or
  /// shuffles are used wrongly.
  void run(const plan::fb::KernelStepT& step, std::size_t variant,
           std::span<const std::int64_t> expressions, Memory& memory) const;

  /// The same of memory of the caller's: the address of each argument that is a buffer, by plan
  /// buffer. No page traps.
  void run_at(const plan::fb::KernelStepT& step, std::size_t variant,
              std::span<const std::int64_t> expressions,
              std::span<std::byte* const> addresses) const;

 private:
  void launch(const plan::fb::KernelVariantT& code, std::span<const std::int64_t> expressions,
              const std::vector<long>& values) const;

  void* library_ = nullptr;
  std::string folder_;
};

/// True if all of the variant's conditions hold.
bool may_run(const plan::fb::KernelVariantT& variant, std::span<const std::int64_t> expressions);

/// What is wrong with the memory that a variant left behind, a line each; empty if nothing is.
using CheckVariant = std::function<std::string(const plan::fb::KernelVariantT&, const Memory&)>;
/// Runs every variant that may run, each on a copy of `memory`, and returns all problems; that none
/// may run is one.
std::string run_variants(const std::string& name, const EmulatedKernels& library,
                         const plan::fb::KernelStepT& step,
                         std::span<const std::int64_t> expressions, const Memory& memory,
                         const CheckVariant& check);
/// A line that says what `first_difference` found in result `which`; empty if it found nothing.
std::string problem_in(const plan::fb::KernelVariantT& variant, std::size_t which,
                       const std::string& difference);

}  // namespace sinter::test
