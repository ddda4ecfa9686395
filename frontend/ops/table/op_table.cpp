#include "frontend/ops/table/op_table.h"

#include <algorithm>
#include <charconv>
#include <tuple>

namespace sinter::frontend {

namespace {

constexpr OpFamily kFamilies[] = {
    {"elementwise", pointwise_ops, Types::kNumbers},
    {"activations", activation_ops, Types::kFloats},
    {"experimental, removed", experimental_ops, Types::kFloats},
    {"reductions", reduce_ops, Types::kNumbers},
    {"shape manipulation", shape_ops, Types::kAny},
    {"slicing", slice_ops, Types::kAny},
    {"gather and scatter", index_ops, Types::kAny},
    {"sorting and top-k", ranking_ops, Types::kNumbers},
    {"detection", suppression_ops, Types::kFloats},
    {"interpolation", resize_ops, Types::kNumbers},
    {"grid sampling", sampling_ops, Types::kFloats},
    {"region-of-interest pooling", roi_align_ops, Types::kFloats},
    {"generators", generator_ops, Types::kAny},
    {"normalization", normalization_ops, Types::kFloats},
    {"matrix products", matmul_ops, Types::kNumbers},
    {"einsum", einsum_ops, Types::kNumbers},
    {"quantization", quantize_ops, Types::kFloats},
    {"signal processing", signal_ops, Types::kFloats},
    {"convolutions", convolution_ops, Types::kFloats},
    {"deformed convolutions", deform_conv_ops, Types::kFloats},
    {"pooling", pooling_ops, Types::kFloats},
    {"recurrent layers", recurrent_ops, Types::kFloats},
    {"attention", attention_ops, Types::kFloats},
    {"state-space models", state_space_ops, Types::kFloats},
    {"control flow", control_flow_ops, Types::kAny},
    {"com.microsoft", microsoft_ops, Types::kFloats},
    {"com.microsoft normalization", microsoft_normalisation_ops, Types::kFloats},
    {"com.microsoft convolutions", microsoft_convolution_ops, Types::kFloats},
    {"com.microsoft attention", microsoft_attention_ops, Types::kFloats},
    {"com.microsoft grouped-query attention", microsoft_group_query_ops, Types::kFloats},
    {"com.microsoft multi-head attention", microsoft_multi_head_ops, Types::kFloats},
    {"com.microsoft position bias", microsoft_position_bias_ops, Types::kFloats},
    {"com.microsoft mixture of experts", microsoft_moe_ops, Types::kFloats},
    {"com.microsoft quantization", microsoft_quantized_ops, Types::kFloats},
    {"com.microsoft integer arithmetic", microsoft_integer_ops, Types::kFloats},
    {"com.microsoft QLinear", microsoft_qlinear_ops, Types::kIntegers},
};

}  // namespace

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

bool has_type(Types types, DType dtype) {
  switch (types) {
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
    std::from_chars(text.data(), text.data() + text.size(), to);  // an empty one leaves it
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
      for (OpRow row : family.rows()) {
        if (row.types == Types::kOfFamily) row.types = family.types;
        all.push_back(row);
      }
    std::sort(all.begin(), all.end(), [](const OpRow& a, const OpRow& b) {
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
  return std::any_of(all_op_rows().begin(), all_op_rows().end(),
                     [&](const OpRow& row) { return row.domain == domain && row.name == name; });
}

}  // namespace sinter::frontend
