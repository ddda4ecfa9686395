// SPDX-License-Identifier: Apache-2.0
// The table of operators: ONNX operator and version -> importer.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/ops/node_context.h"

namespace sinter::frontend {

/// Imports one node: reads its inputs and attributes and sets its outputs.
using ImportFunction = void (*)(NodeContext& node);

inline constexpr std::string_view kMicrosoft = "com.microsoft";
inline constexpr std::string_view kMl = "ai.onnx.ml";
inline constexpr std::string_view kTrt = "trt";  // TensorRT's, as its Model Optimizer writes them
/// The last version of ai.onnx.ml that its rows hold for: all were compared with its schemas.
inline constexpr std::int64_t kMlHoldsUntil = 5;

/// Element types of what an operator computes on; sizes, indices and masks beside it have types of
/// their own.
enum class Types : std::uint8_t { kOfFamily, kAny, kNumbers, kFloats, kIntegers, kBools };
std::string_view to_string(Types types);

/// What an operator does with constants of 4-bit integers, which are held as int8 or uint8: refuses
/// them, reads them, or makes the same of them in another shape (its first output is such, too).
enum class FourBits : std::uint8_t { kRefuses, kReads, kKeeps };

/// The last version of ai.onnx that a row holds for unless it says otherwise: all were compared
/// with ONNX's schemas up to it. To raise it, run tests/conformance/check_schemas.py with a newer
/// ONNX.
inline constexpr std::int64_t kRowsHoldUntil = 28;

/// What is known of one operator: `import` handles `name` of `domain` ("" is ai.onnx) from
/// `since_version` on, until a row of the same name with a higher version takes over.
struct OpRow {
  std::string_view name;
  int since_version = 1;
  ImportFunction import = nullptr;
  /// Names of the attributes that `import` knows, separated by spaces; any other is an error. With
  /// the versions that have it, where not all do: "k:-9 largest:11- directions:8-8".
  std::string_view attributes = {};
  std::string_view domain = {};
  Types types = Types::kOfFamily;
  FourBits four_bits = FourBits::kRefuses;
  /// The last version of the domain that the row holds for. 0: kRowsHoldUntil, and of other
  /// domains, which have had one version, `since_version`.
  std::int64_t until = 0;
  /// Inputs may be floats of 8 bits, which ONNX has few operators for; see op_table.cpp.
  bool takes_float8 = false;
};
using OpRows = std::initializer_list<OpRow>;
std::int64_t holds_until(const OpRow& row);
/// True if the operator of `row`, a row of all_op_rows(), computes on `dtype`.
bool takes_type(const OpRow& row, DType dtype);

struct OpAttribute {
  std::string_view name;
  std::int64_t first = 0, last = 0;  // versions that have it
};
/// The attributes of `row`, in its order, with versions among those that it holds for.
std::vector<OpAttribute> attributes_of(const OpRow& row);

/// One family of operators for each file in this folder.
extern const OpRows kPointwiseOps, kActivationOps, kExperimentalOps, kReduceOps, kShapeOps,
    kSliceOps, kGeneratorOps, kNormalizationOps, kMatmulOps, kEinsumOps, kQuantizeOps, kSignalOps,
    kConvolutionOps, kDeformConvOps, kPoolingOps, kControlFlowOps, kRecurrentOps, kAttentionOps,
    kStateSpaceOps, kMicrosoftOps, kMicrosoftNormalisationOps, kMicrosoftConvolutionOps,
    kMicrosoftAttentionOps, kMicrosoftGroupQueryOps, kMicrosoftMultiHeadOps,
    kMicrosoftPositionBiasOps, kMicrosoftMoeOps, kMicrosoftQuantizedOps, kMicrosoftIntegerOps,
    kMicrosoftQlinearOps, kTrtOps, kIndexOps, kRankingOps, kSelectionOps, kSuppressionOps,
    kUniqueOps, kResizeOps, kSamplingOps, kRoiAlignOps, kTreeOps, kLinearModelOps,
    kSupportVectorOps, kFeatureOps;

struct OpFamily {
  std::string_view title;
  const OpRows* rows = nullptr;
  Types types = Types::kFloats;  // of rows that say nothing else
};
std::span<const OpFamily> op_families();

/// All rows of all families, by name and version.
const std::vector<OpRow>& all_op_rows();
/// The row for `name` in version `opset` of `domain`, or null. It may hold for lower ones only.
const OpRow* find_op_row(std::string_view domain, std::string_view name, std::int64_t opset);
/// True if the operator is known in some version of `domain`.
bool is_known_op(std::string_view domain, std::string_view name);

/// What to say behind "the operator is not known".
std::string hint(std::string_view domain, std::string_view name);
/// What a model can say instead of an operator whose result depends on data or chance; empty for
/// others.
std::string advice_of(std::string_view domain, std::string_view name);

}  // namespace sinter::frontend
