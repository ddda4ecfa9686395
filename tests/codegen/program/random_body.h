// SPDX-License-Identifier: Apache-2.0
// Random bodies of regions.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "ir/graph.h"

namespace sinter::test {

/// Grows a body by random operators: pointwise ones, views, gathers, reductions of rows. Extents
/// are small, some (unless `constant`) the symbols "batch" and "seq". The same seed gives the same
/// body.
class RandomBody {
 public:
  explicit RandomBody(std::uint64_t seed, bool constant = false);

  ir::Graph pointwise();
  ir::Graph reduction();

 private:
  std::int64_t pick(std::int64_t below);
  const ir::Shape& shape(ir::ValueId value) { return builder_.type(value).shape; }
  ir::Shape random_shape();
  ir::ValueId input(const ir::Shape& shape, DType type = DType::kFloat32);
  /// An input of this shape, at times one that something else reads, too.
  ir::ValueId operand(const ir::Shape& shape);
  ir::ValueId compute(ir::ValueId value);
  ir::ValueId transpose(ir::ValueId value);
  ir::ValueId reshape(ir::ValueId value);
  ir::ValueId view(ir::ValueId value);

  std::mt19937_64 random_;
  ir::GraphBuilder builder_{"random"};
  int inputs_ = 0;
  std::vector<ir::ValueId> operands_;
  bool constant_ = false;
};

}  // namespace sinter::test
