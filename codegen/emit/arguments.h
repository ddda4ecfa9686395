// SPDX-License-Identifier: Apache-2.0
// The parameters of a kernel: its buffers, then the sizes that are not constant.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/emit/kernel_text.h"
#include "codegen/emit/program_analysis.h"
#include "codegen/emit/sizes_from_data.h"

namespace sinter::codegen {

/// Name of a storage type ("f16", "b8") and of a compute type ("float", "bool") in device code.
std::string storage_name(DType type);
std::string compute_name(DType type);

/// Collects the parameters that the variants of one kernel need, in order of first use.
class Arguments {
 public:
  explicit Arguments(const ProgramAnalysis& analysis);
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  /// A literal, or the name of a parameter that is added on first use.
  std::string expression(std::uint32_t expression);
  std::string dim(const Dim& dim) { return expression(analysis_->exprs().intern(dim)); }
  const std::string& buffer(std::size_t buffer) const { return buffer_names_[buffer]; }

  /// "const f16* __restrict__ x0, int seq": one entry for each parameter.
  std::vector<std::string> parameters() const;
  std::vector<KernelArg> kernel_args() const;
  /// Lines at the beginning of a kernel: read sizes from memory, and end the blocks beyond the
  /// `blocks` that are needed. Empty if it reads none.
  std::string sizes_from_data(const Dim& blocks);
  /// "x0 = after_grid_wait(x0);": one line for each buffer that is read, unless no step writes it.
  std::vector<std::string> after_grid_wait() const;
  /// Whether the buffer is KernelRequest::summands', whose name is that of no pointer.
  bool is_summand(std::size_t buffer) const;
  /// Its declaration; empty without one.
  std::string summands() const;

 private:
  std::string parameter_name(std::size_t buffer) const;
  /// The result of a GEMM is read like a buffer but never stored.
  bool is_hidden(std::size_t buffer) const;
  struct Size {
    std::uint32_t expression = 0;
    std::string name;
    bool wide = false;
    bool from_data = false;
  };
  const ProgramAnalysis* analysis_;
  std::vector<std::string> buffer_names_;
  std::vector<Size> sizes_;
  SizesFromData data_;
};

}  // namespace sinter::codegen
