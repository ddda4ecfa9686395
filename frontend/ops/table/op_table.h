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

/// Imports one node: reads its inputs and attributes, sets its outputs.
using ImportFunction = void (*)(NodeContext& node);

inline constexpr std::string_view kMicrosoft = "com.microsoft";
inline constexpr std::string_view kMl = "ai.onnx.ml";
inline constexpr std::string_view kTrt = "trt";  // TensorRT's operators, as its Model Optimizer
                                                 // writes them
/// The last version of ai.onnx.ml for which its rows hold: all were compared with its schemas.
inline constexpr std::int64_t kMlHoldsUntil = 5;

/// Element types of the data that an operator computes on; sizes, indices and masks have other
/// types.
enum class Types : std::uint8_t { kOfFamily, kAny, kNumbers, kFloats, kIntegers, kBools };
std::string_view to_string(Types types);

/// How an operator handles constants of 4-bit integers, which are stored as int8 or uint8: refuses
/// them, reads them, or only changes their shape (its first output is then 4-bit, too).
enum class FourBits : std::uint8_t { kRefuses, kReads, kKeeps };

/// The last version of ai.onnx for which a row holds by default: all were compared with ONNX's
/// schemas up to it. To raise it, run tests/conformance/check_schemas.py with a newer ONNX.
inline constexpr std::int64_t kRowsHoldUntil = 28;

/// How an operator handles inputs whose integers stand for strings (model/texts.h): refuses them,
/// reads them, or only moves them (what its output stands for is then what its inputs do).
enum class Strings : std::uint8_t { kRefuses, kReads, kMoves };
Strings strings_of(std::string_view domain, std::string_view name);

/// One operator: `import` handles `name` of `domain` ("" is ai.onnx) from `since_version` on, until
/// a row of the same name with a higher version.
struct OpRow {
  std::string_view name;
  int since_version = 1;
  ImportFunction import = nullptr;
  /// Names of the supported attributes, separated by spaces; others are errors. Versions follow
  /// where not all have it: "k:-9 largest:11- directions:8-8".
  std::string_view attributes = {};
  std::string_view domain = {};
  Types types = Types::kOfFamily;
  FourBits four_bits = FourBits::kRefuses;
  /// The last version of the domain for which the row holds. 0: kRowsHoldUntil or, for other
  /// domains, which have only one version, `since_version`.
  std::int64_t until = 0;
  /// Inputs may be 8-bit floats, which few ONNX operators accept; see op_table.cpp.
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
/// The attributes of `row`, in its order, with the versions of the row that have them.
std::vector<OpAttribute> attributes_of(const OpRow& row);

/// One family of operators per file in this folder.
extern const OpRows kPointwiseOps, kActivationOps, kExperimentalOps, kReduceOps, kShapeOps,
    kSliceOps, kSplitOps, kPadOps, kGeneratorOps, kNormalizationOps, kMatmulOps, kEinsumOps,
    kQuantizeOps, kSignalOps, kConvolutionOps, kDeformConvOps, kPoolingOps, kControlFlowOps,
    kRecurrentOps, kAttentionOps, kStateSpaceOps, kLinearAttentionOps, kMicrosoftOps,
    kMicrosoftNormalisationOps, kMicrosoftConvolutionOps, kMicrosoftAttentionOps,
    kMicrosoftGroupQueryOps, kMicrosoftPagedAttentionOps, kMicrosoftSparseAttentionOps,
    kMicrosoftMultiHeadOps, kMicrosoftPositionBiasOps, kMicrosoftMoeOps, kMicrosoftQuantizedOps,
    kMicrosoftIntegerOps, kMicrosoftQlinearOps, kMicrosoftArithmeticOps,
    kMicrosoftQuantizedLayerOps, kTrtOps, kIndexOps, kRankingOps, kSelectionOps, kSuppressionOps,
    kUniqueOps, kResizeOps, kSamplingOps, kRoiAlignOps, kTreeOps, kLinearModelOps,
    kSupportVectorOps, kFeatureOps;

struct OpFamily {
  std::string_view title;
  const OpRows* rows = nullptr;
  Types types = Types::kFloats;  // default for rows without types
};
std::span<const OpFamily> op_families();

/// All rows of all families, by name and version.
const std::vector<OpRow>& all_op_rows();
/// The row for `name` in version `opset` of `domain`, or null. It may hold only for lower versions.
const OpRow* find_op_row(std::string_view domain, std::string_view name, std::int64_t opset);
/// True if some version of `domain` has the operator.
bool is_known_op(std::string_view domain, std::string_view name);

/// A hint after "the operator is not known".
std::string hint(std::string_view domain, std::string_view name);
/// An alternative to an operator whose result depends on data or chance; empty for others.
std::string advice_of(std::string_view domain, std::string_view name);

}  // namespace sinter::frontend
