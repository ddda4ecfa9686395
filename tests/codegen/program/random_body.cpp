// SPDX-License-Identifier: Apache-2.0
#include "random_body.h"

#include <algorithm>
#include <vector>

namespace sinter::test {

using ir::Dim;
using ir::ValueId;

RandomBody::RandomBody(std::uint64_t seed, bool constant) : random_(seed), constant_(constant) {
  if (constant) return;
  builder_.range("batch", {1, 8, nullptr});
  builder_.range("seq", {1, 8, nullptr});
}

ir::Graph RandomBody::pointwise() {
  ValueId value = input(random_shape());
  const std::int64_t count = 2 + pick(10);
  for (std::int64_t i = 0; i < count; ++i) value = pick(5) < 2 ? compute(value) : view(value);
  builder_.output("y", value);
  if (pick(3) == 0) builder_.output("z", compute(value));
  return builder_.finish();
}

ir::Graph RandomBody::reduction() {
  ValueId value = input(random_shape());
  for (std::int64_t i = pick(4); i > 0; --i) value = pick(2) ? compute(value) : view(value);
  const std::size_t rank = shape(value).size();
  std::vector<std::int64_t> axes;
  for (std::size_t d = 0; d < rank; ++d)
    if (pick(3) == 0) axes.push_back(static_cast<std::int64_t>(d));
  if (axes.empty()) axes.push_back(pick(static_cast<std::int64_t>(rank)));
  const ir::Attrs attrs = {{"axes", axes}, {"keepdims", std::int64_t{1}}};
  // Norms one after the other, perhaps with weights that they share, and of what they began with.
  const ValueId first = value;
  ValueId mean;
  for (std::int64_t norms = 1 + pick(3) / 2;; --norms) {
    mean = builder_.add("ReduceMean", {value}, attrs);
    const ValueId centred = builder_.add("Sub", {value, mean});
    const ValueId square = builder_.add("ReduceSumSquare", {centred}, attrs);
    value = builder_.add("Mul", {centred, square});
    for (std::int64_t i = pick(3); i > 0; --i) value = compute(value);
    if (norms == 1) break;
    value = builder_.add("Tanh", {value});  // powers of powers would magnify what rounding does
    if (pick(2) == 0) value = builder_.add("Add", {value, first});
  }
  const bool per_row = pick(2) == 0;
  switch (pick(3)) {
    case 0: value = transpose(value); break;
    case 1: value = reshape(value); break;
    default: break;
  }
  builder_.output("y", value);
  if (per_row) builder_.output("mean", mean);
  return builder_.finish();
}

std::int64_t RandomBody::pick(std::int64_t below) {
  return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(below));
}

ir::Shape RandomBody::random_shape() {
  ir::Shape result;
  for (std::int64_t d = 1 + pick(4); d > 0; --d) {
    const std::int64_t kind = constant_ ? 2 + pick(6) : pick(8);
    result.push_back(kind == 0   ? Dim::symbol("batch")
                     : kind == 1 ? Dim::symbol("seq")
                     : kind == 2 ? Dim(1)
                                 : Dim(std::vector<int>{2, 3, 4, 6, 6}[std::size_t(kind - 3)]));
  }
  return result;
}

ValueId RandomBody::input(const ir::Shape& shape, DType type) {
  return builder_.input("x" + std::to_string(inputs_++), {type, shape});
}

ValueId RandomBody::operand(const ir::Shape& shape) {
  std::vector<ValueId> same;
  for (const ValueId known : operands_)
    if (builder_.type(known).shape == shape) same.push_back(known);
  if (!same.empty() && pick(2) == 0)
    return same[static_cast<std::size_t>(pick(static_cast<std::int64_t>(same.size())))];
  operands_.push_back(input(shape));
  return operands_.back();
}

