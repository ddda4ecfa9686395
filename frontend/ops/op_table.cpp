#include "frontend/ops/op_table.h"

#include <algorithm>
#include <tuple>

namespace sinter::frontend {

const std::vector<OpRow>& all_op_rows() {
  static const std::vector<OpRow> rows = [] {
    std::vector<OpRow> all;
    for (const auto family :
         {pointwise_ops(), activation_ops(), reduce_ops(), shape_ops(), slice_ops(),
          generator_ops(), normalization_ops(), matmul_ops(), einsum_ops(), quantize_ops(), signal_ops(), convolution_ops(), pooling_ops(),
          control_flow_ops(), recurrent_ops(), attention_ops(), state_space_ops(), microsoft_ops(),
          microsoft_attention_ops(), index_ops(), ranking_ops(), resize_ops(), sampling_ops()})
      all.insert(all.end(), family.begin(), family.end());
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
