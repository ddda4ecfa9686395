// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "runtime/operators/groups/groups.h"

namespace sinter::runtime::cpu {
namespace {

class LastByIndex final : public PreparedOperator {
 public:
  explicit LastByIndex(const OperatorCall& call)
      : type_(call.type_of_input(0)), count_(call.sizes["count"]), rows_(call.sizes["rows"]) {}

  void run(const Operands& operands, std::span<std::byte* const>) const override {
    const Indices index(operands, 0, type_);
    auto* last = operands.output<std::int32_t>(0);
    std::fill_n(last, rows_, -1);
    for (std::int64_t i = 0; i < count_; ++i)
      last[row_at(index[i], rows_)] = static_cast<std::int32_t>(i);
  }

 private:
  DType type_;
  std::int64_t count_, rows_;
};

}  // namespace

const OperatorKernel& last_by_index_kernel() {
  static const OperatorKernel kernel = {"last_by_index", prepare<LastByIndex>};
  return kernel;
}

}  // namespace sinter::runtime::cpu
