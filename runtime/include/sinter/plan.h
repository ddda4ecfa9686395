// SPDX-License-Identifier: Apache-2.0
// A compiled model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sinter/dtype.h>
#include <sinter/error.h>
#include <sinter/export.h>
#include <sinter/operators.h>

namespace sinter {

/// One dimension of a binding: fixed, or named with a range, both ends inclusive.
struct DimInfo {
  std::string text;  // "384", "batch", "batch*seq"
  std::int64_t min = 0, max = 0;
};

/// An input or an output.
struct BindingInfo {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<DimInfo> shape;
  std::optional<std::size_t> state;  // the one of Plan::states() that it belongs to
  /// An input whose value, or how many tokens of which, decides about sizes: it is given in host
  /// memory.
  bool is_read_by_host = false;
  bool counts_tokens = false;  // it is a mask of 0 and 1, whose tokens those are (--packed)
};

/// A way to run a plan: steps of its own for shapes within these limits, over the weights and
/// states that all share. Session::run takes the first entry point that fits the inputs' shapes.
struct EntryInfo {
  std::string name;
  std::vector<DimInfo> limits;  // of symbolic dimensions, by name; of others there are none
};

/// Memory that a session keeps from run to run: what a run leaves in `output`, the next takes as
/// `input`. Both are indices of bindings.
struct StateInfo {
  std::size_t input = 0, output = 0;
};

/// The error of an output that `sinter compile` measured against the reference, relative to the
/// output's largest value.
struct MeasuredError {
  std::string output;
  double relative_error = 0;
};

struct LoadOptions {
  /// Reads the file into memory instead of mapping it. What happens to the file afterwards is of no
  /// consequence, where a mapped file that is truncated ends the process (SIGBUS). For processes
  /// that serve, unless files are only ever replaced by renaming others; costs the plan's size in
  /// memory for each load, which processes that map a file share.
  bool copy = false;
  /// False: a plan with code in it is refused unless `require_signature` says who vouches for it.
  /// Kernels are code, and so are host operators; what a plan says of its own code is no proof, so
  /// every plan for GPUs is refused. A plan for the CPU without operators of its maker's has none.
  bool allow_custom_code = true;
  /// Where the plan's host operators are (Plan::host_operators); of two with one operator the first
  /// counts. If any are named, all of the plan's operators must be there when it is loaded; else a
  /// session refuses the plan.
  std::vector<OperatorLibrary> operator_libraries = {};
  /// Not empty: a plan without a signature by this key over all of its file (`sinter sign`) is
  /// refused before anything else is read of it. The public key of Ed25519: PEM, the base64 of its
  /// 32 bytes, or the path of a file with one of both. Needs OpenSSL's libcrypto.so.3.
  std::string require_signature = {};
};

/// A compiled model: immutable, used by any number of threads. Copies share it, and so do sessions:
/// it may be destroyed while they live. A plan that was moved from may be assigned to and
/// destroyed; anything else throws Error(kUsage). References that members give are valid as long as
/// a copy of the plan or a session of it lives.
class SINTER_API Plan {
 public:
  /// What borrowed bytes must be aligned to.
  static constexpr std::size_t kAlignment = 64;

  /// Maps and checks a file, which must not be changed while the plan is used; to replace it, write
  /// another and rename that, or let the plan copy it. Throws Error(kInvalidPlan), or Error(kUsage)
  /// if it cannot be opened or is no regular file.
  static Plan load(const std::string& path);
  static Plan load(const std::string& path, const LoadOptions& options);
  /// Checks a copy of `bytes`. Throws Error(kInvalidPlan).
  static Plan from_memory(std::span<const std::byte> bytes, const LoadOptions& options = {});
  /// The same without a copy: weights are read where they lie. The bytes must not change and stay
  /// until `owner` is released, which the last copy of the plan and the last session do; without an
  /// owner they stay that long by the caller's care. Throws Error(kUsage) unless aligned to
  /// kAlignment.
  static Plan borrow(std::span<const std::byte> bytes, std::shared_ptr<const void> owner = nullptr,
                     const LoadOptions& options = {});
  /// The same plan with its host operators from `libraries`, as LoadOptions::operator_libraries
  /// says. Throws Error(kUsage) naming those that none has for the plan's target.
  Plan with_operators(std::vector<OperatorLibrary> libraries) const;

  const std::vector<BindingInfo>& inputs() const;
  const std::vector<BindingInfo>& outputs() const;
  /// Where in inputs() or outputs() `name` is. Throws Error(kUsage) listing the names there are.
  std::size_t input_index(std::string_view name) const;
  std::size_t output_index(std::string_view name) const;
  const std::vector<StateInfo>& states() const;
  /// Empty if one list of steps serves all shapes.
  const std::vector<EntryInfo>& entries() const;

  /// "cpu" or "cuda".
  std::string_view target() const;
  /// What a CUDA plan has kernels for: "sm_90", ...
  const std::vector<std::string>& architectures() const;
  std::size_t step_count() const;
  std::uint64_t weight_bytes() const;
  /// The file it was loaded from; empty: from memory.
  std::string_view path() const;

  // Where the plan is from.
  std::string_view compiler_version() const;
  std::uint32_t format_version() const;
  /// Version of NVRTC that compiled the kernels, 13000 for 13.0; 0: there are none.
  std::uint32_t cuda_version() const;
  std::string_view model_name() const;
  std::uint64_t model_hash() const;  // of the ONNX file's bytes
  /// Compiler options that were not defaults, as `sinter inspect` prints them, and metadata.
  const std::vector<std::pair<std::string, std::string>>& options() const;
  /// Empty if nothing was measured.
  const std::vector<MeasuredError>& measured_errors() const;
  /// What was lowered to a smaller type, and what was kept and why.
  const std::vector<std::string>& precision_notes() const;
  /// Operators whose code is the user's who compiled the plan ("com.example::ScaledTanh"): kernels
  /// in it, and host operators; empty: all code is Sinter's.
  const std::vector<std::string>& custom_code() const;
  /// Those of them that functions of a library compute, which LoadOptions::operator_libraries
  /// names.
  std::vector<std::string> host_operators() const;
  /// The fused graph as text.
  std::string_view graph_text() const;

 private:
  friend struct PlanAccess;
  struct Impl;
  explicit Plan(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  const Impl& impl() const;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace sinter
