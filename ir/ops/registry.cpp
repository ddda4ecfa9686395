// SPDX-License-Identifier: Apache-2.0
// The lookup declared in ir/op_def.h, over the tables of this folder.
#include <algorithm>

#include <fmt/format.h>
#include <sinter/error.h>

#include "ir/op_def.h"
#include "ir/ops/ops.h"

// The tables: X(name) for each function name_ops() of a file in this folder.
// clang-format off
#define SINTER_OP_TABLES(X) \
  X(pointwise)        \
  X(reduce)           \
  X(view)             \
  X(indexed)          \
  X(ordered)          \
  X(groups)           \
  X(matmul)           \
  X(mixture)          \
  X(attention)        \
  X(conv)             \
  X(collective)       \
  X(composite)        \
  X(fused)            \
  X(while)            \
  X(extent)           \
  X(suppression)      \
  X(selection)        \
  X(transform)        \
  X(linear_algebra)   \
  X(sampling)         \
  X(tree)             \
  X(recurrent)        \
  X(linear_attention) \
  X(causal_conv)      \
  X(custom)
// clang-format on

namespace sinter::ir {
namespace ops {
#define SINTER_OP_TABLE(name) std::vector<OpDef> name##_ops();
SINTER_OP_TABLES(SINTER_OP_TABLE)
#undef SINTER_OP_TABLE
}  // namespace ops

namespace {

/// Built on first use, independent of the order of static initialization.
class Registry {
 public:
  static const Registry& get() {
    static const Registry registry;
    return registry;
  }

  const OpDef* find(std::string_view name) const {
    const auto it = std::ranges::lower_bound(sorted_, name, {}, &OpDef::name);
    return it != sorted_.end() && (*it)->name == name ? *it : nullptr;
  }

  const std::vector<const OpDef*>& sorted() const { return sorted_; }

 private:
  Registry() {
#define SINTER_OP_TABLE(name) &ops::name##_ops,
    for (auto* table : {SINTER_OP_TABLES(SINTER_OP_TABLE)})
#undef SINTER_OP_TABLE
      for (OpDef& op : table()) ops_.push_back(std::move(op));
    for (const OpDef& op : ops_) sorted_.push_back(&op);
    std::ranges::sort(sorted_, {}, &OpDef::name);
    for (std::size_t i = 1; i < sorted_.size(); ++i)
      if (sorted_[i]->name == sorted_[i - 1]->name)
        throw Error(ErrorCode::kInternal,
                    fmt::format("operator '{}' is defined twice", sorted_[i]->name));
  }

  std::vector<OpDef> ops_;
  std::vector<const OpDef*> sorted_;
};

}  // namespace

const OpDef* find_op(std::string_view name) { return Registry::get().find(name); }

const OpDef& get_op(std::string_view name) {
  const OpDef* op = find_op(name);
  if (op == nullptr)
    throw Error(ErrorCode::kInternal, fmt::format("there is no operator '{}'", name));
  return *op;
}

const std::vector<const OpDef*>& all_ops() { return Registry::get().sorted(); }

}  // namespace sinter::ir
