#include <algorithm>

#include "ir/reference/columns.h"
#include "ir/reference/kernels.h"
#include "ir/reference/strided.h"

namespace sinter::ir::reference {

Tensor evaluate_pointwise(const PointwiseDef& def, const Attrs& attrs,
                          std::span<const Tensor> inputs, std::span<const DType> types,
                          DType result, const TensorType& output) {
  const std::vector<std::int64_t> shape = concrete_shape(output.shape);
  const auto count = static_cast<std::size_t>(count_of(shape));
  std::vector<Column> values;
  std::vector<StridedWalk> walks;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    values.push_back(widen(inputs[i], is_float(types[i])));
    walks.emplace_back(shape, broadcast_strides(inputs[i].shape(), shape));
  }
  Column out(is_float(result), count);
  ColumnEvaluator evaluator(def.expr, types, result, attrs);
  for (std::size_t begin = 0; begin < count; begin += ColumnEvaluator::kBlock) {
    const std::size_t n = std::min(ColumnEvaluator::kBlock, count - begin);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      Column& operand = evaluator.operand(static_cast<int>(i));
      for (std::size_t k = 0; k < n; ++k, walks[i].next()) {
        const auto at = static_cast<std::size_t>(walks[i].offset());
        if (operand.floats)
          operand.f[k] = values[i].f[at];
        else
          operand.i[k] = values[i].i[at];
      }
    }
    const Column& block = evaluator.run(n);
    if (out.floats)
      std::copy_n(block.f.begin(), n, out.f.begin() + static_cast<std::ptrdiff_t>(begin));
    else
      std::copy_n(block.i.begin(), n, out.i.begin() + static_cast<std::ptrdiff_t>(begin));
  }
  return out.floats ? Tensor::from_doubles(output.dtype, shape, out.f)
                    : Tensor::from_ints(output.dtype, shape, out.i);
}

}  // namespace sinter::ir::reference
