// SPDX-License-Identifier: Apache-2.0
#include "frontend/ops/table/op_table.h"

#include <algorithm>
#include <charconv>
#include <tuple>

namespace sinter::frontend {

namespace {

/// ONNX operators whose inputs may be 8-bit floats. tests/conformance/check_schemas.py compares the
/// list with ONNX's schemas.
constexpr std::string_view kOfFloat8[] = {
    "BitCast",        "Cast",    "CastLike",      "DequantizeLinear",
    "Dropout",        "Flatten", "Identity",      "IsInf",
    "IsNaN",          "Loop",    "Pad",           "QLinearMatMul",
    "QuantizeLinear", "Reshape", "Scan",          "Shape",
    "Size",           "Squeeze", "TensorScatter", "Transpose",
    "Unsqueeze"};

constexpr OpFamily kFamilies[] = {
    {"elementwise", &kPointwiseOps, Types::kNumbers},
    {"activations", &kActivationOps, Types::kFloats},
    {"experimental, removed", &kExperimentalOps, Types::kFloats},
    {"reductions", &kReduceOps, Types::kNumbers},
    {"shape manipulation", &kShapeOps, Types::kAny},
    {"slicing", &kSliceOps, Types::kAny},
    {"slicing", &kSplitOps, Types::kAny},
    {"slicing", &kPadOps, Types::kAny},
    {"gather and scatter", &kIndexOps, Types::kAny},
    {"sorting and top-k", &kRankingOps, Types::kNumbers},
    {"detection", &kSuppressionOps, Types::kFloats},
    {"interpolation", &kResizeOps, Types::kNumbers},
    {"grid sampling", &kSamplingOps, Types::kFloats},
    {"region-of-interest pooling", &kRoiAlignOps, Types::kFloats},
    {"generators", &kGeneratorOps, Types::kAny},
    {"selection", &kSelectionOps, Types::kAny},
    {"selection", &kUniqueOps, Types::kAny},
    {"normalization", &kNormalizationOps, Types::kFloats},
    {"matrix products", &kMatmulOps, Types::kNumbers},
    {"einsum", &kEinsumOps, Types::kNumbers},
    {"quantization", &kQuantizeOps, Types::kFloats},
    {"signal processing", &kSignalOps, Types::kFloats},
    {"convolutions", &kConvolutionOps, Types::kFloats},
    {"deformed convolutions", &kDeformConvOps, Types::kFloats},
    {"pooling", &kPoolingOps, Types::kFloats},
    {"recurrent layers", &kRecurrentOps, Types::kFloats},
    {"attention", &kAttentionOps, Types::kFloats},
    {"state-space models", &kStateSpaceOps, Types::kFloats},
    {"linear attention", &kLinearAttentionOps, Types::kFloats},
    {"control flow", &kControlFlowOps, Types::kAny},
    {"ai.onnx.ml tree ensembles", &kTreeOps, Types::kNumbers},
    {"ai.onnx.ml linear models", &kLinearModelOps, Types::kNumbers},
    {"ai.onnx.ml support vector machines", &kSupportVectorOps, Types::kNumbers},
    {"ai.onnx.ml features", &kFeatureOps, Types::kNumbers},
    {"com.microsoft", &kMicrosoftOps, Types::kFloats},
    {"com.microsoft arithmetic", &kMicrosoftArithmeticOps, Types::kFloats},
    {"com.microsoft normalization", &kMicrosoftNormalisationOps, Types::kFloats},
    {"com.microsoft convolutions", &kMicrosoftConvolutionOps, Types::kFloats},
    {"com.microsoft attention", &kMicrosoftAttentionOps, Types::kFloats},
    {"com.microsoft grouped-query attention", &kMicrosoftGroupQueryOps, Types::kFloats},
    {"com.microsoft paged attention", &kMicrosoftPagedAttentionOps, Types::kFloats},
    {"com.microsoft sparse attention", &kMicrosoftSparseAttentionOps, Types::kFloats},
    {"com.microsoft multi-head attention", &kMicrosoftMultiHeadOps, Types::kFloats},
    {"com.microsoft position bias", &kMicrosoftPositionBiasOps, Types::kFloats},
    {"com.microsoft mixture of experts", &kMicrosoftMoeOps, Types::kFloats},
    {"com.microsoft quantization", &kMicrosoftQuantizedOps, Types::kFloats},
    {"com.microsoft quantization", &kMicrosoftQuantizedLayerOps, Types::kFloats},
    {"com.microsoft integer arithmetic", &kMicrosoftIntegerOps, Types::kFloats},
    {"com.microsoft QLinear", &kMicrosoftQlinearOps, Types::kIntegers},
    {"TensorRT", &kTrtOps, Types::kFloats},
};

constexpr std::string_view kMovesStrings[] = {"ArrayFeatureExtractor",
                                              "Concat",
                                              "Expand",
                                              "Flatten",
                                              "Gather",
                                              "GatherElements",
                                              "GatherND",
                                              "Identity",
                                              "Reshape",
                                              "Slice",
                                              "Split",
                                              "Squeeze",
                                              "Tile",
                                              "Transpose",
                                              "Unsqueeze",
                                              "Where"};
constexpr std::string_view kReadsStrings[] = {
    "Cast", "CategoryMapper", "Equal",         "If",    "LabelEncoder",
    "Loop", "MurmurHash3",    "OneHotEncoder", "Shape", "Size"};

}  // namespace

Strings strings_of(std::string_view domain, std::string_view name) {
  if (!domain.empty() && domain != kMl && domain != kMicrosoft) return Strings::kRefuses;
  if (std::ranges::find(kMovesStrings, name) != std::end(kMovesStrings)) return Strings::kMoves;
  return std::ranges::find(kReadsStrings, name) != std::end(kReadsStrings) ? Strings::kReads
                                                                           : Strings::kRefuses;
}

std::string_view to_string(Types types) {
  switch (types) {
    case Types::kOfFamily: return "";
    case Types::kAny: return "any";
    case Types::kNumbers: return "numbers";
    case Types::kFloats: return "floats";
    case Types::kIntegers: return "integers";
    case Types::kBools: return "bool";
  }
  return "";
}

bool takes_type(const OpRow& row, DType dtype) {
  if (is_float8(dtype)) return row.takes_float8;
  switch (row.types) {
    case Types::kOfFamily: return false;
    case Types::kAny: return true;
    case Types::kNumbers: return dtype != DType::kBool;
    case Types::kFloats: return is_float(dtype);
    case Types::kIntegers: return is_integer(dtype);
    case Types::kBools: return dtype == DType::kBool;
  }
  return false;
}

std::int64_t holds_until(const OpRow& row) {
  if (row.until != 0) return row.until;
  return row.domain.empty() ? kRowsHoldUntil : row.since_version;
}

std::vector<OpAttribute> attributes_of(const OpRow& row) {
  const auto number = [](std::string_view text, std::int64_t& to) {
    std::from_chars(text.data(), text.data() + text.size(), to);  // empty text leaves `to`
                                                                  // unchanged
  };
  std::vector<OpAttribute> attributes;
  std::string_view rest = row.attributes;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    const std::string_view word = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const std::size_t colon = std::min(word.find(':'), word.size());
    OpAttribute attribute{word.substr(0, colon), row.since_version, holds_until(row)};
    if (colon < word.size()) {
      const std::size_t dash = word.find('-', colon);
      number(word.substr(colon + 1, dash - colon - 1), attribute.first);
      number(word.substr(dash + 1), attribute.last);
    }
    attributes.push_back(attribute);
  }
  return attributes;
}