ValueId RandomBody::compute(ValueId value) {
  switch (pick(4)) {
    case 0: return builder_.add("Tanh", {value});
    case 1: return builder_.add("Abs", {value});
    case 2: return builder_.add("Mul", {value, value});
    default: break;
  }
  ir::Shape other = shape(value);
  for (Dim& dim : other)
    if (pick(3) == 0) dim = 1;
  if (!other.empty() && pick(3) == 0) other.erase(other.begin());
  const ValueId added = operand(other);
  return pick(2) ? builder_.add("Add", {value, added}) : builder_.add("Sub", {added, value});
}

ValueId RandomBody::transpose(ValueId value) {
  std::vector<std::int64_t> perm(shape(value).size());
  for (std::size_t d = 0; d < perm.size(); ++d) perm[d] = static_cast<std::int64_t>(d);
  std::shuffle(perm.begin(), perm.end(), random_);
  return builder_.add("Transpose", {value}, {{"perm", perm}});
}

ValueId RandomBody::reshape(ValueId value) {
  ir::Shape to = shape(value);
  const auto d = static_cast<std::size_t>(pick(static_cast<std::int64_t>(to.size())));
  const std::int64_t kind = pick(3);
  const auto at = to.begin() + static_cast<std::ptrdiff_t>(d);
  if (kind == 0 && d + 1 < to.size()) {
    to[d] = to[d] * to[d + 1];
    to.erase(at + 1);
  } else if (kind == 1) {
    for (const int factor : {2, 3}) {
      const auto rest = ir::divide_exactly(to[d], Dim(factor));
      if (!rest) continue;
      to[d] = pick(2) ? Dim(factor) : *rest;
      to.insert(to.begin() + static_cast<std::ptrdiff_t>(d) + 1,
                to[d] == Dim(factor) ? *rest : Dim(factor));
      break;
    }
  } else {
    to.insert(at, Dim(1));
  }
  return builder_.add("Reshape", {value}, {{"shape", to}});
}

ValueId RandomBody::view(ValueId value) {
  const ir::Shape from = shape(value);
  const auto d = static_cast<std::size_t>(pick(static_cast<std::int64_t>(from.size())));
  const bool fixed = from[d].is_constant();
  switch (pick(7)) {
    case 0:
    case 1: return transpose(value);
    case 2:
    case 3: return reshape(value);
    case 4: {
      if (!fixed || from[d].value() < 3) break;
      std::vector<Dim> starts(from.size(), Dim(0));
      std::vector<std::int64_t> steps(from.size(), 1);
      ir::Shape to = from;
      const bool backwards = pick(2) == 0;
      starts[d] = backwards ? Dim(from[d].value() - 1) : Dim(1);
      steps[d] = backwards ? -2 : 1;
      to[d] = backwards ? Dim((from[d].value() + 1) / 2) : Dim(from[d].value() - 1);
      return builder_.add("Slice", {value}, {{"starts", starts}, {"steps", steps}, {"shape", to}});
    }
    case 5: {
      if (pick(2)) {
        std::vector<Dim> begins(from.size(), Dim(0)), ends(from.size(), Dim(0));
        begins[d] = Dim(pick(3));
        ends[d] = Dim(pick(2));
        return builder_.add(
            "Pad", {value},
            {{"begins", begins}, {"ends", ends}, {"fill", static_cast<double>(pick(3))}});
      }
      ir::Shape other = from;
      other[d] = Dim(1 + pick(3));
      return pick(2) ? builder_.add("Concat", {value, input(other)},
                                    {{"axis", static_cast<std::int64_t>(d)}})
                     : builder_.add("Concat", {input(other), value, value},
                                    {{"axis", static_cast<std::int64_t>(d)}});
    }
    default: {
      if (pick(2) && fixed && from[d].value() >= 3) {
        const ValueId data = input(from);
        const ValueId indices = input({Dim(2), Dim(2)}, DType::kInt64);
        return builder_.add("Gather", {data, indices}, {{"axis", static_cast<std::int64_t>(d)}});
      }
      ir::Shape to = from;
      if (to[d] == Dim(1)) to[d] = Dim(3);
      to.insert(to.begin(), Dim(2));
      return builder_.add("Expand", {value}, {{"shape", to}});
    }
  }
  return value;
}

}  // namespace sinter::test
