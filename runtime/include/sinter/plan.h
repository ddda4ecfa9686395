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

/// One dimension of a binding: fixed, or symbolic with a range (both ends inclusive).
struct DimInfo {
  std::string text;  // "384", "batch", "batch*seq"
  std::int64_t min = 0, max = 0;
};

/// An input or an output.
struct BindingInfo {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<DimInfo> shape;
  std::optional<std::size_t> state;  // index in Plan::states() of the state it belongs to
  /// An input whose value (or whose number of tokens) determines sizes. It must be in host memory.
  bool is_read_by_host = false;
  bool counts_tokens = false;  // a mask of 0 and 1 whose ones are the tokens to count (--packed)
};

/// A specialization of a plan: steps for shapes within these limits; weights and states are shared
/// with the other entry points. Session::run takes the first entry point that fits the inputs'
/// shapes.
struct EntryInfo {
  std::string name;
  std::vector<DimInfo> limits;  // limits of symbolic dimensions, by name; unlisted ones are
                                // unlimited
};

/// Memory that a session keeps between runs: a run writes `output`, and the next run reads it as
/// `input`. Both are indices of bindings.
struct StateInfo {
  std::size_t input = 0, output = 0;
};

/// The error of an output that `sinter compile` measured against the reference, relative to the
/// largest absolute value of the output.
struct MeasuredError {
  std::string output;
  double relative_error = 0;
};

struct LoadOptions {
  /// Reads the file into memory instead of mapping it, so later changes to the file have no effect;
  /// truncating a mapped file kills the process (SIGBUS). Recommended for servers, unless files are
  /// only replaced by rename. Costs the plan's size in memory for each load; mapped files share
  /// memory between processes.
  bool copy = false;
  /// False: refuses a plan that contains code, unless `require_signature` verifies its origin. Code
  /// means kernels and host operators. A plan's own description of its code proves nothing, so
  /// every plan for GPUs is refused. A CPU plan without custom operators contains no code.
  bool allow_custom_code = true;
  /// Libraries with the plan's host operators (Plan::host_operators); the first library that has an
  /// operator wins. If the list is not empty, load throws unless it has all of them. Otherwise a
  /// session throws.
  std::vector<OperatorLibrary> operator_libraries = {};
  /// If not empty: refuses a plan unless its whole file is signed by this key (`sinter sign`),
  /// before reading anything else of it. The value is an Ed25519 public key: PEM, base64 of its 32
  /// bytes, or the path of a file with either. Needs OpenSSL's libcrypto.so.3.
  std::string require_signature = {};
};

/// A compiled model: immutable and thread-safe. Copies and sessions share its contents, so a plan
/// may be destroyed while they live. A moved-from plan may only be assigned to and destroyed; other
/// calls throw Error(kUsage). References that members return stay valid while a copy or a session
/// of the plan lives.
class SINTER_API Plan {
 public:
  /// Required alignment of borrowed bytes.
  static constexpr std::size_t kAlignment = 64;

  /// Maps and checks a file, which must not change while the plan is used. To replace it, write a
  /// new file and rename it, or set LoadOptions::copy. Throws Error(kInvalidPlan), or Error(kUsage)
  /// if the file cannot be opened or is no regular file.
  static Plan load(const std::string& path);
  static Plan load(const std::string& path, const LoadOptions& options);
  /// Checks a copy of `bytes`. Throws Error(kInvalidPlan).
  static Plan from_memory(std::span<const std::byte> bytes, const LoadOptions& options = {});
  /// The same without a copy: weights are read in place. The bytes must stay unchanged until
  /// `owner` is released, after the last copy of the plan and the last session. Without an owner
  /// the caller ensures this. Throws Error(kUsage) unless aligned to kAlignment.
  static Plan borrow(std::span<const std::byte> bytes, std::shared_ptr<const void> owner = nullptr,
                     const LoadOptions& options = {});
  /// The same plan with host operators from `libraries`, as with LoadOptions::operator_libraries.
  /// Throws Error(kUsage) naming the operators that no library has for the plan's target.
  Plan with_operators(std::vector<OperatorLibrary> libraries) const;

  const std::vector<BindingInfo>& inputs() const;
  const std::vector<BindingInfo>& outputs() const;
  /// Index of `name` in inputs() or outputs(). Throws Error(kUsage) listing the known names.
  std::size_t input_index(std::string_view name) const;
  std::size_t output_index(std::string_view name) const;
  const std::vector<StateInfo>& states() const;
  /// Empty if the plan has a single list of steps for all shapes.
  const std::vector<EntryInfo>& entries() const;

  /// "cpu" or "cuda".
  std::string_view target() const;
  /// Architectures for which a CUDA plan has kernels: "sm_90", ...
  const std::vector<std::string>& architectures() const;
  /// Ranks that run the steps at once, each with its part of weights and states.
  std::size_t ranks() const;
  std::size_t step_count() const;
  std::uint64_t weight_bytes() const;
  /// Path of the loaded file; empty for a plan from memory.
  std::string_view path() const;

  // Provenance.
  std::string_view compiler_version() const;
  std::uint32_t format_version() const;
  /// Version of NVRTC that compiled the kernels, 13000 for 13.0; 0: no kernels.
  std::uint32_t cuda_version() const;
  std::string_view model_name() const;
  std::uint64_t model_hash() const;  // of the ONNX file's bytes
  /// Compiler options that differ from their defaults, as `sinter inspect` prints them, and
  /// metadata.
  const std::vector<std::pair<std::string, std::string>>& options() const;
  /// Empty if nothing was measured.
  const std::vector<MeasuredError>& measured_errors() const;
  /// What was lowered to a narrower type, and what was not, with the reason.
  const std::vector<std::string>& precision_notes() const;
  /// Operators whose code is custom, from whoever compiled the plan ("com.example::ScaledTanh"):
  /// kernels in the plan, and host operators. Empty: all code is Sinter's.
  const std::vector<std::string>& custom_code() const;
  /// The custom operators that functions of a library implement (LoadOptions::operator_libraries).
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