std::span<const OpFamily> op_families() { return kFamilies; }

const std::vector<OpRow>& all_op_rows() {
  static const std::vector<OpRow> rows = [] {
    std::vector<OpRow> all;
    for (const OpFamily& family : kFamilies)
      for (OpRow row : *family.rows) {
        if (row.types == Types::kOfFamily) row.types = family.types;
        row.takes_float8 =
            row.takes_float8 ||
            (row.domain.empty() && std::ranges::find(kOfFloat8, row.name) != std::end(kOfFloat8));
        all.push_back(row);
      }
    std::ranges::sort(all, [](const OpRow& a, const OpRow& b) {
      return std::tie(a.domain, a.name, a.since_version) <
             std::tie(b.domain, b.name, b.since_version);
    });
    return all;
  }();
  return rows;
}

const OpRow* find_op_row(std::string_view domain, std::string_view name, std::int64_t opset) {
  const OpRow* found = nullptr;
  for (const OpRow& row : all_op_rows())
    if (row.domain == domain && row.name == name && row.since_version <= opset) found = &row;
  return found;
}

bool is_known_op(std::string_view domain, std::string_view name) {
  return std::ranges::any_of(
      all_op_rows(), [&](const OpRow& row) { return row.domain == domain && row.name == name; });
}

}  // namespace sinter::frontend
